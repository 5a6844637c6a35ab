//! Several watches as one, and whether the API server answers. Read-only.

use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt, select_all};
use jiff::Timestamp;
use kube::Client;
use kube_runtime::watcher;
use ordereddeployment_kubernetes::Clock;
use serde::Serialize;

use crate::client::explain::root_cause;

/// Changes within this time are handled together.
const BURST: Duration = Duration::from_millis(50);
/// How often the API server is asked whether it answers, and how long it may take.
const PROBE: Duration = Duration::from_secs(3);
/// How long an error of a watch is shown. A watch that fails again does so before.
const STALE: Duration = Duration::from_secs(40);

/// The API server does not answer, or refuses a watch. The objects are those of before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Lost {
    pub(crate) since: Timestamp,
    pub(crate) error: String,
}

pub(crate) struct Watches {
    changes: BoxStream<'static, (usize, watcher::Result<()>)>,
    probes: BoxStream<'static, Result<(), String>>,
    health: Health,
}

impl Watches {
    pub(crate) fn new(
        streams: Vec<BoxStream<'static, watcher::Result<()>>>,
        client: Client,
        clock: Clock,
    ) -> Self {
        let health = Health { lost: None, failed: streams.iter().map(|_| None).collect(), clock };
        let numbered = streams.into_iter().enumerate();
        let numbered = numbered.map(|(number, stream)| stream.map(move |change| (number, change)).boxed());
        Self { changes: select_all(numbered).boxed(), probes: probes(client).boxed(), health }
    }

    /// Waits until the first lists are complete. An error if one fails: a watch would only try it again.
    pub(crate) async fn until(&mut self, are_complete: impl Fn() -> bool) -> kube::Result<()> {
        while !are_complete() {
            match self.changes.next().await {
                Some((_, Err(watcher::Error::InitialListFailed(error)))) => return Err(error),
                Some((number, change)) => _ = self.health.watched(number, change),
                None => break,
            }
        }
        Ok(())
    }

    /// Waits for changes of objects, or of the connection. Changes within a short time are one. A caller that
    /// drops the future reads the stores again: a change can be lost with it.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        let before = self.health.lost().cloned();
        loop {
            let mut differs = false;
            tokio::select! {
                change = self.changes.next() => {
                    let (number, change) = change.ok_or_else(|| anyhow!("the watches ended"))?;
                    differs |= self.health.watched(number, change);
                    tokio::time::sleep(BURST).await;
                    while let Some(Some((number, change))) = self.changes.next().now_or_never() {
                        differs |= self.health.watched(number, change);
                    }
                }
                Some(answer) = self.probes.next() => self.health.probed(answer),
            }
            if differs || self.health.lost() != before.as_ref() {
                return Ok(());
            }
        }
    }

    pub(crate) fn lost(&self) -> Option<&Lost> {
        self.health.lost()
    }
}

/// Asks the API server again and again whether it answers. A watch without events does not tell.
fn probes(client: Client) -> impl stream::Stream<Item = Result<(), String>> {
    stream::unfold(client, |client| async move {
        tokio::time::sleep(PROBE).await;
        let answer = match tokio::time::timeout(PROBE, client.apiserver_version()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(root_cause(&error)),
            Err(_) => Err(format!("no answer within {} s", PROBE.as_secs())),
        };
        Some((answer, client))
    })
}

struct Health {
    lost: Option<Lost>,
    /// The error of each watch that the API server refuses.
    failed: Vec<Option<Lost>>,
    clock: Clock,
}

impl Health {
    /// Records what a watch has shown. Whether objects have changed.
    fn watched(&mut self, number: usize, change: watcher::Result<()>) -> bool {
        let Err(error) = change else {
            self.failed[number] = None;
            return true;
        };
        let found = Lost { since: self.clock.now(), error: root_cause(&error) };
        match error {
            watcher::Error::InitialListFailed(kube::Error::Api(_))
            | watcher::Error::WatchStartFailed(kube::Error::Api(_)) => self.failed[number] = Some(found),
            // The API server ends watches, and the next one begins at once.
            watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => {}
            _ => {
                self.lost.get_or_insert(found);
            }
        }
        false
    }

    fn probed(&mut self, answer: Result<(), String>) {
        match answer {
            Ok(()) => self.lost = None,
            Err(error) => {
                let since = self.lost.as_ref().map_or_else(|| self.clock.now(), |lost| lost.since);
                self.lost = Some(Lost { since, error });
            }
        }
        let now = self.clock.now();
        for failed in &mut self.failed {
            failed.take_if(|failed| now.duration_since(failed.since).unsigned_abs() > STALE);
        }
    }

    fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref().or_else(|| self.failed.iter().flatten().min_by_key(|failed| failed.since))
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use kube_runtime::watcher;
    use ordereddeployment_kubernetes::Clock;

    use super::Health;

    fn refused() -> watcher::Error {
        let error = std::io::Error::from(ErrorKind::ConnectionRefused);
        watcher::Error::WatchFailed(kube::Error::Service(error.into()))
    }

    #[test]
    fn an_answer_ends_a_lost_connection_without_an_event() {
        let mut health = Health { lost: None, failed: vec![None], clock: Clock::system() };
        assert!(!health.watched(0, Err(refused())));
        assert_eq!(health.lost().unwrap().error, "connection refused");
        let since = health.lost().unwrap().since;
        health.probed(Err("no answer within 3 s".to_owned()));
        assert_eq!(health.lost().unwrap().since, since);
        health.probed(Ok(()));
        assert_eq!(health.lost(), None);
    }
}
