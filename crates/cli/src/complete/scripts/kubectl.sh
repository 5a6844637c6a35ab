#!/bin/sh
# kubectl runs this as `kubectl_complete-ordered` from PATH to complete `kubectl ordered`.
exec kubectl-ordered __complete "$@"
