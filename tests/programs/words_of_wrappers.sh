#!/bin/sh
# tests/programs/words_of_wrappers.sh BUILD: mpicc and mpicxx under all their names, asked what they
# do.
# Goal: what is asked for may stand anywhere among the arguments, which keep their form.
bin=$1/bin
failed=0
same() {  # expected, found
    [ "$1" = "$2" ] || { echo "expected: $1"; echo "found:    $2"; failed=1; }
}
same "$("$bin/mpicc" -show x.c -o x)" "$("$bin/mpicc" x.c -o x -show)"
same "$("$bin/mpicc" -showme:link)" "$("$bin/mpicc" x.c --showme:link -O2)"
same "$("$bin/mpicxx" -show)" "$("$bin/mpic++" -show)"
# macOS does not tell mpiCC from mpicc.
[ "$(uname -s)" = Darwin ] || same "$("$bin/mpicxx" -show)" "$("$bin/mpiCC" -show)"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'int main(void) { return sizeof TEXT == 4 ? 0 : 1; }' > "$folder/a program.c"
"$bin/mpicc" '-DTEXT="a b"' "$folder/a program.c" -o "$folder/program" && "$folder/program" || {
    echo "arguments with blanks and quotes do not arrive"
    failed=1
}
exit $failed
