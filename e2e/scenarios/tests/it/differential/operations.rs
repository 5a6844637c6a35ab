//! The operations and their probabilities.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

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

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    /// Creates an object with an owner, which may be absent.
    CreateDependent,
    Get,
    Update,
    Merge,
    MergeStrategically,
    PatchByList,
    GetScale,
    PutScale,
    Evict,
    Bind,
    Delete,
    DeleteCollection,
    List,
    /// The list at a moment of this sequence.
    ListAt,
    /// The list page by page.
    Pages,
}

/// One operation. A verb uses some of the fields.
#[derive(Clone, Debug)]
pub struct Operation {
    pub verb: Verb,
    pub kind: Kind,
    pub name: Name,
    pub owner_kind: Kind,
    pub part: &'static str,
    pub edit: usize,
    pub version: Version,
    pub uid: Uid,
    pub policy: &'static str,
    pub grace: Option<i64>,
    pub labels: &'static str,
    pub fields: &'static str,
    pub dry: bool,
    pub number: usize,
    pub flag: bool,
}

impl Operation {
    /// The change of the object.
    pub fn change(&self) -> Value {
        match self.verb {
            Verb::PatchByList => edits::list(self.kind, self.edit),
            // Creates are frequent enough, and often enough without a change, that objects exist.
            Verb::Create if self.flag => edits::edit(self.kind, 0),
            _ => edits::edit(self.kind, self.edit),
        }
    }

    /// The name of the operation, without its object.
    pub fn title(&self) -> String {
        format!("{:?} {:?} {} {}", self.verb, self.kind, self.part, self.change())
    }

    pub fn only_reads(&self) -> bool {
        matches!(self.verb, Verb::Get | Verb::GetScale | Verb::List | Verb::ListAt | Verb::Pages)
    }
}

/// Names of objects with owners.
pub const DEPENDENTS: [&str; 2] = ["c", "d"];

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        6 => Just(Verb::Create),
        2 => Just(Verb::CreateDependent),
        1 => Just(Verb::Get),
        6 => Just(Verb::Update),
        2 => Just(Verb::Merge),
        2 => Just(Verb::MergeStrategically),
        2 => Just(Verb::PatchByList),
        1 => Just(Verb::GetScale),
        2 => Just(Verb::PutScale),
        1 => Just(Verb::Evict),
        1 => Just(Verb::Bind),
        4 => Just(Verb::Delete),
        1 => Just(Verb::DeleteCollection),
        2 => Just(Verb::List),
        1 => Just(Verb::ListAt),
        1 => Just(Verb::Pages),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    select(vec![Kind::ConfigMap, Kind::Gadget, Kind::Gadget, Kind::ReplicaSet, Kind::Pod, Kind::Pod])
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        8 => select(vec!["a", "b"]).prop_map(Name::Fixed),
        1 => Just(Name::Fixed("absent")),
        1 => (0_usize..2).prop_map(Name::Generated),
        2 => select(DEPENDENTS.to_vec()).prop_map(Name::Fixed),
    ]
}

/// Any operation.
pub fn any() -> impl Strategy<Value = Operation> {
    let part = prop_oneof![3 => Just(""), 1 => Just("status"), 1 => Just("scale")];
    let version = prop_oneof![
        4 => Just(Version::Current), 2 => Just(Version::None), 2 => Just(Version::Stale),
        1 => Just(Version::Garbage),
    ];
    let uid = prop_oneof![4 => Just(Uid::None), 3 => Just(Uid::Current), 1 => Just(Uid::Wrong)];
    let policy = select(vec!["", "", "", "Background", "Foreground", "Orphan", "Sometimes"]);
    let grace = prop::option::weighted(0.4, select(vec![0_i64, 1, 60, -1]));
    let labels = select(vec!["", "a=1", "a=2", "a!=1", "a in (1,2)", "!a", "a", "a=,", "x/y/z=1"]);
    let fields =
        select(vec!["", "metadata.name=a", "metadata.name!=a", "status.phase=Pending", "spec.colour=red"]);
    let object = (verb(), kind(), name(), kind(), part, 0..edits::COUNT, version, uid);
    let options = (policy, grace, labels, fields, prop::bool::weighted(0.1), 0_usize..10, prop::bool::ANY);
    (object, options).prop_map(|(object, options)| {
        let (verb, kind, name, owner_kind, part, edit, version, uid) = object;
        let (policy, grace, labels, fields, dry, number, flag) = options;
        Operation {
            verb,
            kind,
            name,
            owner_kind,
            part,
            edit,
            version,
            uid,
            policy,
            grace,
            labels,
            fields,
            dry,
            number,
            flag,
        }
    })
}
