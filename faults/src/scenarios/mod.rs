//! What people do with an OrderedDeployment, each as a case without faults.
//!
//! A scenario reaches its end where nothing goes wrong, and mends what it broke on the way unless its point is that it stays
//! so ([`Ends`](crate::case::Ends)).

mod changes;
mod cluster;
mod deletions;
mod holds;
mod ownership;
mod resumes;
mod rollouts;
mod short;
mod story;
mod templates;

use rand::rngs::StdRng;

pub(crate) use story::{SPELLINGS, deployment, hash, in_plain_words, spelled, template};

use crate::case::Case;

/// A scenario: its parameters are drawn from what it is given; that of seed 1 gives the plain form.
pub type Scenario = fn(&mut StdRng) -> Case;

/// Rollouts in which something is deleted just before a write, for [`Play::Deletion`](crate::campaign::Play::Deletion).
pub(crate) use deletions::{DELETIONS, UNDER_WAY};

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
    rollouts::wait_for_ends,
    rollouts::min_ready,
    rollouts::when_blocked,
    rollouts::in_order,
    rollouts::in_order_for_ever,
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
    holds::for_ever,
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
    changes::third_template,
    changes::undo,
    changes::scaled,
    changes::to_nothing_and_back,
    changes::order,
    changes::bounds,
    changes::paused,
    changes::paused_for_ever,
    changes::held_scaled,
    changes::held_to_nothing_and_back,
    changes::scaled_at_a_point,
    changes::to_nothing_with_a_point,
    changes::timed_held_scaled,
    changes::held_undone,
    changes::held_third_template,
    changes::held_and_paused,
    changes::held_bounds,
    templates::never_ready,
    templates::never_ready_for_ever,
    templates::refused,
    templates::refused_under_recreate,
    templates::refused_for_ever,
    templates::rejected_by_kubelets,
    templates::spelled_at_rest,
    templates::spelled_in_a_rollout,
    templates::spelled_while_held,
    templates::undone_in_other_words,
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
    ownership::deleted_in_the_foreground,
    ownership::deleted_with_a_finalizer,
    ownership::deleted_without_its_pods,
    ownership::deleted_while_held,
    ownership::deleted_and_created,
    ownership::orphaned_and_created,
    cluster::quota,
    cluster::stuck,
    cluster::stuck_waiting_for_ends,
    cluster::cordoned,
    cluster::node_lost,
    cluster::node_lost_for_long,
    cluster::node_gone,
    cluster::pods_fail,
    cluster::pods_lost,
    cluster::namespace_ends,
];
