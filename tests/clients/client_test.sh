#!/usr/bin/env bash
# tests/clients/client_test.sh BUILD: what tests/clients.sh does with archives, given or not to be
# had, when it builds a client again, and what it leaves in the environment of clients. Method: a
# source tree of its own with two recipes, whose program is made here, and a stand-in for apt that
# can fetch nothing.
set -eu -o pipefail
build=$(cd "$1" && pwd -P)
tests=$(cd "$(dirname "$0")/.." && pwd -P)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
failed=0

# The tree.
mkdir -p "$work/root/tests/clients/recipes" "$work/archives" "$work/bin" "$work/tiny-1.0"
for file in setup.sh packages.sh packages.txt clients.sh clients/client.sh; do
    ln -s "$tests/$file" "$work/root/tests/$file"
done
for name in tiny far mirrored; do
    cat > "$work/root/tests/clients/recipes/$name.sh" << 'END'
# A client that prints how many ranks there are.
about="a program of this test"
source=pypi:tiny==1.0
build() { mpicc main.c -o main; }
tests() {
    linked main
    expect "2 ranks" '2 ranks' mpirun -n 2 ./main
}
END
done
sed -i 's/^source=.*/source=debian:far/' "$work/root/tests/clients/recipes/far.sh"
sed -i "s|^source=.*|source=git:file://$work/repository#$(printf '0%.0s' {1..40})|" \
    "$work/root/tests/clients/recipes/mirrored.sh"
cat > "$work/tiny-1.0/main.c" << 'END'
#include <mpi.h>
#include <stdio.h>
int main(void) {
    int size;
    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("%d ranks\n", size);
    return MPI_Finalize();
}
END
tar czf "$work/archives/tiny-1.0.tar.gz" -C "$work" tiny-1.0
cp "$work/archives/tiny-1.0.tar.gz" "$work/archives/far_1.0.orig.tar.gz"
sum=$(sha256sum "$work/archives/tiny-1.0.tar.gz" | cut -d ' ' -f 1)

# Lists that tell of far's archive, and a mirror that has lost it.
stand_in() {  # name body
    printf '#!/bin/bash\n%s\n' "$2" > "$work/bin/$1"
    chmod +x "$work/bin/$1"
}
# shellcheck disable=SC2016  # the stand-ins' words
stand_in apt-get 'case "$*" in
*indextargets*) echo "http://mirror.invalid/debian/ stable main" ;;
*source*) echo "E: Failed to fetch http://mirror.invalid/far_1.0.orig.tar.gz  404  Not Found" >&2
    echo "E: Failed to fetch some archives." >&2; exit 100 ;;
esac'
stand_in apt-cache "printf ' %s 9 far_1.0.orig.tar.gz\n %s 9 far_1.0.debian.tar.xz\n' $sum 0$(echo "$sum" | cut -c 2-)"

code=0
clients() {  # name archives; a fresh folder each time
    rm -rf "$work/clients"
    again "$@"
}
again() {  # name archives; in the folder of the last time
    code=0
    PATH=$work/bin:$PATH POMONA_BUILD=$build POMONA_CLIENTS=$work/clients CLIENT_ARCHIVES=$2 \
        bash "$work/root/tests/clients.sh" "$1" < /dev/null > "$work/said" 2>&1 || code=$?
}
expect() {  # title code pattern
    if [ "$code" = "$2" ] && grep -q -e "$3" "$work/said"; then return; fi
    echo "FAILED: $1: ended with $code, not $2, or said nothing like '$3':"
    sed 's/^/    /' "$work/said"
    failed=1
}

clients tiny "$work/archives"
expect "a given archive whose sum nothing tells" 1 "nothing tells its sha256. If $sum is right"

echo "$sum  tiny-1.0.tar.gz" > "$work/archives/SHA256SUMS"
clients tiny "$work/archives"
expect "a given archive" 0 "1.0: 1 cases"
if grep -rq "POMONA_CLIENTS" "$work/clients/pomona/tiny/log.txt"; then
    echo "FAILED: the clients' programs are told of POMONA_CLIENTS:"
    grep -r "POMONA_CLIENTS" "$work/clients/pomona/tiny/log.txt"
    failed=1
fi

# A client that compiles a file of ours.
mkdir "$work/root/tests/programs"
sed 's/ranks/processes/' "$work/tiny-1.0/main.c" > "$work/root/tests/programs/main.c"
sed -i -e 's|mpicc main.c|mpicc "$root/tests/programs/main.c"|' -e '1a own=tests/programs' -e 's/2 ranks/2 processes/g' \
    "$work/root/tests/clients/recipes/tiny.sh"
clients tiny "$work/archives"
expect "a program of ours" 0 "1.0: 1 cases"
sed -i 's/processes/members/' "$work/root/tests/programs/main.c"
again tiny "$work/archives"
expect "a program of ours that has changed" 1 "2 members"

echo "$(echo "$sum" | tr 0-9a-f 1-9a-f0)  tiny-1.0.tar.gz" > "$work/archives/SHA256SUMS"
clients tiny "$work/archives"
expect "another archive than the one that is meant" 1 "has the sha256 $sum, and should have"

clients far "$work/archives"
expect "a given archive that Debian's lists know" 0 "1.0: 1 cases"

clients far "$work/nowhere"
expect "an archive that the mirror has lost" 77 \
    "skipped: .*far_1.0.orig.tar.gz  404  Not Found; CLIENT_ARCHIVES=FOLDER takes far_1.0.orig.tar.gz (sha256 $sum)"

# A commit of a repository, which later ones follow.
if command -v git > /dev/null; then
    clients mirrored "$work/nowhere"
    expect "a repository that is not there" 77 "skipped: .*CLIENT_ARCHIVES=FOLDER takes mirrored-VERSION.tar.gz"
    git init -q "$work/repository"
    cp "$work/tiny-1.0/main.c" "$work/repository"
    git -C "$work/repository" add main.c
    git -C "$work/repository" -c user.name=x -c user.email=x@x commit -q -m "a program"
    clients mirrored "$work/nowhere"
    expect "a commit that is not there" 77 "skipped: .*CLIENT_ARCHIVES=FOLDER takes mirrored-VERSION.tar.gz"
    commit=$(git -C "$work/repository" rev-parse HEAD)
    sed -i "s|#0*$|#$commit|" "$work/root/tests/clients/recipes/mirrored.sh"
    git -C "$work/repository" -c user.name=x -c user.email=x@x commit -q --allow-empty -m "one later"
    clients mirrored "$work/nowhere"
    expect "a commit of a repository" 0 "0git${commit:0:9}: 1 cases"
fi

echo x >> "$work/archives/far_1.0.orig.tar.gz"
clients far "$work/archives"
expect "another archive than Debian's lists know" 1 "and should have $sum"

[ $failed = 0 ] && echo "given archives: all as expected"
exit $failed
