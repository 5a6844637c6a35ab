//! How a controller talks to a cluster, and what runs around its reconciliations.
//!
//! Requests and their limits, watches, leader election, the queue, the event recorder, health and metrics.
//! This crate makes no decision: it does not know why a pod is deleted.

pub mod backoff;
mod client;
mod clock;
mod events;
mod fair;
mod health;
mod leader;
mod metrics;
mod names;
mod server;
mod work;

pub use backoff::patient;
pub use client::access::{Credentials, authority_file, client, kubeconfig, plainly, stays_here};
pub use client::budgets::Budget;
pub use client::decode::{Decoded, decoded, decoded_or_known};
pub use client::error::{DryRunAnswer, Refusal, RequestError};
pub use client::fence::Fence;
pub use client::http::{client_config, counted, reporting, with_user_agent};
pub use client::limits::{Limiter, Limits};
pub use client::live_lists::{Listed, Lists, LiveLister, LiveLists, live_lists};
pub use client::requests::{Namespaced, ObjectVersion, PAGE, Requests};
pub use clock::Clock;
pub use events::{EventRecorder, EventWriter, Notice, events};
pub use fair::Turns;
pub use health::{Health, Watched, watch_of};
pub use leader::election::Timing;
pub use leader::lease::{Candidate, identity};
pub use metrics::{ClientMetrics, Collectors};
pub use names::{Names, without_name};
pub use server::{Render, serve};
pub use work::queue::{Named, Queue};
pub use work::workers::{Worker, Workers};
