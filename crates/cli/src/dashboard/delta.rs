//! What has changed between two states of the page. Pure functions.

use std::sync::Arc;

use serde::Serialize;

use super::buttons::Button;
use super::page::{Entry, Head, NodeRow, Page, RevisionRow, Square};
use super::rows::Row;

/// What has changed of the page of one OrderedDeployment. Lists are whole, except that of the pods.
#[derive(Debug, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<&'a Head>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buttons: Option<&'a [Button]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revisions: Option<&'a [RevisionRow]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<&'a [Entry]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<&'a [NodeRow]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'a [Arc<str>]>,
    /// The pods that are new or differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<&'a Square>,
    /// The names of the pods that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<&'a str>,
}

impl<'a> Delta<'a> {
    /// The changes from one state to the next; `None` if there are none.
    pub(super) fn between(before: &'a Page, after: &'a Page) -> Option<Self> {
        let delta = Self {
            head: (before.head != after.head).then_some(&after.head),
            buttons: (before.buttons != after.buttons).then_some(&after.buttons),
            revisions: (before.revisions != after.revisions).then_some(&after.revisions),
            history: (before.history != after.history).then_some(&after.history),
            nodes: (before.nodes != after.nodes).then_some(&after.nodes),
            order: (before.order != after.order).then_some(&after.order),
            pods: after
                .pods
                .iter()
                .filter(|(name, pod)| before.pods.get(*name) != Some(*pod))
                .map(|(_, pod)| pod)
                .collect(),
            gone: before
                .pods
                .keys()
                .filter(|name| !after.pods.contains_key(*name))
                .map(|name| &**name)
                .collect(),
        };
        (!delta.is_empty()).then_some(delta)
    }

    fn is_empty(&self) -> bool {
        self.head.is_none()
            && self.buttons.is_none()
            && self.revisions.is_none()
            && self.history.is_none()
            && self.nodes.is_none()
            && self.order.is_none()
            && self.pods.is_empty()
            && self.gone.is_empty()
    }
}

/// What has changed of the list.
#[derive(Debug, Serialize)]
pub(super) struct ListDelta<'a> {
    rows: Vec<&'a Row>,
    gone: Vec<(&'a str, &'a str)>,
}

impl<'a> ListDelta<'a> {
    /// The changes from one state to the next; both are sorted. `None` if there are none.
    pub(super) fn between(before: &'a [Row], after: &'a [Row]) -> Option<Self> {
        let find = |rows: &'a [Row], row: &Row| {
            rows.binary_search_by(|other| other.key().cmp(&row.key())).ok().map(|index| &rows[index])
        };
        let rows: Vec<&Row> = after.iter().filter(|row| find(before, row) != Some(*row)).collect();
        let gone: Vec<_> = before.iter().filter(|row| find(after, row).is_none()).map(Row::key).collect();
        (!rows.is_empty() || !gone.is_empty()).then_some(Self { rows, gone })
    }
}
