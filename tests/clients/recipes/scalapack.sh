# scalapack: dense linear algebra in Fortran above the BLACS, with the testers of both. Its CMake
# files find MPI, and leave it to the compilers to link it. CMake does not build the BLACS' testers.
about="ScaLAPACK, its testers and those of the BLACS"
source=debian:scalapack
needs="libblas-dev liblapack-dev"
tier=whole
build() {
    local lapack=$packages/lib/$triplet/lapack/liblapack.so blas=$packages/lib/$triplet/blas/libblas.so
    # These testers of eigenvalues look whether four variables that they never set have changed.
    sed -i "s/^ *CALL P.LASIZE..EVR( WKNOWN, 'A'/      VL = 0\n      VU = 0\n      IL = 0\n      IU = 0\n&/" \
        TESTING/EIG/p?seprtst.f
    cmake -S . -B out -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
        -DCMAKE_C_COMPILER=mpicc -DCMAKE_Fortran_COMPILER=mpifort \
        -DLAPACK_LIBRARIES="$lapack;$blas" -DCMAKE_C_FLAGS="-O0 -w" \
        -DCMAKE_Fortran_FLAGS="-O0 -w -fallow-argument-mismatch"
    cmake --build out -j "$jobs"
    cd BLACS/TESTING
    mpicc -O0 -w -DAdd_ -DBTCINTFACE -I../SRC -c Cbt.c
    mpifort -O0 -w -std=legacy -c blacstest.f btprim.f tools.f
    local library="-L$PWD/../../out/lib -lscalapack -Wl,-rpath,$PWD/../../out/lib"
    # shellcheck disable=SC2086
    mpifort blacstest.o btprim.o tools.o -o xFbtest $library
    # shellcheck disable=SC2086
    mpifort Cbt.o blacstest.o btprim.o tools.o -o xCbtest $library
}
tests() {
    local name kind
    linked out/lib/libscalapack.so BLACS/TESTING/xCbtest out/TESTING/xdlu
    cat > count.sh << 'END'
mpirun -n 4 "$1" > out.txt 2>&1 || exit 1
awk '/tests? completed and passed/ { good += $1 } /tests? completed and failed/ { bad += $1 }
    END { print good + 0 " tests passed, " bad + 0 " failed"; exit !good || bad }' out.txt
END
    # The last test of these is BLACS_ABORT, which ends the job.
    cat > blacs.sh << 'END'
mpirun -n 4 "$1" > out.txt 2>&1
[ $? != 0 ] && grep -q "DONE BLACS_GRIDEXIT" out.txt && grep -q "called MPI_Abort\|MPI_Abort was called\|killed" out.txt || exit 1
awk '/ TESTS;/ { for (i = 2; i <= NF; ++i) {
        if ($i ~ /^PASSED/) good += $(i - 1); if ($i ~ /^SKIPPED/) not += $(i - 1); if ($i ~ /^FAILED/) bad += $(i - 1) } }
    END { print good + 0 " tests passed, " not + 0 " skipped, " bad + 0 " failed"; exit !good || bad }' out.txt
END
    cd BLACS/TESTING
    for name in xCbtest xFbtest; do
        expect "BLACS, $name, 4 ranks" '[0-9]+ tests passed.*' sh ../../blacs.sh ./$name
    done
    # Linear equations, least squares, eigenvalues, in four kinds of numbers.
    cd ../../out/TESTING
    for name in lu dblu dtlu gblu llt pbllt ptllt inv qr brd hrd trd ls sep gsep nep evc syevr heevr; do
        for kind in s d c z; do
            [ -x "x$kind$name" ] || continue
            expect "x$kind$name, 4 ranks" '[0-9]+ tests passed.*' sh ../../count.sh "./x$kind$name"
        done
    done
    left_out "xshseqr, xdhseqr" "divide by zero, on MPICH too"
    left_out "xssvd, xdsvd" "do not count what they tested"
}
