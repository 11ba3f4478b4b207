# Unit tests of btl: the contract of transports, parameters, wire formats.
pomona_test(btl_contract ${CMAKE_CURRENT_SOURCE_DIR}/unit/btl_contract.cc LIBS pomona_btl pomona_sim TIMEOUT 180)
pomona_test(btl_tcp ${CMAKE_CURRENT_SOURCE_DIR}/unit/btl_tcp.cc LIBS pomona_btl TIMEOUT 120)
pomona_test(btl_base ${CMAKE_CURRENT_SOURCE_DIR}/unit/btl_base.cc LIBS pomona_btl pomona_mpi)
pomona_test(engine_order ${CMAKE_CURRENT_SOURCE_DIR}/unit/engine_order.cc LIBS pomona_btl pomona_mpi)
pomona_test(parking ${CMAKE_CURRENT_SOURCE_DIR}/unit/parking.cc LIBS pomona_btl)
pomona_test(board ${CMAKE_CURRENT_SOURCE_DIR}/unit/board.cc LIBS pomona_btl pomona_mpi)
pomona_test(board_chunks ${CMAKE_CURRENT_SOURCE_DIR}/unit/board_chunks.cc LIBS pomona_btl pomona_mpi)
pomona_test(copy_choice ${CMAKE_CURRENT_SOURCE_DIR}/unit/copy_choice.cc LIBS pomona_btl)
