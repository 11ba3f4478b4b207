# hypre: multigrid and Krylov solvers; its checks compare iterations and norms with kept ones.
about="hypre, its parallel checks"
source=debian:hypre
tier=whole
build() {
    cd src
    ./configure CC=mpicc CXX=mpicxx F77=mpif77 FC=mpif77 CFLAGS="-O1 -w" CXXFLAGS="-O1 -w" FFLAGS="-O1 -w"
    make -s -j "$jobs"
    make -s -C test all
    # Each .sh of hypre's compares what the runs of its .jobs print with kept numbers; it is silent
    # if all is well.
    cat > test/check.sh << 'END'
bash ./runtest.sh -rtol 1e-6 -mpi "mpirun -n" "$1.sh" || exit 1
if [ -s "$1.err" ]; then cat "$1.err"; exit 1; fi
echo "$(ls "$1".out.* | wc -l) outputs as kept"
END
}
tests() {
    local name
    cd src/test
    linked ij struct sstruct
    for name in TEST_ij/solvers TEST_struct/solvers TEST_sstruct/solvers; do
        expect "$name" '[1-9][0-9]* outputs as kept' sh check.sh "$name"
    done
}
