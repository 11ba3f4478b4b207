# hpcg: conjugate gradients with multigrid: halos and sums of one number.
about="HPCG, conjugate gradients"
source=git:https://github.com/hpcg-benchmark/hpcg#52faad9be250394dd0cd985ba1b94470c442aa4d
tier=whole
build() { mpicxx -O3 -w $layout -DHPCG_NO_OPENMP -Isrc src/*.cpp -o xhpcg; }
tests() {
    local ranks
    linked xhpcg
    for ranks in 1 2 4 7; do
        rm -f HPCG-Benchmark*.txt hpcg2*.txt
        expect "ranks: $ranks" 'HPCG result is VALID' \
            sh -c "mpirun -n $ranks ./xhpcg --nx=16 --ny=16 --nz=16 --rt=1 && cat HPCG-Benchmark*.txt"
    done
}
