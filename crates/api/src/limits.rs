//! The limits of the lists, maps and texts of a status. The schema has them, and
//! [`OrderedDeploymentStatus::limit`](crate::OrderedDeploymentStatus::limit) keeps them where an API server
//! does not.

/// The longest name, UID or hash.
pub const NAME: usize = 253;
/// The longest id of a pause point.
pub const ID: usize = 512;
/// The longest reason in words, and the longest reason of a condition.
pub const REASON: usize = 1024;
/// The longest type of a condition.
pub const TYPE: usize = 316;
/// The longest message of a condition.
pub const MESSAGE: usize = 32_768;
/// The longest time.
pub const TIME: usize = 64;
/// The longest selector: 64 labels and 64 expressions with 64 values each.
pub const SELECTOR: usize = 400_000;
/// The most conditions.
pub const CONDITIONS: usize = 16;
/// The most passed pause points in each of the two lists.
pub const PASSED: usize = 1024;
/// The most pause points ahead: 64 marks, one that stands for the others, 32 declared points, and the groups
/// of nodes of one of them.
pub const POINTS: usize = 1024;
/// The most sets with stored sizes.
pub const SIZES: usize = 1024;

/// Cuts a text to so many characters.
pub fn cut(text: &mut String, most: usize) -> bool {
    // Most texts have fewer bytes.
    let end = if text.len() > most { text.char_indices().nth(most).map(|(at, _)| at) } else { None };
    if let Some(end) = end {
        text.truncate(end);
    }
    end.is_some()
}
