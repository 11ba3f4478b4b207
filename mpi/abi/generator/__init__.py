"""generator: the parts of mpi/abi/generate.py."""
