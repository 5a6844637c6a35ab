//! The Helm chart, by real Helm.

mod rendering;

/// Where it lies in the checkout.
const CHART: &str = "charts/ordered-deployment";

/// The values that the chart is tried with, besides its defaults.
fn sets_of_values() -> Vec<String> {
    let folder = e2e::top().join(CHART).join("ci");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path().display().to_string());
    let mut files: Vec<String> = files.filter(|file| file.ends_with("-values.yaml")).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}
