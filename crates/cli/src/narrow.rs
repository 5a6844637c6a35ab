//! Help for narrow terminals: an example and its explanation that have no room side by side stand one below the other. Pure.

use clap::Command;

/// The definition, its examples fit for a terminal of that width.
pub(crate) fn fitted(command: Command, width: usize) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(examples(&text, width)),
        None => command,
    };
    command.mut_subcommands(|inner| fitted(inner, width))
}

/// The text; where one example is too long with its explanation, all are parted from theirs.
fn examples(text: &str, width: usize) -> String {
    fn parts(line: &str) -> Option<(&str, &str)> {
        line.strip_prefix("  ")
            .filter(|line| line.starts_with("kubectl"))
            .and_then(|line| line.split_once("  "))
    }
    let too_long = |line: &str| line.chars().count() > width && parts(line).is_some();
    if !text.lines().any(too_long) {
        return text.to_owned();
    }
    let lines = text.split('\n').map(|line| match parts(line) {
        Some((example, explanation)) => format!("  # {}\n  {example}", explanation.trim_start()),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{examples, fitted};

    const TEXT: &str =
        "Examples:\n  kubectl ordered get web       one of them\n  kubectl ordered get\n\nMore.";

    #[test]
    fn an_explanation_stands_above_its_example_where_both_have_no_room() {
        assert_eq!(examples(TEXT, 43), TEXT);
        assert_eq!(
            examples(TEXT, 42),
            "Examples:\n  # one of them\n  kubectl ordered get web\n  kubectl ordered get\n\nMore."
        );
    }

    #[test]
    fn no_example_of_any_command_is_broken_at_eighty_columns() {
        let mut commands = vec![fitted(crate::command(), 80)];
        while let Some(command) = commands.pop() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("  kubectl") || line.starts_with("  #")) {
                assert!(line.chars().count() <= 80, "{line}");
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
