#!/bin/sh
# one_core.sh COMMAND...: runs it on the first of the cores that it may use.
set -eu
exec taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$@"
