# espresso: Quantum ESPRESSO's plane waves: FFTs over all ranks, and pools of ranks for k-points.
about="Quantum ESPRESSO, silicon's total energy"
source=debian:espresso
needs="libblas-dev liblapack-dev"
tier=whole
build() {
    ./configure --enable-parallel --with-scalapack=no F90=gfortran MPIF90=mpifort CC=gcc \
        BLAS_LIBS="$blas_folders -lblas" LAPACK_LIBS="$blas_folders -llapack -lblas" \
        FFLAGS="-O1 -w -fallow-argument-mismatch" CFLAGS="-O1 -w"
    make pw
    cat > silicon.in << END
&control
  calculation = 'scf', pseudo_dir = 'pseudo', outdir = 'out'
/
&system
  ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 16
/
&electrons
  conv_thr = 1e-9
/
ATOMIC_SPECIES
 Si 28.086 Si_r.upf
ATOMIC_POSITIONS alat
 Si 0 0 0
 Si 0.25 0.25 0.25
K_POINTS automatic
 4 4 4 1 1 1
END
    # The energy must be that of one rank.
    cat > same.sh << 'END'
ranks=$1
shift
energy() { sed -n 's/^! *total energy *= *\([-0-9.]*\) Ry/\1/p' "$1"; }
for n in 1 "$ranks"; do
    rm -rf out
    if [ "$n" = 1 ]; then mpirun -n 1 bin/pw.x -in silicon.in > one.txt || exit 1
    else mpirun -n "$n" bin/pw.x "$@" -in silicon.in > many.txt || exit 1; fi
done
cat many.txt
echo "$(energy one.txt) $(energy many.txt)" |
    awk 'NF == 2 { d = $1 - $2; if (d < 1e-6 && d > -1e-6) print $2 " Ry, as on 1 rank" }'
END
}
tests() {
    linked bin/pw.x
    expect "2 ranks" '.* Ry, as on 1 rank' sh same.sh 2
    expect "4 ranks" '.* Ry, as on 1 rank' sh same.sh 4
    expect "4 ranks, 2 pools" '.* Ry, as on 1 rank' sh same.sh 4 -nk 2
}
