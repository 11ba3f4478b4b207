pomona_test(coll_builder unit/coll_builder.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_run unit/coll_run.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_cost_text unit/coll_cost_text.cc ${CMAKE_SOURCE_DIR}/mpi/tools/tune_fit.cc LIBS pomona_coll
  LABELS coll)
