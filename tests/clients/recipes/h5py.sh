# h5py: HDF5 for Python, with the parallel driver, on the library that hdf5's recipe has installed.
about="h5py parallel, its suite"
source=pypi:h5py==3.14.0
python="numpy cython>=3 setuptools>=77 wheel pkgconfig pytest pytest-mpi"
after="hdf5"
tier=whole
build() {
    export HDF5_DIR=$clients/$mpi/hdf5/source/installed HDF5_MPI=ON CC=mpicc CFLAGS=-O0
    "$venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall --no-cache-dir \
        --no-binary mpi4py mpi4py==4.1.2
    "$venv/bin/pip" install -q --no-build-isolation --no-deps .
    cd "$venv"  # not where the sources lie
    bin/python -c "import h5py; assert h5py.get_config().mpi"
}
tests() {
    cd "$venv"
    linked "$clients/$mpi/hdf5/source/installed/lib/libhdf5.so" "$(find "$venv" -name 'MPI.*.so')"
    # As h5py's own tox.ini does: each rank runs all tests, some of them together.
    expect "2 ranks" '[0-9]+ passed' mpirun -n 2 bin/python -m pytest -q -p no:cacheprovider --pyargs h5py \
        --with-mpi -k "not test_append_permissions"
    left_out "test_append_permissions" "root may open every file"
}
