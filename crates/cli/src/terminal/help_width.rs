//! Help for narrow terminals: puts the comment of an example on its own line if both do not fit on one. Pure
//! functions.

use clap::Command;

/// The command definition with its examples adapted to a terminal of that width.
pub(crate) fn fit(command: Command, width: usize) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(examples(&text, width)),
        None => command,
    };
    command.mut_subcommands(|inner| fit(inner, width))
}

/// The text. If one example does not fit with its comment, all comments are put on their own lines.
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
    use super::{examples, fit};

    const TEXT: &str =
        "Examples:\n  kubectl ordered get web       one of them\n  kubectl ordered get\n\nMore.";

    #[test]
    fn a_comment_is_above_its_example_if_both_do_not_fit() {
        assert_eq!(examples(TEXT, 43), TEXT);
        assert_eq!(
            examples(TEXT, 42),
            "Examples:\n  # one of them\n  kubectl ordered get web\n  kubectl ordered get\n\nMore."
        );
    }

    #[test]
    fn no_example_of_any_command_is_wrapped_at_eighty_columns() {
        let mut commands = vec![fit(crate::command(), 80)];
        while let Some(command) = commands.pop() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("  kubectl") || line.starts_with("  #")) {
                assert!(line.chars().count() <= 80, "{line}");
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
