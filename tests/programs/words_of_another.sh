#!/bin/sh
# tests/programs/words_of_another.sh BUILD: what mpirun says of programs that are linked to another
# MPI library.
# Goal: they are named however they are started and however soon they end, and no others are.
# Method: a library of another MPI's name, without functions, and programs that load it. What could
# be missed by chance is tried several times.
bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

. "$(dirname "$0")/said.sh"
once() { [ "$(grep -c -- "$1" "$folder/err")" = 1 ] || fault "\"$1\" is not there once"; }
run() {  # what is tried, the code expected, program and arguments
    what=$1
    expected=$2
    shift 2
    timeout 30 "$bin/mpirun" --oversubscribe -n 2 "$@" > "$folder/out" 2> "$folder/err"
    code=$?
    [ $code = "$expected" ] || fault "the code should be $expected"
}
script() {  # name, its lines
    printf '#!/bin/sh\n%s\n' "$2" > "$folder/$1"
    chmod +x "$folder/$1"
}

run "no MPI at all" 0 true
has_not err "another MPI"
[ "$(uname -s)" = Linux ] || exit $failed

echo 'int another;' > "$folder/another.c"
echo '#include <unistd.h>
extern int another;
int main(int count, char** arguments) {
    (void)arguments;
    if (count > 1) usleep(400000);
    return another;
}' > "$folder/foreign.c"
cc -shared -fPIC -Wl,-soname,libmpi.so.40 -o "$folder/libmpi.so.40" "$folder/another.c" || exit 1
link() { cc -o "$folder/$1" "$folder/foreign.c" "$folder/libmpi.so.40" "$2"; }
link foreign "-Wl,--enable-new-dtags,-rpath,$folder" || exit 1
link by_rpath "-Wl,--disable-new-dtags,-rpath,$folder" || exit 1

run foreign 1 "$folder/foreign"
once "foreign .* libmpi.so.40, another MPI library"

# Such programs end before anybody could look at them.
script wrapper "'$folder/foreign'; true"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    run "from a script" 1 "$folder/wrapper"
    once "wrapper has started .* libmpi.so.40, another MPI library"
    [ $failed = 0 ] || break
done
script outer "sh -c '$folder/wrapper; true'; true"
run "from a script's script" 1 "$folder/outer"
once "outer has started .* libmpi.so.40, another MPI library"
script found "LD_LIBRARY_PATH=\$LD_LIBRARY_PATH:$folder '$folder/foreign'; true"
run "found by LD_LIBRARY_PATH" 1 "$folder/found"
once "found has started .* libmpi.so.40, another MPI library"

# Its own folder comes before all others, so that it is seen in memory only, while it runs.
script late "sleep 0.3; '$folder/by_rpath' slowly; true"
run "by an rpath that comes first" 1 "$folder/late"
once "late has started by_rpath, which has loaded libmpi.so.40, another MPI library"

# Processes that another launcher has started know of each other.
script farm "OMPI_COMM_WORLD_SIZE=2 '$folder/foreign' slowly; true"
run "by a launcher of its own" 0 "$folder/farm"
has_not err "another MPI"

# Nor is a program told of that serves one of our ranks.
echo '#include <mpi.h>
#include <stdlib.h>
int main(int count, char** arguments) {
    MPI_Init(&count, &arguments);
    int ended = system(arguments[1]);
    MPI_Finalize();
    return ended != 0;
}' > "$folder/ours.c"
"$bin/mpicc" -o "$folder/ours" "$folder/ours.c" || exit 1
run "started by a rank of ours" 0 "$folder/ours" "$folder/foreign"
has_not err "another MPI"

run "without a search path" 1 --library-path off "$folder/foreign"
once "foreign .* libmpi.so.40, another MPI library"

exit $failed
