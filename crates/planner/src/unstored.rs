//! Reports fields of a status that the API server does not store, because its CRDs are older than the
//! controller.

use jiff::Timestamp;
use ordereddeployment_api::ConditionStatus::{False, True};
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::{condition, reason};

use crate::conditions;

/// The message for fields that are not stored.
#[must_use]
pub fn unstored_message(fields: &[String]) -> String {
    format!(
        "The API server does not store these fields of the status: {}. Its CRDs are older than the \
         controller: update them",
        fields.join(", ")
    )
}

/// Sets the conditions that report that these fields are not stored.
pub fn report_unstored(status: &mut OrderedDeploymentStatus, fields: &[String], now: Timestamp) {
    let message = unstored_message(fields);
    conditions::set(status, condition::STALLED, True, reason::STATUS_NOT_STORED, &message, now);
    conditions::set(status, condition::RECONCILING, False, reason::STATUS_NOT_STORED, &message, now);
}
