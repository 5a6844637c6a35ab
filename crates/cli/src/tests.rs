mod pages;
mod reference;

use std::ffi::OsString;

use proptest::prelude::*;

use super::{Cli, command, examples, fit, parse};

fn parsed(line: &str) -> Result<Cli, clap::Error> {
    parse(std::iter::once("kubectl-ordered").chain(line.split_whitespace()).map(Into::into))
}

#[test]
fn the_definitions_of_all_commands_are_valid() {
    command().debug_assert();
}

#[test]
fn cluster_flags_are_accepted_before_and_after_the_command_and_the_latter_wins() {
    for line in ["-n shop get web", "get web -n shop", "get -n=shop web", "-n other get --namespace shop web"]
    {
        assert_eq!(parsed(line).unwrap().connect.namespace.as_deref(), Some("shop"), "{line}");
    }
}

#[test]
fn an_argument_that_is_not_utf8_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let broken = std::ffi::OsString::from_vec(vec![0xff, 0xfe]);
    let error = parse(["kubectl-ordered".into(), "get".into(), broken]).unwrap_err();
    assert!(error.render().to_string().contains("invalid UTF-8"), "{error}");
}

/// A word of a command line: one that means something, alone or run together with another, or anything at
/// all.
fn word() -> impl Strategy<Value = String> {
    let mut known: Vec<String> =
        "web od/web pod/web-1 / .. app=web:2 *@1 30s 1.5.5s 9999999999999999999h -1 0 ::: - -- --- -ππ \u{0}"
            .split(' ')
            .chain([""])
            .map(str::to_owned)
            .collect();
    let mut commands = vec![command()];
    while let Some(one) = commands.pop() {
        known.push(one.get_name().to_owned());
        for argument in one.get_arguments() {
            known.extend(argument.get_long().map(|long| format!("--{long}")));
            known.extend(argument.get_short().map(|short| format!("-{short}")));
            known.extend(argument.get_possible_values().iter().map(|value| value.get_name().to_owned()));
        }
        commands.extend(one.get_subcommands().cloned());
    }
    let known = prop::sample::select(known);
    prop_oneof![
        6 => known.clone(),
        1 => (known.clone(), any::<String>()).prop_map(|(flag, value)| format!("{flag}={value}")),
        1 => (known.clone(), known).prop_map(|(flag, value)| format!("{flag}{value}")),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None,
    ..ProptestConfig::default() })]

    #[test]
    fn no_line_of_random_words_makes_the_parser_or_the_completion_panic(
        words in prop::collection::vec(word(), 0..7),
        program in prop_oneof![9 => Just("kubectl-ordered"), 1 => Just("kubectl_complete-ordered")],
    ) {
        let line = std::iter::once(program).map(str::to_owned).chain(words.iter().cloned());
            let line: Vec<OsString> = line.map(Into::into).collect();
        // A malformed command line has a message.
        if let Err(error) = parse(line.clone()) {
            prop_assert!(!error.render().to_string().is_empty());
        }
        drop(super::to_complete(&line));
        let none: crate::complete::Names = std::sync::Arc::new(|_| Vec::new());
        drop(crate::complete::answer(&command(), &words, &none));
    }
}

#[test]
fn the_length_of_a_pause_has_the_grammar_of_the_annotation() {
    assert!(parsed("mark web-1 --pause before --for 10m").is_ok());
    for wrong in ["10", "0", "0s", "ten"] {
        let error = parsed(&format!("mark web-1 --pause before --for {wrong}")).unwrap_err().to_string();
        assert!(error.contains("give a duration with its unit, such as 90s or 10m"), "{error}");
    }
}

#[test]
fn a_wrong_kind_is_named() {
    let error = parsed("adopt statefulset/web").unwrap_err().to_string();
    assert!(
        error.contains("wrong kind \"statefulset\": this command takes a Deployment: web or deployment/web"),
        "{error}"
    );
    assert!(parsed("adopt deploy/web").is_ok());
}

#[test]
fn writing_commands_have_dry_runs_and_reading_ones_formats() {
    let writes = "resume web|abort web|retry web|pause web|unpause web|undo web|restart web|\
                  mark p --priority 1|unmark p|set image web a=b|adopt web";
    for command in writes.split('|') {
        for mode in ["", "=client", "=server", "=none"] {
            assert!(parsed(&format!("{command} --dry-run{mode}")).is_ok(), "{command} {mode}");
        }
        assert!(parsed(&format!("{command} --dry-run=all")).is_err());
    }
    for command in ["get web", "get -A -l a=b", "list -A -l a=b", "order web", "plan web", "history web"] {
        for format in ["json", "yaml", "name", "wide"] {
            assert!(parsed(&format!("{command} -o {format}")).is_ok(), "{command} {format}");
        }
    }
}

const TEXT: &str = "Examples:\n  kubectl ordered get web       one of them\n  kubectl ordered get\n\nMore.";

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
    let mut commands = vec![fit(command(), 80)];
    while let Some(command) = commands.pop() {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("  kubectl") || line.starts_with("  #")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        commands.extend(command.get_subcommands().cloned());
    }
}
