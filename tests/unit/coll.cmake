pomona_test(coll_builder unit/coll_builder.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_run unit/coll_run.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_gates unit/coll_gates.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_helper unit/coll_helper.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_select unit/coll_select.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_watch unit/coll_watch.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_rules unit/coll_rules.cc LIBS pomona_coll LABELS coll)
pomona_test(tune_choices unit/tune_choices.cc ${CMAKE_SOURCE_DIR}/mpi/tools/tune_choices.cc
  ${CMAKE_SOURCE_DIR}/mpi/tools/quiet.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_cost_text unit/coll_cost_text.cc ${CMAKE_SOURCE_DIR}/mpi/tools/tune_fit.cc LIBS pomona_coll
  LABELS coll)
pomona_test(roads unit/roads.cc LIBS pomona_base LABELS coll)
