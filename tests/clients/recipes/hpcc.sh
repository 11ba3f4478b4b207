# hpcc: HPL, PTRANS, RandomAccess, FFT and more in one program. It checks its own results.
about="HPC Challenge, with HPL"
source=debian:hpcc
needs="libblas-dev"
tier=short
build() {
    # HPL uses MPI-1's MPI_Address and MPI_Type_struct, which other libraries may not have either.
    local removed="-include mpi_removed.h"
    if [ "$mpi" != pomona ]; then
        removed=
        grep -rlE 'MPI_(Address|Type_struct)' --include='*.[ch]' . | xargs sed -i \
            's/\<MPI_Address\>/MPI_Get_address/g; s/\<MPI_Type_struct\>/MPI_Type_create_struct/g'
    fi
    cat > hpl/Make.pomona << END
SHELL = /bin/sh
CD = cd
CP = cp
LN_S = ln -sf
MKDIR = mkdir
RM = /bin/rm -f
TOUCH = touch
ARCH = pomona
TOPdir = ../../..
INCdir = \$(TOPdir)/include
BINdir = \$(TOPdir)/bin/\$(ARCH)
LIBdir = \$(TOPdir)/lib/\$(ARCH)
HPLlib = \$(LIBdir)/libhpl.a
HPL_DEFS = -DAdd_ -DF77_INTEGER=int -DStringSunStyle -I\$(INCdir) -I\$(INCdir)/\$(ARCH)
HPL_LIBS = \$(HPLlib) $blas_folders -lblas -lm
CC = mpicc
CCNOOPT = \$(HPL_DEFS)
CCFLAGS = \$(HPL_DEFS) -O2 -w $removed
LINKER = mpicc
LINKFLAGS =
ARCHIVER = ar
ARFLAGS = r
RANLIB = ranlib
END
    make -s -j "$jobs" arch=pomona
    # HPL: all grids of 4 ranks, all broadcasts and factorizations, with and without looking ahead.
    sed -e '5s/.*/1 number/;6s/.*/150 N/' -e '7s/.*/2 number/;8s/.*/17 32 NB/' \
        -e '10s/.*/3 number/;11s/.*/2 1 4 P/;12s/.*/2 4 1 Q/' -e '14s/.*/3 number/;15s/.*/0 1 2 PFACT/' \
        -e '22s/.*/6 number/;23s/.*/0 1 2 3 4 5 BCAST/' -e '24s/.*/2 number/;25s/.*/0 1 DEPTH/' \
        _hpccinf.txt > hpccinf.txt
}
tests() {
    linked hpcc
    rm -f hpccoutf.txt
    expect "all on 4 ranks" 'Success=1' sh -c 'mpirun -n 4 ./hpcc && cat hpccoutf.txt'
    expect "HPL" '[0-9]+ tests completed and passed residual checks,' cat hpccoutf.txt
    expect "HPL, wrong residuals" ' 0 tests completed and failed residual checks,' cat hpccoutf.txt
    expect "RandomAccess" 'Found 0 errors in [0-9]+ locations' cat hpccoutf.txt
}
