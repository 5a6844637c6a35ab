//! The Helm chart, tested with real Helm.

#[cfg(feature = "real-servers")]
mod installed;
mod permissions;
mod rendering;
#[cfg(feature = "real-servers")]
mod rights;
#[cfg(feature = "real-servers")]
mod user_roles;
#[cfg(feature = "real-servers")]
mod work;

/// The path of the chart in the repository.
pub(crate) const CHART: &str = "charts/ordered-deployment";
/// The installation guide.
#[cfg(feature = "real-servers")]
const GUIDE: &str = "docs/installation.md";

/// The values files of the tests, besides the defaults.
fn sets_of_values() -> Vec<String> {
    let folder = scenarios::top().join(CHART).join("ci");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path().display().to_string());
    let mut files: Vec<String> = files.filter(|file| file.ends_with("-values.yaml")).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}

/// The documented command that starts with `start`, as arguments without the program.
#[cfg(feature = "real-servers")]
fn documented(start: &str) -> Vec<String> {
    let text = std::fs::read_to_string(scenarios::top().join(GUIDE)).unwrap().replace("\\\n", " ");
    let line = text.lines().find(|line| line.starts_with(start));
    let line = line.unwrap_or_else(|| panic!("{GUIDE} has no command that starts with `{start}`"));
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}
