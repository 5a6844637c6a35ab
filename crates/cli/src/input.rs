//! Reads files and standard input, up to a size limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// An API server accepts objects of up to 3 MiB. The limit keeps endless input from using all memory.
const LIMIT: u64 = 64 << 20;

/// The text of the file; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return text(std::io::stdin(), "standard input");
    }
    let name = path.display().to_string();
    text(File::open(path).with_context(|| format!("cannot read {name}"))?, &name)
}

fn text(source: impl Read, name: &str) -> Result<String> {
    let mut text = String::new();
    let read = source.take(LIMIT + 1).read_to_string(&mut text);
    let read = read.with_context(|| format!("cannot read {name}"))?;
    if u64::try_from(read).is_ok_and(|read| read > LIMIT) {
        bail!("{name} is larger than {} MiB: not a manifest", LIMIT >> 20);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::text;

    #[test]
    fn endless_input_is_refused() {
        let error = text(std::io::repeat(b'y'), "it").unwrap_err().to_string();
        assert_eq!(error, "it is larger than 64 MiB: not a manifest");
        assert_eq!(text(std::io::repeat(b'y').take(3), "it").unwrap(), "yyy");
    }

    #[test]
    fn input_that_is_not_utf8_is_an_error() {
        let error = format!("{:#}", text([0xff, 0xfe].as_slice(), "it").unwrap_err());
        assert!(error.starts_with("cannot read it: "), "{error}");
    }
}
