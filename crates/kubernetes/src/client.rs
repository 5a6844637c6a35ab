//! Requests to the API server: how they are sent, limited and decoded, and what their errors mean.

pub(crate) mod access;
pub(crate) mod budgets;
pub(crate) mod decode;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod live_lists;
pub(crate) mod requests;
