//! The operations and their probabilities.

use proptest::prelude::*;

use super::edits;
use super::side::Kind;

/// One object of a kind: a fixed name, or the n-th name that the server generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Fixed(&'static str),
    Generated(usize),
}

/// The version in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    None,
    Current,
    Stale,
    Garbage,
}

/// The UID in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uid {
    None,
    Current,
    Wrong,
}

/// The two patch types that are documents, and the one that is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Merge,
    Strategic,
    Json,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Create {
        kind: Kind,
        name: Option<&'static str>,
        edit: usize,
        dry: bool,
    },
    /// Creates an object with an owner, which may be absent.
    CreateDependent {
        kind: Kind,
        name: &'static str,
        owner_kind: Kind,
        owner: Name,
        blocks: bool,
    },
    Get {
        kind: Kind,
        name: Name,
    },
    Update {
        kind: Kind,
        name: Name,
        part: &'static str,
        edit: usize,
        version: Version,
        dry: bool,
    },
    Patch {
        kind: Kind,
        name: Name,
        part: &'static str,
        form: PatchKind,
        edit: usize,
        dry: bool,
    },
    GetScale {
        kind: Kind,
        name: Name,
    },
    PutScale {
        kind: Kind,
        name: Name,
        replicas: i32,
        version: Version,
    },
    Evict {
        name: Name,
        uid: Uid,
        version: Version,
        dry: bool,
    },
    Bind {
        name: Name,
    },
    Delete {
        kind: Kind,
        name: Name,
        policy: &'static str,
        grace: Option<i64>,
        uid: Uid,
        version: Version,
        dry: bool,
    },
    DeleteCollection {
        kind: Kind,
        selector: &'static str,
    },
    List {
        kind: Kind,
        labels: &'static str,
        fields: &'static str,
    },
    /// The list at a moment of this sequence.
    ListAt {
        kind: Kind,
        moment: usize,
        limit: usize,
    },
    Pages {
        kind: Kind,
        limit: usize,
        write_between: bool,
    },
}

impl Operation {
    /// The name of the operation, without its object.
    pub fn title(&self) -> String {
        match self {
            Self::Create { kind, edit, .. } => format!("create {kind:?} {}", edits::edit(*kind, *edit)),
            Self::Get { kind, .. } => format!("get {kind:?}"),
            Self::Update { kind, part, edit, .. } => {
                format!("update {kind:?} {part} {}", edits::edit(*kind, *edit))
            }
            Self::Patch { kind, part, form: PatchKind::Json, edit, .. } => {
                format!("patch {kind:?} {part} {}", edits::list(*kind, *edit))
            }
            Self::Patch { kind, part, form, edit, .. } => {
                format!("patch {kind:?} {part} {form:?} {}", edits::edit(*kind, *edit))
            }
            other => format!("{other:?}"),
        }
    }
}

/// Names of objects with owners.
const DEPENDENTS: [&str; 2] = ["c", "d"];

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::ConfigMap,
        Kind::Gadget,
        Kind::Gadget,
        Kind::ReplicaSet,
        Kind::Pod,
        Kind::Pod,
    ])
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        8 => prop::sample::select(vec!["a", "b"]).prop_map(Name::Fixed),
        1 => Just(Name::Fixed("absent")),
        1 => (0_usize..2).prop_map(Name::Generated),
        2 => prop::sample::select(DEPENDENTS.to_vec()).prop_map(Name::Fixed),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![
        4 => Just(Version::Current),
        2 => Just(Version::None),
        2 => Just(Version::Stale),
        1 => Just(Version::Garbage),
    ]
}

fn uid() -> impl Strategy<Value = Uid> {
    prop_oneof![4 => Just(Uid::None), 3 => Just(Uid::Current), 1 => Just(Uid::Wrong)]
}

fn dry() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn part() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(""), 1 => Just("status"), 1 => Just("scale")]
}

fn edit() -> impl Strategy<Value = usize> {
    0..edits::COUNT
}

/// Any operation. Creates are frequent enough that objects exist.
pub fn any() -> impl Strategy<Value = Operation> {
    let created = prop_oneof![4 => prop::sample::select(vec!["a", "b"]).prop_map(Some), 1 => Just(None)];
    let patch_form = prop::sample::select(vec![PatchKind::Merge, PatchKind::Strategic, PatchKind::Json]);
    let policy = prop::sample::select(vec!["", "", "", "Background", "Foreground", "Orphan", "Sometimes"]);
    let grace = prop::option::weighted(0.4, prop::sample::select(vec![0_i64, 1, 60, -1]));
    let labels = prop::sample::select(vec!["", "a=1", "a!=1", "a in (1,2)", "!a", "a", "a=,", "x/y/z=1"]);
    let fields = prop::sample::select(vec![
        "",
        "metadata.name=a",
        "metadata.name!=a",
        "status.phase=Pending",
        "spec.colour=red",
    ]);
    let selector = prop::sample::select(vec!["a=1", "a=2", ""]);
    prop_oneof![
        6 => (kind(), created, prop_oneof![1 => Just(0), 1 => edit()], dry())
            .prop_map(|(kind, name, edit, dry)| Operation::Create { kind, name, edit, dry }),
        2 => (kind(), prop::sample::select(DEPENDENTS.to_vec()), kind(), name(), prop::bool::ANY).prop_map(
            |(kind, name, owner_kind, owner, blocks)| Operation::CreateDependent {
                kind,
                name,
                owner_kind,
                owner,
                blocks
            }
        ),
        1 => (kind(), name()).prop_map(|(kind, name)| Operation::Get { kind, name }),
        6 => (kind(), name(), part(), edit(), version(), dry()).prop_map(
            |(kind, name, part, edit, version, dry)| Operation::Update { kind, name, part, edit, version, dry }
        ),
        6 => (kind(), name(), part(), patch_form, edit(), dry()).prop_map(
            |(kind, name, part, form, edit, dry)| Operation::Patch { kind, name, part, form, edit, dry }
        ),
        1 => (kind(), name()).prop_map(|(kind, name)| Operation::GetScale { kind, name }),
        2 => (kind(), name(), -1..4_i32, version()).prop_map(
            |(kind, name, replicas, version)| Operation::PutScale { kind, name, replicas, version }
        ),
        1 => (name(), uid(), version(), dry())
            .prop_map(|(name, uid, version, dry)| Operation::Evict { name, uid, version, dry }),
        1 => name().prop_map(|name| Operation::Bind { name }),
        4 => (kind(), name(), policy, grace, uid(), version(), dry()).prop_map(
            |(kind, name, policy, grace, uid, version, dry)| {
                // Mostly without a version: with one, most deletes would fail.
                let version = if version == Version::Current { Version::None } else { version };
                let version = if version == Version::Garbage { Version::Current } else { version };
                Operation::Delete { kind, name, policy, grace, uid, version, dry }
            }
        ),
        1 => (kind(), selector).prop_map(|(kind, selector)| Operation::DeleteCollection { kind, selector }),
        2 => (kind(), labels, fields).prop_map(|(kind, labels, fields)| Operation::List { kind, labels, fields }),
        1 => (kind(), 0_usize..8, 0_usize..3)
            .prop_map(|(kind, moment, limit)| Operation::ListAt { kind, moment, limit }),
        1 => (kind(), 1_usize..3, prop::bool::ANY).prop_map(
            |(kind, limit, write_between)| Operation::Pages { kind, limit, write_between }
        ),
    ]
    .boxed()
}
