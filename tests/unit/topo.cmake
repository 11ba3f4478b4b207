# Unit tests of mpi/topo.
pomona_test(topo_cartesian unit/topo_cartesian.cc LIBS pomona_mpi LABELS topo)
