# superlu_dist: a direct solver of sparse systems in C. Without ParMETIS, so it orders serially; and
# without MC64, which Debian's archive leaves out, so rows stay where they are.
about="SuperLU_DIST, its tests and examples"
source=debian:superlu-dist
needs="libblas-dev"
tier=whole
build() {
    printf '#include <stdlib.h>\nvoid mc64id_dist(void) { abort(); }\nvoid mc64ad_dist(void) { abort(); }\n' > SRC/mc64ad_dist.c
    sed -i 's/= LargeDiag_MC64;/= NOROWPERM;/' SRC/util.c
    cmake -S . -B out -DCMAKE_BUILD_TYPE=None -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_SHARED_LIBS=ON \
        -DCMAKE_C_COMPILER=mpicc -DCMAKE_CXX_COMPILER=mpicxx -DCMAKE_Fortran_COMPILER=mpifort \
        -DCMAKE_C_FLAGS="-O1 -w" -DXSDK_ENABLE_Fortran=OFF -Denable_openmp=OFF \
        -DTPL_ENABLE_PARMETISLIB=OFF -DTPL_ENABLE_INTERNAL_BLASLIB=OFF -Denable_single=OFF \
        -DTPL_BLAS_LIBRARIES="$packages/lib/$triplet/blas/libblas.so"
    cmake --build out -j "$jobs"
}
tests() {
    local shape ranks
    linked out/SRC/libsuperlu_dist.so out/TEST/pdtest out/EXAMPLE/pddrive out/EXAMPLE/pzdrive
    # Its own test, on grids of processes: it looks at residuals.
    for shape in "1 2" "1 3" "2 2" "2 3"; do
        # shellcheck disable=SC2086
        set -- $shape
        expect "pdtest, $1 by $2" 'All tests for .* driver passed .*' mpirun -n $(($1 * $2)) out/TEST/pdtest \
            -r "$1" -c "$2" -s 3 -b 2 -x 8 -m 20 -f EXAMPLE/g20.rua
    done
    left_out "pdtest, 1 by 1" "without MC64 two of its 14 residuals are 20.05, where 20 is the limit"
    # Examples that print how far the solution is from the one that they began with.
    cat > solve.sh << 'END'
limit=$1
shift
mpirun -n "$@" > out.txt || exit 1
awk -v limit="$limit" '/Sol .*Xtrue.*=/ { split($0, part, "= "); e = part[2] + 0; if (!n++ || e > worst) worst = e }
    END { if (n) print n " solutions, error " worst; exit !n || worst > limit }' out.txt
END
    for ranks in 1 2 4; do
        expect "pddrive, $ranks by 1" '[0-9]+ solutions, error .*' sh solve.sh 1e-8 "$ranks" out/EXAMPLE/pddrive \
            -r "$ranks" -c 1 EXAMPLE/big.rua
    done
    # Its second system is solved with the first one's scaling: 8.7e-7 on one rank as well.
    expect "pddrive3, 2 by 2" '[0-9]+ solutions, error .*' sh solve.sh 1e-5 4 out/EXAMPLE/pddrive3 \
        -r 2 -c 2 EXAMPLE/big.rua
    expect "pzdrive, 2 by 2" '[0-9]+ solutions, error .*' sh solve.sh 1e-8 4 out/EXAMPLE/pzdrive -r 2 -c 2 EXAMPLE/cg20.cua
}
