# petsc: parallel vectors, matrices and solvers, in C and Fortran.
about="PETSc, its own checks and examples"
source=debian:petsc
needs="libblas-dev liblapack-dev"
tier=whole
build() {
    python3 ./configure PETSC_ARCH=arch --with-cc=mpicc --with-cxx=0 --with-fc=mpifort \
        --with-mpiexec=mpirun --with-debugging=0 COPTFLAGS=-O1 FOPTFLAGS=-O1 CFLAGS="-w -fPIC" \
        FFLAGS="-w -fPIC -ffree-line-length-none -fallow-argument-mismatch" \
        --with-blaslapack-lib="$blas_folders -llapack -lblas" --with-x=0
    make -s PETSC_DIR="$PWD" PETSC_ARCH=arch all MAKE_NP="$jobs"
}
tests() {
    local name
    export PETSC_DIR=$PWD PETSC_ARCH=arch
    linked arch/lib/libpetsc.so
    # It ends well also when something in it went wrong, and says so in these words.
    expect "make check" 'Completed test examples' sh -c \
        'make check > check.txt; cat check.txt; ! grep -i "possible error\|error detected" check.txt'
    # Each on the ranks that it asks for, its output compared with what is kept.
    rm -rf arch/tests
    for name in vec_is_sf_tests-ex1_ ksp_ksp_tutorials-ex2_; do
        # shellcheck disable=SC2016
        expect "tests $name" 'ok diff-.*' sh -c 'make -f gmakefile.test test search="$1*" TIMEOUT=300 > tests.txt
            cat tests.txt; ! grep "^ *not ok" tests.txt' sh "$name"
    done
}
