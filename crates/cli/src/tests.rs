use clap::Parser;

use super::{Cli, Command, command, parse};

fn parsed(line: &str) -> Result<Cli, clap::Error> {
    parse(std::iter::once("kubectl-ordered").chain(line.split_whitespace()).map(Into::into))
}

#[test]
fn the_definitions_of_all_commands_are_sound() {
    command().debug_assert();
}

#[test]
fn flags_for_the_cluster_count_before_and_behind_the_command_and_the_latter_wins() {
    for line in ["-n shop get web", "get web -n shop", "get -n=shop web", "-n other get --namespace shop web"]
    {
        let Cli { connect, command } = parsed(line).unwrap();
        let mut command = command;
        let inner = std::mem::take(command.connect().unwrap());
        assert_eq!(inner.or(connect).namespace.as_deref(), Some("shop"), "{line}");
    }
}

#[test]
fn a_name_may_have_its_kind_as_for_kubectl() {
    for name in
        ["web", "od/web", "ordereddeployment/web", "ordereddeployments.ordereddeployment.io/web", "OD/web"]
    {
        let cli = parsed(&format!("status {name}")).unwrap();
        assert!(matches!(cli.command, Command::Status(_)), "{name}");
    }
    let error = parsed("status deployment/web").unwrap_err().to_string();
    assert!(error.contains("od/web"), "{error}");
}

#[test]
fn no_malformed_line_makes_the_parser_panic() {
    // Words that parsers stumble over, in pairs behind every command.
    let words = [
        "",
        "-",
        "--",
        "---",
        "-n",
        "--namespace",
        "--namespace=",
        "-n=",
        "-nshop",
        "-A",
        "--all",
        "-w",
        "-o",
        "-oyaml",
        "-o=",
        "--output=x",
        "--replicas",
        "--replicas=-1",
        "--replicas=99999999999",
        "--until=",
        "--timeout=-1s",
        "--timeout=9999999999999999999h",
        "web",
        "od/web",
        "od/",
        "/",
        "//",
        "..",
        "a/b/c",
        "*@1",
        "@",
        "é",
        "\u{0}",
        "--request-timeout=1.5.5s",
        "--hold=",
        "--hold=@",
        "--as-group=x",
        "--insecure-skip-tls-verify=maybe",
        "-ππ",
        "--kubeconfig=",
        "-s",
        "--server=:::",
        "=",
    ];
    let definition = command();
    let names: Vec<String> = definition.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names.iter().map(String::as_str).chain(["", "nothing"]) {
        for first in words {
            for second in ["", "-", "--", "web", "-o=", "--timeout=-1s", "-n", "é", "="] {
                let line = ["kubectl-ordered", name, first, second];
                // Whatever it says, it says it without a panic.
                drop(
                    definition.clone().try_get_matches_from(line).map_err(|error| error.render().to_string()),
                );
            }
        }
    }
    drop(Cli::try_parse_from([""]));
}

#[test]
fn bytes_that_are_no_text_are_refused_in_words() {
    use std::os::unix::ffi::OsStringExt;
    let broken = std::ffi::OsString::from_vec(vec![0xff, 0xfe]);
    let error = parse(["kubectl-ordered".into(), "get".into(), broken]).unwrap_err();
    assert!(error.render().to_string().contains("invalid UTF-8"), "{error}");
}
