#!/bin/sh
# process_group_mpi.sh BUILD PYTHON [FOLDER]: the MPI backend that PyTorch itself has
# (ProcessGroupMPI), compiled unchanged with our mpicxx against PYTHON's torch, then
# ranks_process_group_mpi.py over it on 2 and 4 ranks. Its source is PYTORCH_SOURCE: a folder, or
# the path or URL of an archive (tar); without that, what Debian's newer source packages of PyTorch
# have, by apt. It stays in FOLDER and is fetched once. Exit code 77 where it cannot be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
build=$(cd "$1" && pwd -P)
python=$2
folder=${3:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
cd "$folder"
[ -n "${3-}" ] || trap 'rm -rf "$folder"' EXIT
say() { printf '==> %s\n' "$*"; }
skip() { echo "skipped: $*"; exit 77; }
parts=torch/csrc/distributed/c10d

# Lists of packages of our own, so that the system's stay as they are.
from_debian() {
    command -v apt-get > /dev/null || return 1
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$keys" ] || return 1
    # shellcheck disable=SC2016  # the word is apt's
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Label: Debian" | head -n 1)
    [ -n "$mirror" ] || return 1
    for suite in sid trixie; do
        mkdir -p "apt/$suite/parts" "apt/$suite/lists/partial" "apt/$suite/cache/archives/partial"
        echo "deb-src [signed-by=$keys] $mirror $suite main" \
            > "apt/$suite/parts/all.list"
        set -- -qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$folder/apt/$suite/parts" \
            -o "Dir::State::Lists=$folder/apt/$suite/lists" -o "Dir::Cache=$folder/apt/$suite/cache" \
            -o APT::Sandbox::User=root
        apt-get "$@" -o APT::Update::Error-Mode=any update >> apt.log 2>&1 || continue
        apt-get "$@" source --download-only --tar-only pytorch >> apt.log 2>&1 && return 0
    done
    return 1
}

if [ ! -f "source/$parts/ProcessGroupMPI.cpp" ]; then
    given=${PYTORCH_SOURCE-}
    mkdir -p "source/$parts"
    case $given in
    '') from_debian || skip "Debian's source packages of PyTorch could not be had; PYTORCH_SOURCE names another place"
        given=$(find "$folder" -maxdepth 1 -name 'pytorch*.tar.*' | sort | tail -n 1) ;;
    *://*)
        curl -sSfL -o archive "$given" || skip "$given could not be had"
        given=archive ;;
    esac
    if [ -d "$given" ]; then
        cp "$given/$parts/ProcessGroupMPI.cpp" "$given/$parts/ProcessGroupMPI.hpp" "source/$parts"
    else
        tar -xf "$given" -C source --strip-components=1 --wildcards "*/$parts/ProcessGroupMPI.?pp"
        basename "$given" > source/from
    fi
fi

say "Compiling PyTorch's ProcessGroupMPI ($(cat source/from 2> /dev/null || echo "$PYTORCH_SOURCE"))"
"$python" "$here/../../torch_glue/python/pomona/_build_flags.py" > flags
value() { sed -n "s/^$1=//p" flags; }
set -- -std=c++20 -O1 -fPIC -DUSE_C10D_MPI -DTORCH_EXTENSION_NAME=process_group_mpi -Isource
for include in $(value TORCH_INCLUDES | tr ';' ' ') $(value PYTHON_INCLUDE); do set -- "$@" -isystem "$include"; done
rm -f ./*.o
for source in "source/$parts/ProcessGroupMPI.cpp" "$here/process_group_mpi.cc"; do
    "$build/bin/mpicxx" "$@" -c "$source" -o "$(basename "$source").o" &
done
wait
library=process_group_mpi$(value EXT_SUFFIX)
"$build/bin/mpicxx" -shared ProcessGroupMPI.cpp.o process_group_mpi.cc.o -L"$(value TORCH_LIB_DIR)" \
    -ltorch_python -ltorch_cpu -ltorch -lc10 -o "$library"

for ranks in 2 4; do
    say "$ranks ranks, torch $(value TORCH_VERSION)"
    # pomona's own backend does not come with torch: what serves is PyTorch's.
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 OMP_NUM_THREADS=1 PYTHONPATH="$folder:$build/python" \
        "$build/bin/mpirun" --oversubscribe --timeout 300 -n $ranks "$python" "$here/ranks_process_group_mpi.py" > out 2>&1 ||
        { cat out; exit 1; }
    tail -n 1 out
    grep -q '^all [0-9]* passed' out
done
say "PyTorch's own backend works over Pomona"
