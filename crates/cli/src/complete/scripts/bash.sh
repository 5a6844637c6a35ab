# bash completion of kubectl-ordered: source <(kubectl-ordered completion bash)
#
# Bash also breaks words at `=`, `:` and `@`, and inserts only what follows the last of them. So the script splits
# the line itself and removes the part before from candidates. It works in bash 3.2, which does not quote the names of files
# itself, and without the package bash-completion.
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
