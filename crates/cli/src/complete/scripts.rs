//! The completion scripts for shells and kubectl.

/// The target of a script.
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
# kubectl runs this as `kubectl_complete-ordered` from PATH to complete `kubectl ordered`.
exec kubectl-ordered __complete "$@"
"#;

// Bash also breaks words at `=`, `:` and `@`, and inserts only what follows the last of them. So the script splits
// the line itself and removes the part before from candidates. It works in bash 3.2, which does not quote the names of files
// itself, and without the package bash-completion.
const BASH: &str = r#"# bash completion of kubectl-ordered: source <(kubectl-ordered completion bash)
_kubectl_ordered() {
    local typed="${COMP_LINE:0:COMP_POINT}" line directive=0 before="" format=%s i
    local -a words found=()
    IFS=$' \t\n' read -r -a words <<<"$typed"
    case "$typed" in *[[:space:]]) words+=("") ;; esac
    local word="${words[${#words[@]} - 1]}"
    for ((i = ${#word}; i > 0; i--)); do
        case "$COMP_WORDBREAKS" in *"${word:i-1:1}"*) before="${word:0:i}" && break ;; esac
    done
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            *) found+=("${line#"$before"}") ;;
        esac
    done < <(kubectl-ordered __complete "${words[@]:1}" 2>/dev/null)
    COMPREPLY=()
    if ((directive == 0)); then
        compopt -o filenames 2>/dev/null || format=%q
        while IFS= read -r line; do
            COMPREPLY+=("$(printf "$format" "$line")")
        done < <(compgen -f -- "${word#"$before"}")
        return
    fi
    ((directive & 2)) && compopt -o nospace 2>/dev/null
    ((${#found[@]} > 0)) && COMPREPLY=("${found[@]}")
    return 0
}
complete -F _kubectl_ordered kubectl-ordered
"#;

// It can be sourced, or be the file `_kubectl-ordered` in a directory of fpath; then the first call is the first
// completion.
const ZSH: &str = r#"#compdef kubectl-ordered
# zsh completion of kubectl-ordered: source <(kubectl-ordered completion zsh)
_kubectl-ordered() {
    local line directive=0
    local -a found
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            *) found+=("$line") ;;
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
if [[ "${funcstack[1]}" == "_kubectl-ordered" ]]; then
    _kubectl-ordered "$@"
elif (($+functions[compdef])); then
    compdef _kubectl-ordered kubectl-ordered
else
    autoload -Uz compinit && compinit && compdef _kubectl-ordered kubectl-ordered
fi
"#;

const FISH: &str = r#"# fish completion of kubectl-ordered: kubectl-ordered completion fish | source
function __kubectl_ordered
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found (kubectl-ordered __complete $words[2..-1] "$word" 2>/dev/null)
    if test "$found[-1]" = ":0"
        __fish_complete_path "$word"
    else
        string match -v -r '^:' -- $found
    end
end
complete -c kubectl-ordered -f -a '(__kubectl_ordered)'
"#;
