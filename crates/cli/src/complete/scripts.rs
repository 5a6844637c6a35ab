//! The scripts that make a shell, or kubectl, ask this program what could come next. Text alone.

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Kubectl,
}

pub(crate) fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        Shell::Kubectl => KUBECTL,
    }
}

const KUBECTL: &str = r#"#!/bin/sh
# Found in PATH as `kubectl_complete-ordered`, kubectl asks it what could follow `kubectl ordered`.
exec kubectl-ordered __complete "$@"
"#;

const BASH: &str = r#"# bash completion of kubectl-ordered: source <(kubectl-ordered completion bash)
_kubectl_ordered() {
    local line directive=0 word="${COMP_WORDS[COMP_CWORD]}"
    local -a found=()
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            *) found+=("${line%%$'\t'*}") ;;
        esac
    done < <(kubectl-ordered __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=("${found[@]}")
    if ((directive == 0)); then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    elif ((directive & 2)); then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _kubectl_ordered kubectl-ordered
"#;

const ZSH: &str = r#"#compdef kubectl-ordered
# zsh completion of kubectl-ordered: source <(kubectl-ordered completion zsh)
_kubectl_ordered() {
    local line directive=0
    local -a found
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            *) found+=("${line%%$'\t'*}") ;;
        esac
    done < <(kubectl-ordered __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if ((directive == 0)); then
        _files
    elif ((directive & 2)); then
        compadd -S '' -- "${found[@]}"
    else
        compadd -- "${found[@]}"
    fi
}
compdef _kubectl_ordered kubectl-ordered
"#;

const FISH: &str = r#"# fish completion of kubectl-ordered: kubectl-ordered completion fish | source
function __kubectl_ordered
    set -l words (commandline -opc) (commandline -ct)
    set -l found (kubectl-ordered __complete $words[2..-1] 2>/dev/null)
    if test "$found[-1]" = ":0"
        __fish_complete_path (commandline -ct)
    else
        string match -v -r '^:' -- $found
    end
end
complete -c kubectl-ordered -f -a '(__kubectl_ordered)'
"#;
