# openfoam: flows by finite volumes. All of its messages go through one small library, Pstream: that
# is compiled here and loaded in the place of the one in Debian's packages, which have the rest.
about="OpenFOAM, decomposed cases and its tests of messages"
source=debian:openfoam
needs="openfoam libopenfoam"
tier=whole
build() {
    local name
    # This test gives the place for a request where a communicator belongs.
    sed -i 's/Pstream::msgType(), request/Pstream::msgType(), UPstream::worldComm, request/' \
        applications/test/parallel-nonBlocking/*.C
    # Its sources find their headers in a folder of links.
    mkdir -p include lib
    find src/OpenFOAM src/OSspecific/POSIX src/Pstream/mpi -name '*.[HC]' -exec ln -sf -t include "$PWD/{}" ';'
    local options="-std=c++14 -m64 -Dlinux64 -DWM_ARCH_OPTION=64 -DWM_DP -DWM_LABEL_SIZE=32 -DNoRepository
        -ftemplate-depth-100 -O1 -w -fPIC -DOPENFOAM=1912 -Iinclude"
    # shellcheck disable=SC2086
    mpicxx $options -shared -o lib/libPstream.so src/Pstream/mpi/U*.C src/Pstream/mpi/PstreamGlobals.C
    for name in parallel parallel-nonBlocking parallel-communicators; do
        # shellcheck disable=SC2086
        mpicxx $options -o "lib/$name" applications/test/$name/*.C -Llib -L"$packages/lib" -lOpenFOAM -lPstream
    done
    # A case in parts: solved by one rank and by many, the fields put together again, and compared.
    cat > same.sh << 'END'
solver=$1 case=$2 field=$3 parts=$4 most=$5
shift 5
cd "$case"
latest() { ls | grep -E '^[0-9.]+$' | sort -g | tail -n 1; }
rm -rf [1-9]* 0.[0-9]* processor* one many
blockMesh > mesh.txt && "$solver" > serial.txt || exit 1
cp "$(latest)/$field" one
cat > system/decomposeParDict << DICT
FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }
numberOfSubdomains $(echo "$parts" | awk '{ print $1 * $2 }');
method simple;
simpleCoeffs { n ($parts 1); delta 0.001; }
DICT
rm -rf [1-9]* 0.[0-9]*
decomposePar > decomposed.txt || exit 1
mpirun -n "$(echo "$parts" | awk '{ print $1 * $2 }')" "$solver" -parallel "$@" > parallel.txt || { tail parallel.txt; exit 1; }
reconstructPar -latestTime "$@" > reconstructed.txt || exit 1
cp "$(latest)/$field" many
for each in one many; do  # the values inside, one a line
    awk '/^\)/ { exit } on { gsub(/[()]/, ""); print } /^\($/ { on = 1 }' "$each" | tr ' ' '\n' > "$each.txt"
done
paste one.txt many.txt | awk -v most="$most" 'NF == 2 {
        d = $1 - $2; d = d < 0 ? -d : d; a = $1 < 0 ? -$1 : $1
        if (d > far) far = d
        if (a > top) top = a
        ++n
    } END { if (n && far <= most * top) printf "%d values, at most %.1g of the largest off 1 rank\n", n, far / top }'
END
    cp -r tutorials/incompressible/icoFoam/cavity/cavity cavity
    cp -r tutorials/incompressible/simpleFoam/pitzDaily pitzDaily
    sed -i '/^functions/,/^}/d' pitzDaily/system/controlDict
    # What each step leaves of a solver's error is left differently by other parts.
    sed -i -e 's/tolerance .*/tolerance 1e-10;/' -e 's/relTol .*/relTol 0;/' cavity/system/fvSolution
}
tests() {
    local parts ranks
    export WM_PROJECT_DIR=$packages/share/openfoam PATH=$PATH:$packages/bin
    export LD_LIBRARY_PATH=$PWD/lib:$packages/lib:${LD_LIBRARY_PATH-}
    linked lib/libPstream.so lib/parallel "$(command -v icoFoam)"
    for parts in "2 1" "2 2"; do
        ranks=$(echo "$parts" | awk '{ print $1 * $2 }')
        expect "icoFoam, cavity, $ranks ranks" '.* values, at most .* of the largest off 1 rank' \
            sh same.sh icoFoam cavity U "$parts" 1e-5
    done
    # Until its own criterion says that it is steady: then other parts are 0.7 % off.
    expect "simpleFoam, pitzDaily, 4 ranks" '.* values, at most .* of the largest off 1 rank' \
        sh same.sh simpleFoam pitzDaily p "2 2" 2e-2
    # Rank 0 writes for all, in a thread of its own.
    expect "icoFoam, files written by one rank" '.* values, at most .* of the largest off 1 rank' \
        sh same.sh icoFoam cavity p "2 2" 1e-5 -fileHandler collated
    cd cavity
    expect "its test of messages, 4 ranks" 'End' mpirun -n 4 ../lib/parallel -parallel
    expect "of non-blocking ones, 4 ranks" 'End' mpirun -n 4 ../lib/parallel-nonBlocking -parallel
    expect "of communicators, 4 ranks" 'End' mpirun -n 4 ../lib/parallel-communicators -parallel
}
