#compdef kubectl-ordered
# zsh completion of kubectl-ordered: source <(kubectl-ordered completion zsh)
#
# It can be sourced, or be the file `_kubectl-ordered` in a directory of fpath; then the first call is the first
# completion.
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
