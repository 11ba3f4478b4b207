# fftw: transforms distributed over ranks, and the transpositions that they are made of.
about="FFTW's MPI transforms"
source=debian:fftw3
tier=whole
build() {
    ./configure -q --enable-mpi --disable-shared --disable-doc MPICC=mpicc MPIRUN=mpirun CFLAGS=-O1
    make -s -j "$jobs"
    # Its checker prints a line with three errors for each transform, and stops at a wrong one.
    cat > check.sh << 'END'
perl -w tests/check.pl --verbose --random --maxsize=10000 -c=10 --mpi "mpirun -n $1 $PWD/mpi/mpi-bench" > out.txt
code=$?
cat out.txt
echo "$(grep -cE '^[a-z][^ ]*( [0-9.e-]+){3}$' out.txt) transforms"
exit $code
END
}
tests() {
    local ranks
    linked mpi/mpi-bench
    for ranks in 1 2 3 4; do
        expect "ranks: $ranks" '[1-9][0-9]* transforms' sh check.sh "$ranks"
    done
}
