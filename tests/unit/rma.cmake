# Unit tests of mpi/rma.
pomona_test(rma_lock unit/rma_lock.cc LIBS pomona_mpi LABELS rma)
pomona_test(epoch_lock unit/epoch_lock.cc LIBS pomona_mpi LABELS rma)
