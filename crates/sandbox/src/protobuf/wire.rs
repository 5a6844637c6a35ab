//! The wire format: tagged numbers and length-prefixed bytes.

/// Writes one message.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number.to_le_bytes()[0] & 0x7f) | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// A string or bytes.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A number or a boolean.
    pub(super) fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    /// A nested message.
    pub(super) fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// One undecoded field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Splits a message into its fields.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Raw<'_>)>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let raw = match tag & 7 {
            0 => Raw::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|err| err.to_string())?;
                let (inside, rest) =
                    bytes.split_at_checked(length).ok_or("protobuf: a field is longer than its message")?;
                bytes = rest;
                Raw::Bytes(inside)
            }
            other => return Err(format!("protobuf: wire type {other} is not understood here")),
        };
        fields.push((tag >> 3, raw));
    }
    Ok(fields)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or("protobuf: the message ends within a number")?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("protobuf: a number is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_message_can_be_read() {
        let mut inner = Writer::default();
        inner.bytes(1, b"hi");
        let mut writer = Writer::default();
        writer.number(3, 300);
        writer.number(4, u64::MAX);
        writer.message(20, &inner);
        let bytes = writer.finish();
        let read = fields(&bytes).unwrap();
        assert_eq!(read[0], (3, Raw::Number(300)));
        assert_eq!(read[1], (4, Raw::Number(u64::MAX)));
        let Raw::Bytes(inner) = read[2].1 else { panic!("bytes") };
        assert_eq!(fields(inner).unwrap(), [(1, Raw::Bytes(b"hi"))]);
    }

    #[test]
    fn a_truncated_message_is_rejected() {
        for bytes in [&[0x80][..], &[0x0a, 5, 1], &[0x08], &[0x0d, 0, 0, 0, 0]] {
            assert!(fields(bytes).is_err(), "{bytes:?}");
        }
    }
}
