# mumps: a direct solver in Fortran, double precision. ScaLAPACK's source cannot be fetched, so that
# of MUMPS's own stand-ins serves that belong to ScaLAPACK: they stop the program if they are
# called.
about="MUMPS, solving a Poisson equation"
source=debian:mumps
needs="libblas-dev liblapack-dev"
tier=whole
build() {
    sed -n '/SUBROUTINE blacs_gridinit(/,$p' libseq/mpi.f > no_scalapack.f
    mpif77 -O1 -w -fPIC -c no_scalapack.f -o no_scalapack.o
    sed -e 's/^ORDERINGSF = .*/ORDERINGSF = -Dpord/' -e 's/^LORDERINGS = .*/LORDERINGS = $(LPORD)/' \
        -e 's/^IORDERINGSF = .*/IORDERINGSF =/' -e 's/^IORDERINGSC = .*/IORDERINGSC = $(IPORD)/' \
        -e "s|^SCALAP .*|SCALAP = $PWD/no_scalapack.o|" -e "s|^LAPACK .*|LAPACK = $blas_folders -llapack|" \
        -e "s|^LIBBLAS .*|LIBBLAS = $blas_folders -lblas|" \
        -e 's/^OPTF .*/OPTF = -O1 -w -fallow-argument-mismatch/' -e 's/^OPTL .*/OPTL = -O1/' \
        -e 's/^OPTC .*/OPTC = -O1 -w/' Make.inc/Makefile.debian.PAR > Makefile.inc
    make -s -j "$jobs" d
    # -u'' = f on a cube, as dsimpletest reads it; f is such that u is 1 everywhere.
    awk 'BEGIN {
        n = 12
        for (z = 0; z < n; ++z) for (y = 0; y < n; ++y) for (x = 0; x < n; ++x) {
            i = 1 + x + n * (y + n * z); f[i] = 6; row[++k] = i " " i " 6.0"
            if (x > 0) link(i, i - 1); if (x < n - 1) link(i, i + 1)
            if (y > 0) link(i, i - n); if (y < n - 1) link(i, i + n)
            if (z > 0) link(i, i - n * n); if (z < n - 1) link(i, i + n * n)
        }
        print n ^ 3; print k
        for (j = 1; j <= k; ++j) print row[j]
        for (j = 1; j <= n ^ 3; ++j) printf "%d.0\n", f[j]
    }
    function link(i, j) { row[++k] = i " " j " -1.0"; --f[i] }' > examples/poisson
}
tests() {
    local ranks
    cd examples
    cat > solve.sh << 'END'
mpirun -n "$1" ./dsimpletest < poisson > out.txt || exit 1
awk '/Entering/ { on = 0 }
    /Solution is/ { on = 1; $1 = $2 = "" }
    on { for (i = 1; i <= NF; ++i) if ($i >= 0.99999999 && $i <= 1.00000001) ++n; else if ($i != "") ++wrong }
    END { print n " unknowns are 1, " wrong + 0 " are not" }' out.txt
END
    linked dsimpletest c_example
    expect "C" 'Solution is : \( *1.00 *2.00' mpirun -n 2 ./c_example
    for ranks in 1 2 3 4 8; do
        expect "ranks: $ranks" '1728 unknowns are 1, 0 are not' sh solve.sh "$ranks"
    done
}
