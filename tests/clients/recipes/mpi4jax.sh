# mpi4jax: MPI inside JAX's compiled functions: its extension calls MPI from XLA's own threads.
about="mpi4jax, its suite"
source=pypi:mpi4jax==0.9.1.post2
python="jax==0.10.2 jaxlib==0.10.2 numpy cython nanobind>=2 setuptools>=82 wheel pytest"
tier=whole
build() {
    export CFLAGS=-O0 CXXFLAGS=-O1 MPICC=mpicc
    "$venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall --no-cache-dir \
        --no-binary mpi4py mpi4py==4.1.2
    # For CPUs alone, also where there is a CUDA compiler, which JAX's wheel would not match.
    sed -i 's|^def get_cuda_info():|&\n    return {"compile": [], "libdirs": [], "libs": [], "rpaths": []}|' setup.py
    "$venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall .
    # Its tests shall find what is installed, not the sources.
    mkdir installed
    cp -r tests examples installed
}
tests() {
    local ranks
    limit=3600  # JAX compiles each test for itself; ranks that wait for others take cores from them
    cd installed
    # shellcheck disable=SC2046
    linked $(find "$venv" -name 'MPI.*.so' -o -name 'mpi_xla_bridge_cpu*.so')
    for ranks in 1 2 4; do
        expect "ranks: $ranks" '[0-9]+ passed' mpirun -n "$ranks" "$venv/bin/python" -m pytest -q \
            -p no:cacheprovider tests
    done
}
