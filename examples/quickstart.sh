#!/usr/bin/env bash
# examples/quickstart.sh: from a clone to a training step over Pomona. Installs what is missing
# (saying what), builds, measures what messages cost here, and runs: an MPI program over shared
# memory and over TCP, data-parallel training on real data, also over two hosts, and a benchmark.
# Results: .build/quickstart.
#   examples/quickstart.sh                    the two hosts are namespaces of this machine (Linux, root)
#   examples/quickstart.sh --host mac1,mac2   these, reached by ssh (docs/multi-node.md)
#   examples/quickstart.sh --no-install       installs nothing, says what is missing
. "$(dirname "$0")/../tests/setup.sh"
hosts=
while [ $# -gt 0 ]; do
    case $1 in
    --no-install) export POMONA_INSTALL=no ;;
    --host) [ $# -gt 1 ] || fail "--host needs names: --host mac1,mac2"; hosts=$2; shift ;;
    -h | --help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
    *) fail "There is no option $1; --help lists them" ;;
    esac
    shift
done
install_packages
make_venv
mkdir -p "$(dirname "$POMONA_BUILD")"
if [ ! -f "$POMONA_BUILD/build.ninja" ]; then build -DPOMONA_TESTS=OFF
else find_cmake; say "Building in $POMONA_BUILD"; "$CMAKE" --build "$POMONA_BUILD" > /dev/null; fi
out=$(dirname "$POMONA_BUILD")/quickstart
mkdir -p "$out"
bin=$POMONA_BUILD/bin
export PYTHONPATH=$POMONA_BUILD/python
export PATH=$POMONA_VENV/bin:$PATH   # plots are drawn by its matplotlib

say "0. What messages cost on this machine: measured once, for all jobs to come (pomona tune repeats it)"
"$bin/pomona" tune --once || echo "Built-in estimates serve until it has been tuned; all works with them."

say "1. An MPI program, compiled with our mpicc, on 4 ranks"
"$bin/mpicc" -O2 -o "$out/ring" "$POMONA_ROOT/examples/ring.c"
echo "over shared memory:"
"$bin/mpirun" -n 4 "$out/ring"
echo "over TCP:"
"$bin/mpirun" -n 4 --set transports=self,tcp "$out/ring"

say "2. DistributedDataParallel on handwritten digits, backend \"mpi\" on a stock PyTorch, 2 ranks"
"$bin/mpirun" -n 2 "$POMONA_VENV/bin/python" "$POMONA_ROOT/examples/ddp_digits.py" --check --out "$out"

say "3. The same over two hosts, a rank on each"
train="$POMONA_VENV/bin/python $POMONA_ROOT/examples/ddp_digits.py --check --out $out/hosts"
mkdir -p "$out/hosts"
if [ -n "$hosts" ]; then
    # shellcheck disable=SC2086
    "$bin/mpirun" --host "$hosts" $train
else
    code=0
    # shellcheck disable=SC2086
    "$POMONA_VENV/bin/python" -B "$POMONA_ROOT/tests/host_world.py" 2 "$bin/mpirun" --host HOSTS $train || code=$?
    if [ $code = 77 ]; then echo "Left out: it needs --host NAMES, or root on Linux for hosts of its own."
    elif [ $code != 0 ]; then exit $code; fi
fi

say "4. mpi-bench allreduce"
"$bin/mpirun" -n 2 "$bin/mpi-bench" allreduce --json "$out/allreduce.json" --plot "$out/allreduce.png"

say "Done"
cat <<END
Results and plots are in $out. To go on in this shell:
    export PATH=$bin:\$PATH PYTHONPATH=$POMONA_BUILD/python
    mpicc -O2 program.c -o program && mpirun -n 4 ./program
    mpirun -n 2 $POMONA_VENV/bin/python train.py      # dist.init_process_group("mpi")
    mpi-bench versus --quick                          # beside other MPI libraries
    pomona info, pomona params, pomona cost allreduce 1MiB
README.md tells the rest.
END
