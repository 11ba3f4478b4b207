# npb: NASA's parallel benchmarks, in Fortran and C (IS): sums along rows of ranks (CG), alltoall
# (FT, IS), a wavefront of short messages (LU), halos of all sizes (MG), faces along lines of ranks
# (BT, SP). They compare their results with those of NASA.
about="NAS Parallel Benchmarks"
source=git:https://github.com/mbdevpl/nas-parallel-benchmarks#e49a5dd115cd05dbbe537def8a1df6df776e667e
tier=whole
NPB_CASES="is.S.2 is.B.2 is.B.4 cg.S.2 cg.A.2 cg.A.4 cg.S.8 mg.S.2 mg.A.2 mg.A.4 mg.S.8 ft.S.2 ft.A.2 ft.A.4 ft.S.8
    lu.S.2 lu.W.2 lu.W.4 lu.S.6 bt.S.4 bt.W.4 bt.S.9 sp.S.4 sp.W.4 sp.S.9"
build() {
    local case program size ranks files fortran=yes
    # Wheels of other libraries come without Fortran: another library's would answer.
    [ "$(dirname "$(command -v mpifort)")" = "$(dirname "$(command -v mpicc)")" ] || fortran=no
    mkdir bin
    cd NPB3.3-MPI
    printf '%s = none\n' MPIF77 FLINK FMPI_LIB FMPI_INC FFLAGS FLINKFLAGS MPICC CLINK CMPI_LIB CMPI_INC CFLAGS \
        CLINKFLAGS CC BINDIR RAND > config/make.def
    make -s -C sys setparams CC=cc UCC=cc
    for case in $NPB_CASES; do
        IFS=. read -r program size ranks <<< "$case"
        cd "$(echo "$program" | tr a-z A-Z)"
        rm -f npbparams.h
        ../sys/setparams "$program" "$ranks" "$size"
        # shellcheck disable=SC2086
        if [ "$program" = is ]; then
            mpicc -O2 -w $layout -I. ./*.c ../common/c_print_results.c ../common/c_timers.c -o "../../bin/$case" -lm
        elif [ $fortran = yes ]; then
            # Without what is for vector machines, and BT's ways to write files.
            files=$(find . -name '*.f' | grep -vE '_vec\.f|_mpiio\.f|fortran_io\.f|epio\.f|btio_common\.f')
            mpifort -O2 -w $layout -std=legacy -fallow-argument-mismatch -fallow-invalid-boz -I. $files \
                ../common/print_results.f ../common/timers.f ../common/randi8.f -o "../../bin/$case"
        fi
        cd ..
    done
}
tests() {
    local case
    linked bin/*
    for case in $NPB_CASES; do
        expect "$case" 'Verification += +SUCCESSFUL' mpirun -n "${case##*.}" "bin/$case"
    done
}
