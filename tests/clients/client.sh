# tests/clients/client.sh ROOT NAME FOLDER MPI: one client: fetches, builds and runs what
# recipes/NAME.sh says. Started by tests/clients.sh; what it prints last is the client's line. Ends
# with 77 if nothing could be fetched. A recipe sets
#   about    what the client is, for the table
#   source   debian:PACKAGE, the source package's upstream archive; pypi:NAME==VERSION, the source archive;
#            wheel:NAME==VERSION, which pip installs into the client's environment; or git:URL#COMMIT, whose
#            id is the proof of what came
#   needs    Debian's packages that are unpacked beside it where they are not installed (may be left out)
#   python   what pip installs into an environment for it (may be left out)
#   own      files and folders of ours that it compiles; when they change, it is built again (may be left out)
#   after    clients that must have been built before it: clients.sh runs them first (may be left out)
#   tier     short (runs in CI) or whole
# and has two functions, which begin in the unpacked source (or an empty folder): build, and tests,
# which calls
#   linked FILE...                 these are linked to the MPI library under test, and to no other
#   expect TITLE PATTERN COMMAND   the command ends well and prints a line with this (grep -E; may be empty)
#   known TITLE WHY COMMAND        the command fails, for a reason that stands in the table
#   left_out WHAT WHY              what is not run
# CLIENT_COMPILERS: the folder of another MPI's mpicc. CLIENT_STEP=build: end when it is built
# (tests/bench/apps.py). CLIENT_ARCHIVES: a folder whose archives are taken rather than fetched:
# PACKAGE_1.2.orig.tar.xz or NAME-1.2.tar.gz (of git, NAME is the client's), with the sha256 that
# Debian's lists or a file SHA256SUMS beside them tell. shellcheck shell=bash
root=$1 name=$2 clients=$3 mpi=$4
. "$root/tests/setup.sh"
folder=$clients/$mpi/$name
log=$folder/log.txt
found=$folder/found.tsv  # kind, title, what was found
# For programs whose speed is compared: the same machine code whatever a wrapper adds of its own. A
# loop of NPB's CG that began elsewhere took 1.3 times as long.
layout="-falign-functions=64 -falign-loops=64 -fno-stack-protector"
jobs=${POMONA_JOBS:-$(getconf _NPROCESSORS_ONLN)}
limit=900  # seconds for one command; a recipe may set another
about='' source='' needs='' python='' own='' after='' tier=whole
. "$root/tests/clients/recipes/$name.sh"

skip() { echo "skipped: $*"; exit 77; }

# --- What comes from elsewhere.

# Lists of packages and their sources of our own, from where the system has its own.
APT_OPTIONS=(-o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$clients/apt/parts"
    -o "Dir::State::Lists=$clients/apt/lists" -o "Dir::Cache=$clients/apt/cache" -o "APT::Sandbox::User=root")
apt_lists() {
    command -v apt-get > /dev/null || skip "this system has no apt"
    if [ -f "$clients/apt/complete" ]; then return; fi
    mkdir -p "$clients/apt/parts" "$clients/apt/lists/partial" "$clients/apt/cache/archives/partial"
    # shellcheck disable=SC2016  # the words are apt's
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' "Created-By: Packages" \
        "Origin: Debian" | sort -u | sed 'h; s/^/deb /p; g; s/^/deb-src /' > "$clients/apt/parts/all.list"
    [ -s "$clients/apt/parts/all.list" ] || skip "this system has no lists of Debian's packages"
    apt-get "${APT_OPTIONS[@]}" -qq -o APT::Update::Error-Mode=any update >> "$log" 2>&1 ||
        skip "Debian's lists of packages could not be fetched"
    touch "$clients/apt/complete"
}

# The sha256 that an archive may have, a line each: by Debian's lists, or SHA256SUMS beside it.
sums_known_of() {  # archive
    local list
    list=$(dirname "$1")/SHA256SUMS
    { if [ -f "$list" ]; then cat "$list"; fi; debian_sums; } | awk -v name="$(basename "$1")" '
        length($1) == 64 && ($NF == name || $NF == "*" name) { print $1 }' | sort -u
}
debian_sums() {  # lines: sum, size, file
    [ "${source%%:*}" = debian ] && (apt_lists) > /dev/null &&
        apt-cache "${APT_OPTIONS[@]}" showsrc "${source#*:}" 2> /dev/null | awk 'NF == 3 && length($1) == 64' || true
}
sum_of() { { sha256sum "$1" 2> /dev/null || shasum -a 256 "$1"; } | cut -d ' ' -f 1; }

# Copies the archive of the source from CLIENT_ARCHIVES, if it is there.
given_archive() {  # folder
    local package=${source#*:} archive sum sums
    case $source in
    debian:*) archive=${package}_*.orig.tar.* ;;
    git:*) archive=$name-[0-9]*.tar.* ;;
    *) archive=${package/==/-}.tar.* ;;
    esac
    archive=$(find "${CLIENT_ARCHIVES:-/nowhere}" -maxdepth 1 -name "$archive" 2> /dev/null | sort | tail -n 1)
    [ -n "$archive" ] || return 1
    sum=$(sum_of "$archive") sums=$(sums_known_of "$archive")
    [ -n "$sums" ] || fail "$archive: nothing tells its sha256. If $sum is right, a line with that and" \
        "its name in SHA256SUMS beside it says so"
    echo "$sums" | grep -qx "$sum" || fail "$archive has the sha256 $sum, and should have" $sums
    cp "$archive" "$1"
}
# The tree of one commit as an archive. Servers that do not give single commits give all.
git_archive() {  # folder
    local url=${source#git:} commit=${source##*#} repository=$1/repository
    url=${url%#*}
    git init -q --bare "$repository" &&
        { git -C "$repository" fetch -q --depth 1 "$url" "$commit" ||
            git -C "$repository" fetch -q "$url" '+refs/*:refs/*'; } &&
        git -C "$repository" archive --format=tar.gz --prefix="$name/" -o "$1/$name-0git${commit:0:9}.tar.gz" \
            "$commit" &&
        rm -rf "$repository"
}
# Why there is no archive, and what to do.
not_fetched() {
    local why wanted
    why=$(sed -nE 's#^(E: Failed to fetch|fatal: unable to access) (.*://.*)#\2#p' "$log" | tail -n 1)
    wanted=$(debian_sums | awk '$3 ~ /\.orig\.tar\.[a-z0-9]+$/ { print $3 " (sha256 " $1 ")" }' | sort -u | tail -n 1)
    [ "${source%%:*}" != git ] || wanted="$name-VERSION.tar.gz"
    echo "its source could not be fetched${why:+: $why}; CLIENT_ARCHIVES=FOLDER takes ${wanted:-its archive} from a folder"
}
fetch() {  # the archive goes to downloads/NAME
    local downloads=$clients/downloads/$name
    if [ -f "$downloads/complete" ]; then return; fi
    rm -rf "$downloads"
    mkdir -p "$downloads"
    if given_archive "$downloads"; then
        touch "$downloads/complete"
        return
    fi
    case $source in
    debian:*)
        apt_lists
        (cd "$downloads" && apt-get "${APT_OPTIONS[@]}" -qq source --download-only --tar-only "${source#*:}") \
            >> "$log" 2>&1 || skip "$(not_fetched)" ;;
    pypi:*)
        python_environment
        "$venv/bin/pip" download -q --no-deps --no-binary :all: --no-build-isolation -d "$downloads" \
            "${source#*:}" >> "$log" 2>&1 || skip "$(not_fetched)" ;;
    git:*) git_archive "$downloads" >> "$log" 2>&1 || skip "$(not_fetched)" ;;
    *) fail "$name: no source is $source" ;;
    esac
    touch "$downloads/complete"
}
archive_of() { find "$clients/downloads/$name" -name '*.tar.*' | head -n 1; }

venv=$clients/venv/$name
python_environment() {
    if [ -f "$venv/complete" ]; then return; fi
    "$(find_python)" -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install -q --disable-pip-version-check $python >> "$log" 2>&1 ||
        skip "Python's packages could not be fetched: $python"
    touch "$venv/complete"
}

packages=/usr  # where what a recipe needs is found
triplet=$(cc -print-multiarch)
missing_needs() {
    apt_lists
    local missing
    # shellcheck disable=SC2046,SC2086
    missing=$(missing_packages apt $needs)
    if [ -z "$missing" ]; then return; fi
    # shellcheck disable=SC2086
    (unpack_packages apt "$clients/packages" $missing) >> "$log" 2>&1 ||
        skip "what it needs could not be fetched: $needs"
    # shellcheck disable=SC2086
    unpack_packages apt "$clients/packages" $missing
    packages=$clients/packages/usr
    # These look for their own files where they would be installed.
    [ ! -f "$packages/bin/libtoolize" ] || sed -i "s|=\"/usr/share|=\"$packages/share|" "$packages/bin/libtoolize"
    export ACLOCAL_PATH=$packages/share/aclocal BISON_PKGDATADIR=$packages/share/bison
    # Where Debian's alternatives would lead to.
    LD_LIBRARY_PATH=$packages/lib/$triplet/blas:$packages/lib/$triplet/lapack:$LD_LIBRARY_PATH
}

# --- The MPI under test, first in PATH.

use_mpi() {
    local tool
    if [ "$mpi" = pomona ]; then
        export PATH="$POMONA_BUILD/bin:$PATH"
        library='libmpi_abi\.so'
    elif [ -n "${CLIENT_COMPILERS:-}" ]; then
        export PATH="$CLIENT_COMPILERS:$PATH"
        library='libmpi'
    else
        mkdir -p "$folder/bin"
        for tool in mpicc mpicxx mpifort mpirun mpiexec mpif77 mpif90; do
            command -v "$tool.$mpi" > /dev/null || skip "there is no $tool.$mpi"
            # No links: programs look for others beside themselves.
            printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "$tool.$mpi")" > "$folder/bin/$tool"
            chmod +x "$folder/bin/$tool"
        done
        export PATH="$folder/bin:$PATH"
        library="lib$mpi|libmpi\.so"
    fi
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
}

# --- What recipes call.

links=0
linked() {
    local file libraries
    for file; do
        [ -f "$file" ] || fail "there is no $file"
        # libtool keeps the program behind a script.
        if [ -f "$(dirname "$file")/.libs/$(basename "$file")" ]; then
            file=$(dirname "$file")/.libs/$(basename "$file")
        fi
        libraries=$(ldd "$file" | awk '/libmpi|libpmpi|libmpich/ { print $1 " " $3 }')
        echo "$file: $libraries" >> "$log"
        echo "$libraries" | grep -qE "$library" || fail "$file is not linked to the library under test: $libraries"
        if [ "$mpi" = pomona ] && [ -n "$(echo "$libraries" | grep -v " $(realpath "$POMONA_BUILD")/lib/")" ]; then
            fail "$file is linked to another MPI: $libraries"
        fi
        links=$((links + 1))
    done
}

wrong=0 cases=0
run_logged() {  # output file, command...
    local output=$1 code=0
    shift
    echo "+ $*" >> "$log"
    timeout -k 10 "$limit" "$@" > "$output" 2>&1 < /dev/null || code=$?
    cat "$output" >> "$log"
    return $code
}
found() { printf '%s\t%s\t%s\n' "$@" >> "$found"; }

expect() {
    local title=$1 pattern=$2 code=0 line output=$folder/output.txt
    shift 2
    cases=$((cases + 1))
    run_logged "$output" "$@" || code=$?
    line=$([ -z "$pattern" ] || grep -aoE "$pattern" "$output" | tail -n 1) || true
    if [ $code = 0 ] && { [ -n "$line" ] || [ -z "$pattern" ]; }; then
        found passed "$title" "$line"
        return
    fi
    wrong=$((wrong + 1))
    if [ $code = 124 ]; then found failed "$title" "did not end within $limit s"
    else found failed "$title" "ended with $code"; fi
    echo "$title: ended with $code, expected a line with '$pattern' of: $*"
    tail -n 25 "$output"
}

known() {
    local title=$1 why=$2
    shift 2
    cases=$((cases + 1))
    if run_logged "$folder/output.txt" "$@"; then
        wrong=$((wrong + 1))
        found failed "$title" "passes, and is listed as failing"
        echo "$title passes, and the recipe says that it fails: $why"
    else
        found known "$title" "$why"
    fi
}
left_out() { found "left out" "$1" "$2"; }

# --- One client.

: > "$log"
rm -f "$found"
use_mpi
for other in $after; do
    [ -f "$clients/$mpi/$other/built.txt" ] || skip "$other must be built before it: tests/clients.sh $other $name"
done
[ -z "$needs" ] || missing_needs
# For who runs the client beside this script (tests/bench/apps.py).
printf '%s' "${LD_LIBRARY_PATH-}" > "$folder/library_path.txt"
# Reference BLAS and LAPACK, where a recipe needs libblas-dev and liblapack-dev.
blas_folders="-L$packages/lib/$triplet/blas -L$packages/lib/$triplet/lapack"
if [ "${source%%:*}" = wheel ]; then
    python="$python ${source#*:}"
    python_environment
    archive=/dev/null version=${source##*=}
else
    [ -z "$python" ] || python_environment
    fetch
    archive=$(archive_of)
    # NAME_1.2+dfsg.orig.tar.xz, NAME-1.2.tar.gz
    version=$(basename "$archive" | sed -E 's/^[^_]*_([0-9].*)\.tar\..*/\1/; s/^[a-zA-Z0-9.+]*[a-zA-Z0-9][_-]([0-9].*)\.tar\..*/\1/')
    version=$(echo "$version" | sed -E 's/\.orig$//; s/\+(dfsg|ds|repack)[0-9]*$//')
fi
found client "$name" "$version"
case $source/$version in
git:*/0git*) ;;
git:*) source="an archive given in place of ${source#git:}" source=${source%#*} ;;
esac
found about "$about" "$source"

# shellcheck disable=SC2086  # own has words
own_files() { [ -z "$own" ] || (cd "$root" && find $own -type f -exec cksum {} + | sort); }
stamp=$({ sed '/^tests()/,$d' "$root/tests/clients/recipes/$name.sh"; own_files; cat "$archive"; } | cksum)
tree=$folder/source
if [ "$(cat "$folder/built.txt" 2> /dev/null)" != "$stamp" ]; then
    rm -rf "$tree" "$folder/built.txt"
    mkdir -p "$tree"
    [ "$archive" = /dev/null ] || tar xf "$archive" -C "$tree" --strip-components 1
    # In a condition the shell would go on after a command that fails.
    set +e
    (set -e; cd "$tree"; build) >> "$log" 2>&1
    code=$?
    set -e
    if [ $code != 0 ]; then
        tail -n 30 "$log"
        fail "does not build; the whole output is in $log"
    fi
    printf '%s' "$stamp" > "$folder/built.txt"
fi
[ "${CLIENT_STEP:-}" != build ] || exit 0
cd "$tree"
tests
[ $links != 0 ] || fail "the recipe does not look at what was linked"
[ $cases != 0 ] || fail "the recipe runs nothing"
[ $wrong = 0 ] || fail "$wrong of $cases failed; the whole output is in $log"
echo "$version: $cases cases"
