# lammps: molecular dynamics: ghost atoms and particles that move between ranks, FFTs in parallel
# (rhodo's long-range forces), and several worlds on parts of the ranks (neb).
about="LAMMPS, its benchmarks, and nudged elastic bands"
source=debian:lammps
tier=whole
build() {
    make -s -C src yes-kspace yes-molecule yes-manybody yes-rigid yes-replica
    make -s -C src -j "$jobs" mpi CCFLAGS="-O1 -w -std=c++11" LINKFLAGS=-O1
    # The total energy of the first and the last step: equal on all numbers of ranks, to what 100
    # steps make of another order of sums.
    cat > bench/same.sh << 'END'
for ranks in 1 "$2"; do
    mpirun -n "$ranks" ../src/lmp_mpi -in "in.$1" -log none > "out.$1.$ranks" || exit 1
done
cat "out.$1.$2"
for ranks in 1 "$2"; do
    awk '/^Loop time/ { on = 0 }
        on && /^ +[0-9]/ { print $column }
        /^Step/ { on = 1; for (i = 1; i <= NF; ++i) if ($i == "TotEng") column = i }
        /TotEng +=/ { for (i = 1; i < NF; ++i) if ($i == "TotEng") print $(i + 2) }' "out.$1.$ranks" |
        sed -n '1p; $p' > "energy.$ranks"
done
paste energy.1 "energy.$2" | awk '{
        d = $1 - $2; d = d < 0 ? -d : d; a = $1 < 0 ? -$1 : $1
        if (NF == 2 && d <= 1e-4 * a) ++same
    } END { print same + 0 " energies as on 1 rank" }'
END
}
tests() {
    local name ranks
    limit=1800
    linked src/lmp_mpi
    cd bench
    for name in lj eam rhodo; do
        for ranks in 2 4; do
            expect "$name, ranks: $ranks" '2 energies as on 1 rank' sh same.sh $name $ranks
        done
    done
    # Its thermostat draws other numbers on other ranks.
    expect "chain, ranks: 4" 'Dangerous builds = 0' mpirun -n 4 ../src/lmp_mpi -in in.chain -log none
    cd ../examples/neb
    expect "neb, 4 images" 'Climbing replica = [0-9]+' mpirun -n 4 ../../src/lmp_mpi -partition 4x1 -in in.neb.hop1
}
