//! Live lists of sets and pods: read past the cache, and shared by the objects that wait for one.
//!
//! For each list with a label selector the API server reads the whole namespace. When many objects of one
//! namespace wait for a list, one list without a selector serves all of them. It serves only who asked before
//! it began.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Resource;
use ordereddeployment_api::LabelSelector;
use tokio::sync::{mpsc, oneshot};

use crate::client::error::RequestError;
use crate::fair::Turns;

/// How many live lists of one kind are read at the same time. A list costs the API server as much as
/// thousands of other requests: more of them at once make each one slower, until all of them time out.
const LISTS: usize = 8;
/// So many objects of one namespace have lists with their selectors, one after the other; more of them share
/// one list. It takes about as long, since every object of the namespace is also encoded, sent and decoded.
const SELECTED: usize = 2;

/// The objects that match, and the version of the list. A shared list has each object once.
pub type Listed<K> = (Vec<Arc<K>>, u64);

/// Asks for live lists of one kind. [`LiveLister`] reads them.
#[derive(Debug)]
pub struct LiveLists<K>(mpsc::UnboundedSender<Ask<K>>);

/// Reads the live lists of one kind. It must run beside the reconciliations.
#[derive(Debug)]
pub struct LiveLister<K>(mpsc::UnboundedReceiver<Ask<K>>);

/// An object that waits for a list.
#[derive(Debug)]
struct Ask<K> {
    namespace: Arc<str>,
    selector: LabelSelector,
    /// Closed if the reconciliation was dropped.
    answer: oneshot::Sender<Result<Listed<K>, RequestError>>,
}

/// Live lists, and what reads them.
#[must_use]
pub fn live_lists<K>() -> (LiveLists<K>, LiveLister<K>) {
    let (asks, asked) = mpsc::unbounded_channel();
    (LiveLists(asks), LiveLister(asked))
}

impl<K> LiveLists<K> {
    /// A list that begins from now on.
    pub async fn list(&self, namespace: &str, selector: &LabelSelector) -> Result<Listed<K>, RequestError> {
        let (answer, answered) = oneshot::channel();
        // If the lister is gone, the answer is dropped with the ask.
        drop(self.0.send(Ask { namespace: namespace.into(), selector: selector.clone(), answer }));
        answered.await.unwrap_or_else(|_| Err(kube::Error::Service("live lists have ended".into()).into()))
    }
}

/// Who reads lists of a kind from the API server.
pub trait Lists<K> {
    /// Reads the objects that match, if there is a selector, and passes them on. Returns the version of the
    /// list.
    fn list(
        &self,
        namespace: &str,
        selector: Option<&LabelSelector>,
        each: impl FnMut(K) + Send,
    ) -> impl Future<Output = Result<u64, RequestError>> + Send;
}

impl<K: Resource + Send + Sync> LiveLister<K> {
    /// Reads lists until nobody can ask any more.
    pub async fn run(mut self, lists: &impl Lists<K>) {
        let (mut waiting, mut busy) = (Turns::<Ask<K>>::default(), BTreeSet::new());
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(namespace) = running.next() => {
                    busy.remove(&namespace);
                }
                Some(ask) = self.0.recv() => waiting.push(Arc::clone(&ask.namespace), ask),
                else => return,
            }
            // The next list serves all that have asked by now.
            while let Ok(ask) = self.0.try_recv() {
                waiting.push(Arc::clone(&ask.namespace), ask);
            }
            while let Some((namespace, served)) = begin(&mut waiting, &mut busy) {
                running.push(read(lists, namespace, served));
            }
        }
    }
}

/// Reads one list and answers those who wait for it. Returns its namespace.
async fn read<K: Resource + Send + Sync>(
    lists: &impl Lists<K>,
    namespace: Arc<str>,
    waiting: Vec<Ask<K>>,
) -> Arc<str> {
    let waiting = waiting.into_iter().filter(|ask| !ask.answer.is_closed());
    let (selectors, answers): (Vec<_>, Vec<_>) = waiting.map(|ask| (ask.selector, ask.answer)).unzip();
    let none = BTreeMap::new();
    let mut kept: Vec<Vec<Arc<K>>> = answers.iter().map(|_| Vec::new()).collect();
    let listed = match (&*selectors, &mut *kept) {
        ([], _) | (_, []) => return namespace,
        ([selector], [kept, ..]) => {
            lists.list(&namespace, Some(selector), |item| kept.push(Arc::new(item))).await
        }
        (selectors, kept) => {
            // Comparing each object with each selector would be quadratic.
            let mut by_label: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            for (at, selector) in selectors.iter().enumerate() {
                let first = selector.match_labels.as_ref().and_then(|labels| labels.first_key_value());
                by_label.entry(first).or_default().push(at);
            }
            let share = |item: K| {
                let item = Arc::new(item);
                let labels = item.meta().labels.as_ref().unwrap_or(&none);
                let found = labels.iter().map(Some).chain([None]).filter_map(|label| by_label.get(&label));
                for &at in found.flatten().filter(|at| selectors[**at].matches(labels)) {
                    kept[at].push(Arc::clone(&item));
                }
            };
            lists.list(&namespace, None, share).await
        }
    };
    for (answer, kept) in answers.into_iter().zip(kept) {
        // Who waited may be gone.
        drop(answer.send(listed.clone().map(|version| (kept, version))));
    }
    namespace
}

/// The next list that begins, if one may: its namespace, and who it serves. `running`: where lists run, one
/// in a namespace at the same time.
fn begin<W>(waiting: &mut Turns<W>, running: &mut BTreeSet<Arc<str>>) -> Option<(Arc<str>, Vec<W>)> {
    if running.len() == LISTS {
        return None;
    }
    let (namespace, mut served) = waiting.take_of(|namespace| !running.contains(namespace))?;
    let few = if served.len() <= SELECTED { 1 } else { served.len() };
    let later = served.split_off(few);
    waiting.put_back(&namespace, later);
    running.insert(Arc::clone(&namespace));
    Some((namespace, served.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;
    use ordereddeployment_api::LabelSelector;
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::{LISTS, Listed, Lists, SELECTED, Turns, begin, live_lists};
    use crate::{Limiter, Limits, RequestError, Requests};

    impl Lists<Pod> for Requests {
        async fn list(
            &self,
            namespace: &str,
            selector: Option<&LabelSelector>,
            each: impl FnMut(Pod) + Send,
        ) -> Result<u64, RequestError> {
            Requests::list(self, namespace, selector, each).await
        }
    }

    /// Who waits, and where lists run.
    #[derive(Default)]
    struct Lister {
        waiting: Turns<usize>,
        running: BTreeSet<Arc<str>>,
    }

    impl Lister {
        fn ask(&mut self, namespace: &str, waiters: std::ops::Range<usize>) {
            waiters.for_each(|waiter| self.waiting.push(namespace.into(), waiter));
        }

        /// A list of that namespace ends, and every list begins that may.
        fn end(&mut self, namespace: &str) -> Vec<(String, Vec<usize>)> {
            self.running.remove(namespace);
            std::iter::from_fn(|| begin(&mut self.waiting, &mut self.running))
                .map(|(namespace, served)| (namespace.to_string(), served))
                .collect()
        }
    }

    #[test]
    fn few_objects_have_lists_of_their_own_and_many_share_one_that_begins_after_they_asked() {
        let mut lister = Lister::default();
        lister.ask("shop", 0..SELECTED);
        for waiter in 0..SELECTED {
            assert_eq!(lister.end("shop"), [("shop".to_owned(), vec![waiter])], "one after the other");
        }
        for asked in [10..1000, 1000..1001] {
            lister.ask("shop", asked.clone());
            assert_eq!(lister.end("other"), [], "a list runs");
            assert_eq!(lister.end("shop"), [("shop".to_owned(), asked.collect())]);
        }
        assert_eq!(lister.end("shop"), []);
        assert!(lister.running.is_empty());
    }

    #[test]
    fn the_number_of_lists_is_limited_and_namespaces_take_turns() {
        let mut lister = Lister::default();
        lister.ask("a", 0..100);
        lister.ask("b", 0..2);
        for other in 0..LISTS {
            lister.ask(&format!("c{other}"), 0..1);
        }
        let begun = lister.end("");
        let lists: Vec<_> =
            begun.iter().map(|(namespace, served)| (namespace.as_str(), served.len())).collect();
        assert_eq!(
            lists,
            [("a", 100), ("b", 1), ("c0", 1), ("c1", 1), ("c2", 1), ("c3", 1), ("c4", 1), ("c5", 1)]
        );
        // `a` asks again: it waits for those before it, and for its own list.
        lister.ask("a", 0..100);
        for (ended, next) in [("c0", "c6"), ("c1", "c7"), ("b", "b"), ("a", "a")] {
            let begun = lister.end(ended);
            assert_eq!(begun.iter().map(|(namespace, _)| namespace.as_str()).collect::<Vec<_>>(), [next]);
        }
    }

    fn selector(app: usize) -> LabelSelector {
        serde_json::from_value(json!({"matchLabels": {"app": app.to_string()}})).unwrap()
    }

    /// A server whose lists take a second, and have a pod of each of ten objects.
    fn server() -> Requests {
        let pod =
            |app: usize| json!({"metadata": {"name": app.to_string(), "labels": {"app": app.to_string()}}});
        let pods: Vec<Value> = (0..10).map(pod).collect();
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": pods}).to_string();
        let service = service_fn(move |_: Request<Body>| {
            let list = list.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, BoxError>(Response::new(Body::from(list.into_bytes())))
            }
        });
        let limiter = Limiter::new(Limits::default());
        Requests::new(&Client::new(service, "shop"), &[], limiter, &crate::metrics::metrics())
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_does_not_end_the_list_of_the_others() {
        let requests = server();
        let (lists, lister) = live_lists::<Pod>();
        let selectors: Vec<LabelSelector> = (0..10).map(selector).collect();
        let ask = |app: usize| Box::pin(lists.list("shop", &selectors[app]));
        let mut waiting: Vec<_> = (0..10).map(ask).collect();
        let mut lister = Box::pin(lister.run(&requests));
        for asks in &mut waiting {
            assert!(asks.now_or_never().is_none());
        }
        // It runs, and those who asked first and last give up; later all others have their pod.
        let a_moment = tokio::time::timeout(Duration::from_millis(500), &mut lister);
        assert!(a_moment.await.is_err());
        waiting.pop();
        drop(waiting.remove(0));
        let mut answers = futures::future::join_all(waiting);
        let answers = tokio::select! {
            answers = &mut answers => answers,
            () = &mut lister => panic!("it ended before those who ask"),
        };
        for (app, answer) in (1..9).zip(answers) {
            let (pods, version) = answer.unwrap();
            let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
            assert_eq!((names, version), (vec![app.to_string()], 7));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_object_gets_what_its_selector_matches() {
        let selectors = [
            json!({"matchLabels": {"app": "1"}}),
            json!({"matchLabels": {"app": "1", "tier": "front"}}),
            json!({"matchLabels": {"app": "2"}, "matchExpressions": [{"key": "tier",
                "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["1", "2"]}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["1"]}]}),
            json!({"matchLabels": {"app": "1"}}),
        ];
        let selectors = selectors.map(|selector| serde_json::from_value::<LabelSelector>(selector).unwrap());
        let requests = server();
        let (lists, lister) = live_lists::<Pod>();
        let asks = futures::future::join_all(selectors.iter().map(|selector| lists.list("shop", selector)));
        let answers = tokio::select! {
            answers = asks => answers,
            () = lister.run(&requests) => panic!("it ended before those who ask"),
        };
        let names = |(pods, _): Listed<Pod>| {
            pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let names: Vec<_> = answers.into_iter().map(|answer| names(answer.unwrap())).collect();
        assert_eq!(names, ["1", "", "2", "1 2", "0 2 3 4 5 6 7 8 9", "1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_lister_that_has_ended() {
        let requests = server();
        let (lists, lister) = live_lists::<Pod>();
        let selector = selector(1);
        let mut early = Box::pin(lists.list("shop", &selector));
        assert!((&mut early).now_or_never().is_none());
        {
            let running = tokio::time::timeout(Duration::from_millis(500), lister.run(&requests));
            assert!(running.await.is_err());
        }
        assert!(early.await.is_err());
        assert!(lists.list("shop", &selector).await.is_err());
    }
}
