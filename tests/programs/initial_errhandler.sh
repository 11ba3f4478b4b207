#!/bin/sh
# tests/programs/initial_errhandler.sh BUILD: mpirun -initial-errhandler and -memory-alloc-kinds.
# Goal: processes begin with the error handler that is named, under both forms of the option and for
# each program by itself; jobs end by MPI_ERRORS_ARE_FATAL without it; a wrong name is refused.
# Method: errors_initial.c checks what it finds; how jobs end is looked at here.
bin=$1/bin
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fault() {
    echo "$1" >&2
    sed 's/^/    /' "$folder/out" >&2
    failed=1
}
"$bin/mpicc" -I "$here" -o "$folder/program" "$here/errors_initial.c" || exit 1
run() { timeout 60 "$bin/mpirun" --oversubscribe "$@" > "$folder/out" 2>&1; }

run -n 2 -initial-errhandler mpi_errors_return "$folder/program" return || fault "return: $?"
run -n 1 --initial-errhandler=mpi_errors_return "$folder/program" return spawn || fault "spawn: $?"
run -n 1 "$folder/program" fatal spawn || fault "spawn by a parent without: $?"
run -n 1 -memory-alloc-kinds mpi,cuda -initial-errhandler mpi_errors_return "$folder/program" \
    return : -n 1 "$folder/program" fatal spawn || fault "two programs: $?"
(export POMONA_INITIAL_ERRHANDLER=mpi_errors_return && run -n 1 "$folder/program" return) ||
    fault "variable: $?"
POMONA_INITIAL_ERRHANDLER=mpi_errors_return "$folder/program" return > "$folder/out" 2>&1 ||
    fault "without mpirun: $?"

for name in fatal abort; do
    case $name in fatal) words= ;; *) words="-initial-errhandler mpi_errors_abort" ;; esac
    run -n 2 $words "$folder/program" $name && fault "$name: a wrong rank did not end the job"
    grep -q 'MPI_Send on MPI_COMM_WORLD: ' "$folder/out" || fault "$name: why is not said"
done
run -n 1 -initial-errhandler nonsense "$folder/program" && fault "a wrong name is taken"
grep -q "must be mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return, not 'nonsense'" \
    "$folder/out" || fault "a wrong name: what would be right is not said"
(export POMONA_INITIAL_ERRHANDLER=nonsense && run -n 1 "$folder/program" fatal spawn) ||
    fault "nonsense: $?"
grep -q 'POMONA_INITIAL_ERRHANDLER: "nonsense" is none of' "$folder/out" || fault "no warning"
exit $failed
