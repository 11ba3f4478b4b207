"""writer: the parts of mpi/fortran/generate.py."""
