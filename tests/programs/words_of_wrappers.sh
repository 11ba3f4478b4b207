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
# What is shown is what would be run: without the libraries where nothing is linked.
for wrapper in mpicc mpicxx mpic++ mpiCC; do
    [ "$wrapper" = mpiCC ] && [ "$(uname -s)" = Darwin ] && continue
    runs="$("$bin/$wrapper" -showme:command) $("$bin/$wrapper" -showme:compile)"
    links=$("$bin/$wrapper" -showme:link)
    for only in -c -S -E -M -MM; do
        for words in "-show $only x.c" "$only -show x.c" "$only x.c --showme"; do
            # shellcheck disable=SC2086
            same "$runs $only x.c" "$("$bin/$wrapper" $words)"
        done
    done
    same "$runs x.c -o x $links" "$("$bin/$wrapper" x.c -showme -o x)"
    same "$runs $links" "$("$bin/$wrapper" --show)"
    for word in -compile_info -compile-info; do
        same "$runs" "$("$bin/$wrapper" -c x.c $word)"
    done
    for word in -link_info -link-info; do
        same "$("$bin/$wrapper" -showme:command) $links" "$("$bin/$wrapper" $word x.c)"
    done
done
# macOS does not tell mpiCC from mpicc.
[ "$(uname -s)" = Darwin ] || same "$("$bin/mpicxx" -show)" "$("$bin/mpiCC" -show)"
# A compiler that is not there: who was to be called, and who has said so.
for wrapper in mpicc mpicxx; do
    variable=POMONA_CC
    [ $wrapper = mpicc ] || variable=POMONA_CXX
    said=$(env $variable="nosuch -m64" "$bin/$wrapper" -c x.c 2>&1)
    same 127 $?
    same "$wrapper: the compiler nosuch, which $variable names, is not in PATH" "$said"
    same "nosuch -m64" "$(env $variable="nosuch -m64" "$bin/$wrapper" -showme:command)"
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'int main(void) { return sizeof TEXT == 4 ? 0 : 1; }' > "$folder/a program.c"
"$bin/mpicc" '-DTEXT="a b"' "$folder/a program.c" -o "$folder/program" && "$folder/program" || {
    echo "arguments with blanks and quotes do not arrive"
    failed=1
}
# A program that comes by standard input is linked too.
echo 'int main(void) { return 0; }' | "$bin/mpicc" -x c - -o "$folder/program" &&
    "$folder/program" || { echo "standard input is not compiled"; failed=1; }
exit $failed
