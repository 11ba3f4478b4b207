# hdf5: files of HDF5 written by all ranks together; h5py's recipe uses what is installed here.
about="HDF5 parallel, its testpar"
source=debian:hdf5
needs="zlib1g-dev"
tier=whole
programs="t_mpi testphdf5 t_cache t_cache_image t_pread t_pshutdown t_prestart t_init_term t_shapesame
    t_filters_parallel"
build() {
    ./configure -q --enable-parallel --disable-static --disable-cxx --disable-fortran --disable-tests \
        --disable-tools --enable-optimization=none --prefix="$PWD/installed" CC=mpicc \
        CFLAGS="-O1 -w" LDFLAGS="-L$packages/lib/$triplet"
    make -s -j "$jobs" -C src
    make -s -j "$jobs" -C hl
    make -s -C src install
    make -s -C hl install
    make -s -C test libh5test.la
    # shellcheck disable=SC2086
    make -s -j "$jobs" -C testpar $programs
}
tests() {
    local name
    limit=1800
    cd testpar
    # shellcheck disable=SC2086
    linked $programs
    # These end with 0 when all is well, and print it in a form of their own.
    # shellcheck disable=SC2086
    for name in $programs; do
        case $name in t_cache | t_cache_image) continue ;; esac
        expect "$name, 4 ranks" '' mpirun -n 4 "./$name"
    done
    left_out "t_cache" "many minutes on 4 ranks of a busy machine; not seen to its end"
    left_out "t_cache_image" "a serial child writes its files, for minutes in a library that is not optimized"
    left_out "t_bigio" "writes files of more than 2 GiB"
}
