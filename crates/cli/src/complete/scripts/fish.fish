# fish completion of kubectl-ordered: kubectl-ordered completion fish | source
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
