//! What the API server has said about the current template: whether it accepts a pod of it, and whether the
//! template equals that of an existing set, spelled differently.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::Template;
use ordereddeployment_kubernetes::backoff;
use ordereddeployment_planner::{ComparisonResult, DryRun};
use tokio::time::Instant;

use crate::cache::entry::{Entry, SetEntry};

/// How long a refusal of a template is valid before the controller asks the API server again.
const BELIEVE_REFUSAL: Duration = Duration::from_secs(10);

/// The answer to a dry run of the current template, and how long it is valid.
#[derive(Debug)]
struct DryRunRecord {
    template: Template,
    dry_run: DryRun,
    /// `None`: as long as the template does not change.
    until: Option<Instant>,
    /// How many dry runs in a row had no answer.
    unanswered: u32,
}

/// The result of a comparison.
#[derive(Debug)]
pub(crate) struct ComparisonRecord {
    pub(crate) template: Template,
    /// UIDs of the sets whose templates were compared.
    pub(crate) sets: BTreeSet<Arc<str>>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Equal to the template of one of the sets, or new.
    Known(ComparisonResult),
    NoAnswer {
        since: Timestamp,
        message: String,
        /// How many times in a row there was no answer.
        times: u32,
        /// The earliest time of the next attempt.
        again: Instant,
    },
}

/// The answers about templates.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    dry_run: Option<DryRunRecord>,
    pub(crate) comparison: Option<ComparisonRecord>,
}

impl Templates {
    /// The known comparison of the current template with these sets.
    pub(crate) fn compared(
        &self,
        template: &Template,
        sets: &[Arc<SetEntry>],
        now: Timestamp,
        instant: Instant,
    ) -> ComparisonResult {
        let Some(record) = self.compared_to(template) else { return ComparisonResult::Not };
        match &record.outcome {
            Outcome::Known(compared) => {
                let mut usable = sets.iter().filter(|set| !set.is_terminating());
                let is_of_all = usable.all(|set| record.sets.contains(set.uid()));
                if is_of_all { compared.clone() } else { ComparisonResult::Not }
            }
            Outcome::NoAnswer { since, message, again, .. } if instant < *again => {
                let wait = SignedDuration::try_from(*again - instant).unwrap_or(SignedDuration::ZERO);
                let again = now.checked_add(wait).unwrap_or(now);
                // If the clock was set back, a time in the future becomes the current time.
                ComparisonResult::NoAnswer { since: (*since).min(now), again, message: message.clone() }
            }
            Outcome::NoAnswer { .. } => ComparisonResult::Not,
        }
    }

    /// The comparison of this template.
    pub(crate) fn compared_to(&self, template: &Template) -> Option<&ComparisonRecord> {
        self.comparison.as_ref().filter(|record| record.template.same_as(template))
    }

    /// Records the answer to a dry run of the current template. Only an acceptance stays valid: what refused
    /// the template may have changed, and a dry run without an answer is repeated with backoff.
    pub(crate) fn record(&mut self, template: &Template, dry_run: DryRun, now: Instant) {
        let before = self.dry_run.take().filter(|before| before.template.same_as(template));
        let unanswered = match &dry_run {
            DryRun::NoAnswer(_) => before.map_or(0, |before| before.unanswered).saturating_add(1),
            _ => 0,
        };
        let believed = match &dry_run {
            DryRun::Refused(_) => Some(BELIEVE_REFUSAL),
            DryRun::NoAnswer(_) => Some(backoff::after_refusal(unanswered)),
            DryRun::Accepted | DryRun::Unknown => None,
        };
        let until = believed.map(|believed| now + believed);
        self.dry_run = Some(DryRunRecord { template: template.clone(), dry_run, until, unanswered });
    }

    /// The known dry-run result of the current template.
    pub(crate) fn dry_run(&self, template: &Template, now: Instant) -> DryRun {
        self.dry_run_record(template, now).map_or(DryRun::Unknown, |record| record.dry_run.clone())
    }

    /// When a dry run without an answer is repeated.
    pub(crate) fn asks_again(&self, template: &Template, now: Instant) -> Option<Duration> {
        let record = self
            .dry_run_record(template, now)
            .filter(|record| matches!(record.dry_run, DryRun::NoAnswer(_)))?;
        record.until.map(|until| until.saturating_duration_since(now))
    }

    fn dry_run_record(&self, template: &Template, now: Instant) -> Option<&DryRunRecord> {
        let record = self.dry_run.as_ref()?;
        let believed = record.until.is_none_or(|until| now < until);
        (believed && record.template.same_as(template)).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BELIEVE_REFUSAL, DryRun, Duration, Instant, Template, Templates};

    fn template(image: &str) -> Template {
        serde_json::from_value(json!({"spec": {"image": image}})).unwrap()
    }

    #[test]
    fn an_accepted_template_stays_accepted_and_a_refused_one_is_tried_again() {
        let mut templates = Templates::default();
        let (a, now) = (template("a"), Instant::now());
        let later = now + Duration::from_secs(3600);
        assert_eq!(templates.dry_run(&a, now), DryRun::Unknown);
        templates.record(&a, DryRun::Accepted, now);
        assert_eq!(templates.dry_run(&a, later), DryRun::Accepted);
        templates.record(&a, DryRun::Refused("no".into()), now);
        assert_eq!(templates.dry_run(&a, now), DryRun::Refused("no".into()));
        assert_eq!(templates.dry_run(&a, now + BELIEVE_REFUSAL), DryRun::Unknown);
        templates.record(&a, DryRun::Accepted, now);
        let b = template("b");
        assert_eq!(templates.dry_run(&b, now), DryRun::Unknown);
    }

    #[test]
    fn a_dry_run_without_an_answer_is_repeated_with_backoff() {
        let mut templates = Templates::default();
        let (a, now) = (template("a"), Instant::now());
        let wait = |templates: &mut Templates| {
            templates.record(&a, DryRun::NoAnswer("503".into()), now);
            templates.asks_again(&a, now).unwrap()
        };
        let first = wait(&mut templates);
        assert_eq!(templates.dry_run(&a, now), DryRun::NoAnswer("503".into()));
        assert_eq!(templates.dry_run(&a, now + first), DryRun::Unknown);
        assert_eq!(wait(&mut templates), 2 * first);
        templates.record(&a, DryRun::Accepted, now);
        assert_eq!(templates.asks_again(&a, now), None);
        assert_eq!(wait(&mut templates), first);
    }
}
