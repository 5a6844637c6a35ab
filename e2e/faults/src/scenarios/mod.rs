//! Scenarios: what users do with an OrderedDeployment, each as a case without faults.
//!
//! Without faults, a scenario reaches its outcome. It undoes its disruptions, unless the outcome depends on them
//! ([`Outcome`](crate::case::Outcome)).

mod aborts;
mod builder;
mod changes;
mod cluster;
mod declared;
mod deletions;
mod holds;
mod ownership;
mod resumes;
mod rollouts;
mod short;
mod templates;

use rand::rngs::StdRng;

pub(crate) use builder::{SPELLINGS, deployment, hash, spelled, template, without_spelling};

use crate::case::Case;

/// A scenario. It draws its parameters from the random numbers; those of seed 1 give the default parameters.
pub type Scenario = fn(&mut StdRng) -> Case;

/// Rollouts and deletions for [`CaseId::Deletion`](crate::campaign::CaseId::Deletion).
pub(crate) use deletions::{DELETIONS, ROLLOUTS};

/// Every scenario.
pub const ALL: &[Scenario] = &[
    short::rollout,
    short::scale_down,
    short::hold_before,
    short::hold_after,
    short::recreate,
    short::deleted,
    short::two_instances,
    rollouts::plain,
    rollouts::pools,
    rollouts::down,
    rollouts::down_by_pool,
    rollouts::recreate,
    rollouts::evict,
    rollouts::evict_with_a_budget,
    rollouts::wait_for_termination,
    rollouts::min_ready,
    rollouts::when_blocked,
    rollouts::in_order,
    rollouts::in_order_stalled,
    rollouts::history,
    holds::before,
    holds::after,
    holds::first,
    holds::last,
    holds::timed,
    holds::duration_edited,
    holds::in_a_row,
    holds::under_recreate,
    holds::blocked,
    holds::blocked_and_resumed,
    holds::never_resumed,
    holds::point_added,
    holds::point_removed,
    holds::point_malformed,
    holds::pod_lost,
    holds::point_lost,
    resumes::early,
    resumes::twice,
    resumes::stale,
    resumes::all,
    resumes::garbage,
    resumes::racing,
    declared::numbers,
    declared::places,
    declared::groups,
    declared::timed,
    declared::under_recreate,
    declared::scaled,
    declared::scaled_to_zero_and_back,
    declared::edited,
    declared::pods_lost,
    declared::resumed_twice,
    aborts::held,
    aborts::running,
    aborts::retried,
    aborts::third_template,
    aborts::scaled,
    aborts::by_the_deadline,
    aborts::racing_a_resume,
    changes::third_template,
    changes::undo,
    changes::scaled,
    changes::scaled_to_zero_and_back,
    changes::order,
    changes::bounds,
    changes::paused,
    changes::stays_paused,
    changes::held_scaled,
    changes::held_scaled_to_zero_and_back,
    changes::scaled_at_a_point,
    changes::scaled_to_zero_with_a_point,
    changes::timed_held_scaled,
    changes::held_undone,
    changes::held_third_template,
    changes::held_and_paused,
    changes::held_bounds,
    templates::never_ready,
    templates::never_ready_stalled,
    templates::refused,
    templates::refused_under_recreate,
    templates::refused_stalled,
    templates::rejected_by_kubelets,
    templates::spelled_at_rest,
    templates::spelled_in_a_rollout,
    templates::spelled_while_held,
    templates::undone_with_another_spelling,
    ownership::forged_elsewhere,
    ownership::pod_orphaned,
    ownership::pod_released,
    ownership::orphan_annotated,
    ownership::pod_replaced,
    ownership::set_orphaned,
    ownership::set_released,
    ownership::set_deleted,
    ownership::name_taken,
    ownership::name_taken_by_an_orphan,
    ownership::two_of_one_selector,
    ownership::deleted,
    ownership::deleted_in_foreground,
    ownership::deleted_with_a_finalizer,
    ownership::deleted_without_its_pods,
    ownership::deleted_while_held,
    ownership::deleted_and_created,
    ownership::orphaned_and_created,
    cluster::quota,
    cluster::stuck,
    cluster::stuck_waiting_for_termination,
    cluster::cordoned,
    cluster::node_lost,
    cluster::node_lost_for_long,
    cluster::node_deleted,
    cluster::pods_fail,
    cluster::pods_lost,
    cluster::namespace_deleted,
];
