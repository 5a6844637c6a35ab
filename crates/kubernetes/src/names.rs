//! Random suffixes of names. The controller names pods itself: a repeated POST creates no second one.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Letters and digits that form no words, as in Kubernetes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Long enough that two pods of one OrderedDeployment never get the same name.
const LENGTH: usize = 8;
/// The name of a pod is also its host name, which is limited to this length.
const LONGEST_POD_NAME: usize = 63;

/// A source of random names. Clones share it.
#[derive(Clone)]
pub struct Names(Arc<Mutex<StdRng>>);

impl Names {
    /// Different names in each process.
    #[must_use]
    pub fn random() -> Self {
        Self::seeded(rand::random())
    }

    /// The same names for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Eight random characters.
    #[must_use]
    pub fn suffix(&self) -> String {
        let mut rng = self.0.lock();
        (0..LENGTH).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
    }

    /// A name for a pod of that set.
    #[must_use]
    pub fn pod(&self, set: &str) -> String {
        let mut end = set.len().min(LONGEST_POD_NAME - LENGTH - 1);
        while !set.is_char_boundary(end) {
            end -= 1;
        }
        let prefix = set[..end].trim_end_matches(['-', '.']);
        format!("{prefix}-{}", self.suffix())
    }
}

/// A message about a pod without the random suffix of its name, so that equal failures are counted as one.
#[must_use]
pub fn without_name(words: &str, pod: &str, set: &str) -> String {
    words.replace(pod, &format!("{set}-"))
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_long_set_name_is_cut_so_that_the_host_name_keeps_the_random_part() {
        let name = Names::seeded(1).pod(&format!("{}-{}", "a".repeat(53), "h".repeat(10)));
        assert!(name.len() <= 63, "{name}");
        assert!(!name.contains("--"), "{name}");
    }
}
