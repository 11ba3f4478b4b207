# p4est: forests of octrees, repartitioned in parallel.
about="p4est, its tests"
source=debian:p4est
needs="libtool zlib1g-dev"
tier=whole
build() {
    echo 2.2 > .tarball-version
    echo 2.2 > sc/.tarball-version
    ./bootstrap
    ./configure -q --enable-mpi --disable-shared CC=mpicc CFLAGS="-O1 -w" --disable-vtk-binary --without-blas
    make -s -j "$jobs"
}
tests() {
    limit=3600
    linked test/p4est_test_balance test/p8est_test_balance
    expect "make check, 4 ranks" '# PASS: +[1-9][0-9]*' make check LOG_COMPILER="mpiexec -n 4"
}
