# petsc4py: PETSc for Python, on the library that petsc's recipe has built; of the same release.
about="PETSc for Python, its suite"
source=pypi:petsc4py==3.18.5
python="numpy<2 cython>=3 setuptools<70 wheel"
needs="libblas-dev liblapack-dev"
after="petsc"
tier=whole
build() {
    export PETSC_DIR=$clients/$mpi/petsc/source PETSC_ARCH=arch CFLAGS="-O0 -w"
    MPICC=mpicc "$venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall \
        --no-cache-dir --no-binary mpi4py mpi4py==4.1.2
    # It comes with the C that its Cython made.
    touch src/*.c src/*/*.c
    "$venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall .
}
tests() {
    local ranks
    # shellcheck disable=SC2046
    linked $(find "$venv" -name 'MPI.*.so' -o -name 'PETSc.*.so')
    for ranks in 1 2 4; do
        expect "ranks: $ranks" 'Ran [0-9]+ tests' mpirun -n "$ranks" "$venv/bin/python" \
            test/runtests.py -q --no-builddir
    done
}
