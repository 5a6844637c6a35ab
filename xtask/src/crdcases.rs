//! Every constraint of the CRDs, violated once and satisfied once on real servers: the cases of
//! `crates/api/tests/validation/cases`. The current server must name the one field and give the one reason; an old one does
//! not evaluate CEL, and has its own messages. The checks are dry runs; one object of each kind is stored, for updates.

// One list for two readers. It needs nothing of its crate, so that this crate stays quick to build.
#[path = "../../crates/api/tests/validation/cases/mod.rs"]
mod cases;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::proxy::Proxy;
use cases::{Case, DEPLOYMENT, REPLICA_SET, minimal};

const NAME: &str = "stored";

/// Checks both servers and prints wrong answers. Returns how many answers were right and how many were wrong.
pub(crate) fn run(servers: &[Asked]) -> Result<(u32, u32)> {
    let (mut right, mut wrong) = (0, 0);
    let cases = cases::all();
    let rules: Vec<&str> = cases.iter().filter(|case| case.is_cel()).map(Case::says).collect();
    for asked in servers {
        asked.store()?;
        let before = (right, wrong);
        let tried: Vec<&Case> = cases.iter().filter(|case| asked.current || !case.is_new()).collect();
        for case in &tried {
            let breaks = case.breaks.iter().map(|patch| (patch, asked.refuses(case, patch, &rules)));
            let passes = case.passes.iter().map(|patch| (patch, asked.accepts(case, patch)));
            for (patch, outcome) in breaks.chain(passes) {
                match outcome? {
                    None => right += 1,
                    Some(error) => {
                        println!("{}: {}\n  with {patch}\n  {error}", asked.name, case.id());
                        wrong += 1;
                    }
                }
            }
        }
        println!(
            "{}: {} constraints tried, {} answers right, {} wrong",
            asked.name,
            tried.len(),
            right - before.0,
            wrong - before.1
        );
    }
    Ok((right, wrong))
}

/// A server that is asked.
pub(crate) struct Asked {
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) proxy: Proxy,
    /// Whether it is a current server: evaluates CEL, and answers with the messages of the cases.
    pub(crate) current: bool,
}

impl Asked {
    /// Stores one object of each kind, from which cases of updates and of the status start.
    fn store(&self) -> Result<()> {
        for kind in [DEPLOYMENT, REPLICA_SET] {
            let mut object = minimal(kind);
            object["metadata"]["name"] = json!(NAME);
            let (code, answer) = self.proxy.send("POST", &collection(kind), Some(&object))?;
            if code != 201 {
                bail!("the minimal {kind} is refused ({code}): {}", answer["message"]);
            }
        }
        Ok(())
    }

    fn ask(&self, case: &Case, patch: &Value) -> Result<(u16, Value)> {
        let mut object = case.object(patch);
        let collection = collection(case.kind);
        if !case.is_transition() && !case.is_of_the_status() {
            return self.proxy.send("POST", &format!("{collection}?dryRun=All"), Some(&object));
        }
        let (_, stored) = self.proxy.send("GET", &format!("{collection}/{NAME}"), None)?;
        object["metadata"] = stored["metadata"].clone();
        let part = if case.is_of_the_status() { "/status" } else { "" };
        self.proxy.send("PUT", &format!("{collection}/{NAME}{part}?dryRun=All"), Some(&object))
    }

    /// What is wrong with the answer to a change that violates the case's constraint.
    fn refuses(&self, case: &Case, patch: &Value, rules: &[&str]) -> Result<Option<String>> {
        let (code, answer) = self.ask(case, patch)?;
        if code != 422 {
            return Ok(Some(format!(
                "it should be refused; the server answers {code}: {}",
                answer["message"]
            )));
        }
        let causes = causes(&answer, case, rules);
        // Old servers omit the index of a list item.
        let (field, no_index) = (case.field(), case.field().replace("[0]", ""));
        let named = |cause: &String| cause.contains(&field) || !self.current && cause.contains(&no_index);
        let fits = if self.current {
            causes.len() == 1 && causes.iter().all(|cause| named(cause) && cause.contains(case.says()))
        } else {
            causes.iter().any(named)
        };
        let wanted = format!("{field}: {}", case.says());
        Ok((!fits).then(|| format!("it should be refused for {wanted:?} alone; the server says {causes:#?}")))
    }

    /// What is wrong with the answer to a change that violates nothing.
    fn accepts(&self, case: &Case, patch: &Value) -> Result<Option<String>> {
        let (code, answer) = self.ask(case, patch)?;
        let accepted = code == 200 || code == 201;
        Ok((!accepted)
            .then(|| format!("it should be accepted; the server answers {code}: {}", answer["message"])))
    }
}

/// Each cause as `field: message`, without what a server adds to a refusal: that rules were not evaluated, its own checks of
/// `.spec.replicas` and `.status.replicas` for the scale subresource, and, besides violated bounds, the format. For a
/// constraint that is not a rule, rules that read the same field may fail too.
fn causes(answer: &Value, case: &Case, rules: &[&str]) -> Vec<String> {
    let none = Vec::new();
    let causes = answer.pointer("/details/causes").and_then(Value::as_array).unwrap_or(&none);
    let texts =
        causes.iter().filter_map(|cause| Some((cause["field"].as_str()?, cause["message"].as_str()?)));
    texts
        .filter(|(field, message)| {
            let added = ["some validation rules were not checked", "Checked value must be of type"];
            !field.starts_with('.') && !added.iter().any(|added| message.contains(added))
        })
        .filter(|(_, message)| case.is_cel() || !rules.iter().any(|rule| message.contains(rule)))
        .map(|(field, message)| format!("{field}: {message}"))
        .collect()
}

fn collection(kind: &str) -> String {
    format!("/apis/ordereddeployment.io/v1alpha1/namespaces/default/{}s", kind.to_lowercase())
}
