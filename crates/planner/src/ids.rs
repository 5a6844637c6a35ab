//! The ids of pause points, and which of them are passed. Read only.

use ordereddeployment_api::{OrderedDeploymentStatus, PassedBy};

/// The id of a point: `<name>@<revision>`, and `<name>@<revision>.2` for one that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id<'t> {
    pub(crate) name: &'t str,
    pub(crate) revision: i64,
    pub(crate) time: u32,
}

impl<'t> Id<'t> {
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let (name, rest) = text.rsplit_once('@')?;
        let (revision, time) = match rest.split_once('.') {
            Some((revision, time)) => (revision, time.parse().ok().filter(|time| *time > 1)?),
            None => (rest, 1),
        };
        Some(Self { name, revision: revision.parse().ok()?, time })
    }
}

impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.revision)?;
        if self.time > 1 { write!(f, ".{}", self.time) } else { Ok(()) }
    }
}

/// The last time that a point of this name was passed, and how.
pub(crate) fn last(status: &OrderedDeploymentStatus, name: &str) -> Option<(u32, PassedBy)> {
    let passed = status.passed.iter().flatten();
    let of_name = passed.filter_map(|passed| Some((Id::parse(&passed.id)?, passed.by)));
    let of_name = of_name.filter(|(id, _)| id.name == name).map(|(id, by)| (id.time, by));
    of_name.max_by_key(|(time, _)| *time)
}
