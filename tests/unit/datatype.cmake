# Tests of datatypes and operations: mpi/object/datatype*, operation*, and their functions in mpi/abi.
pomona_test(datatype_random property/datatype_random.cc LIBS pomona_mpi LABELS "property;datatype")
