pomona_test(coll_builder unit/coll_builder.cc LIBS pomona_coll LABELS coll)
pomona_test(coll_run unit/coll_run.cc LIBS pomona_coll LABELS coll)
