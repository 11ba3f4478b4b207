# mpi4py: MPI for Python, whose suite calls nearly every function of MPI.
about="MPI for Python, its whole suite"
source=pypi:mpi4py==4.1.2
python="numpy cython setuptools wheel"
tier=whole
build() {
    # One large generated file: optimizing it takes minutes.
    CFLAGS=-O0 MPICC=mpicc "$venv/bin/pip" install -q --no-build-isolation --no-deps .
}
tests() {
    local ranks
    limit=3600  # two minutes each, but busy machines take long over its many small messages
    linked "$(find "$venv" -name 'MPI*.so')"
    for ranks in 1 2 4; do
        expect "ranks: $ranks" 'Ran [0-9]+ tests' \
            mpirun -n "$ranks" "$venv/bin/python" test/main.py -q -x 'test_util_dtlib*.testHVector' \
            -x 'test_ulfm*.testIAgree'
    done
    known "testHVector" "extents follow the type map alone (MPI 5.0, 5.1.6), NumPy counts the inner type's padding" \
        mpirun -n 1 "$venv/bin/python" test/main.py -q -i test_util_dtlib
    known "testIAgree" "starts an agreement before a barrier on one rank, after it on the others; MPI 5.0, 6.12 asks for one order" \
        mpirun -n 2 "$venv/bin/python" test/main.py -q -i test_ulfm
}
