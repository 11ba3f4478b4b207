# lulesh: shock hydrodynamics on a cube of ranks: faces, edges and corners to 26 neighbours, and the
# least time step of all.
about="LULESH, a shock wave on cubes of ranks"
source=git:https://github.com/LLNL/LULESH#3e01c40b3281aadb7f996525cdd4a3354f6d3801
tier=whole
build() {
    mpicxx -O3 -w $layout -DUSE_MPI=1 lulesh*.cc -o lulesh2.0 -lm
    # The energy at the origin, of the same problem cut into 1, 8 and 27 cubes: equal but for the
    # order of sums.
    cat > same.sh << 'END'
for cut in 1 2 3; do
    mpirun -n $((cut * cut * cut)) ./lulesh2.0 -s $((12 / cut)) -i "$1" | awk '/Final Origin Energy/ { print $NF }'
done | awk '{ d = first ? $1 / first - 1 : 0; if (!first) first = $1; if (d * d < 1e-16) ++same }
    END { print same + 0 " equal energies" }'
END
}
tests() {
    linked lulesh2.0
    expect "1 rank, to its end" 'Final Origin Energy = 2.720531e\+04' mpirun -n 1 ./lulesh2.0 -s 10
    expect "8 ranks" 'Total number of elements: +8000' mpirun -n 8 ./lulesh2.0 -s 10 -i 20
    expect "1, 8 and 27 ranks alike" '3 equal energies' sh same.sh 60
}
