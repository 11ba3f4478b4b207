# pnetcdf: files of netCDF's classic formats, written and read by MPI's file functions.
about="PnetCDF, its tests, in C, C++ and Fortran"
source=debian:pnetcdf
needs="libtool"
tier=whole
build() {
    autoreconf -fi
    ./configure -q --disable-shared MPICC=mpicc MPICXX=mpicxx MPIF77=mpif77 MPIF90=mpif90 \
        TESTMPIRUN="mpirun -n NP" CFLAGS="-O1 -w" CXXFLAGS="-O1 -w" \
        FFLAGS="-O1 -w -fallow-argument-mismatch" FCFLAGS="-O1 -w -fallow-argument-mismatch"
    make -s -j "$jobs"
    make -s -j "$jobs" tests
}
tests() {
    limit=3600
    linked test/nc_test/nc_test test/nf90_test/nf90_test test/testcases/ncmpi_vars_null_stride
    expect "make check" '# PASS: +[1-9][0-9]*' make check
    expect "make ptests" 'All .*passed|pass.*' make ptests
}
