#!/usr/bin/env bash
# tests/clients.sh: programs that nobody here wrote, compiled with our wrappers, linked to our
# library and run. A recipe for each stands in tests/clients/recipes; sources come from Debian's
# packages and PyPI and stay below the build folder. What cannot be fetched is skipped with a word.
#   tests/clients.sh                 all clients
#   tests/clients.sh --short         the quick ones, which ctest -L clients runs
#   tests/clients.sh hpcc mpi4py     only these
#   tests/clients.sh --record ...    keep what was found in tests/clients/results.json, of which
#                                    docs/clients.md is made (tests/clients/page.py)
#   tests/clients.sh --with mpich ...  the same on another MPI, whose mpicc.mpich Debian has
# POMONA_BUILD: the build to use. POMONA_CLIENTS: where the clients go (default: clients, in the
# build). POMONA_JOBS: jobs at a time. CLIENT_ARCHIVES: a folder whose source archives are taken
# rather than fetched, where their sha256 is one that Debian's lists or SHA256SUMS beside them tell.
. "$(dirname "$0")/setup.sh"
recipes=$POMONA_ROOT/tests/clients/recipes
clients=${POMONA_CLIENTS:-$POMONA_BUILD/clients}
unset POMONA_CLIENTS  # no parameter of the library, which would tell every client so

names_of() {  # tier: all recipes of it, those that need others last
    local recipe
    # shellcheck disable=SC2046
    for recipe in $(grep -L "^after=" "$recipes"/*.sh) $(grep -l "^after=" "$recipes"/*.sh); do
        if [ "$1" = whole ] || grep -q "^tier=$1" "$recipe"; then basename "$recipe" .sh; fi
    done
}

main() {
    local mpi=pomona tier=whole record=no names=() name folder begin code word
    local passed=0 failed=0 skipped=0
    while [ $# -gt 0 ]; do
        case $1 in
        --short) tier=short ;;
        --record) record=yes ;;
        --with) mpi=$2; shift ;;
        -h | --help) sed -n '2,12s/^# //p' "$0"; exit 0 ;;
        -*) fail "There is no option $1; --help tells which are" ;;
        *)
            [ -f "$recipes/$1.sh" ] || fail "There is no recipe $recipes/$1.sh"
            names+=("$1") ;;
        esac
        shift
    done
    # shellcheck disable=SC2207
    [ ${#names[@]} != 0 ] || names=($(names_of $tier))

    mkdir -p "$clients/$mpi"
    # A shell reads its script as it goes: a copy, so that it may be changed meanwhile.
    cp "$POMONA_ROOT/tests/clients/client.sh" "$clients/client.sh.$$"
    for name in "${names[@]}"; do
        folder=$clients/$mpi/$name
        mkdir -p "$folder"
        begin=$SECONDS code=0
        bash -eu -o pipefail "$clients/client.sh.$$" "$POMONA_ROOT" "$name" "$clients" "$mpi" \
            > "$folder/said.txt" 2>&1 || code=$?
        case $code in
        0) passed=$((passed + 1)) word=passed ;;
        77) skipped=$((skipped + 1)) word=skipped ;;
        *) failed=$((failed + 1)) word=FAILED ;;
        esac
        printf '%-14s %-8s %4s s  %s\n' "$name" $word $((SECONDS - begin)) "$(tail -n 1 "$folder/said.txt")"
        if [ $word = FAILED ]; then sed 's/^/    /' "$folder/said.txt"; fi
        if [ $record = yes ] && [ $word = passed ]; then
            python3 "$POMONA_ROOT/tests/clients/page.py" --record "$clients/$mpi" "$name"
        fi
    done
    rm "$clients/client.sh.$$"
    echo "$passed passed, $failed failed, $skipped skipped"
    if [ $record = yes ]; then
        python3 "$POMONA_ROOT/tests/clients/page.py" > "$POMONA_ROOT/docs/clients.md"
    fi
    [ $failed = 0 ] || exit 1
    [ $passed != 0 ] || exit 77
}
main "$@"
exit
