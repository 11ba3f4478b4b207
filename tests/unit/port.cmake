# Unit tests of what differs between Linux and macOS, and of `pomona doctor`.
pomona_test(port ${CMAKE_CURRENT_SOURCE_DIR}/unit/port.cc LIBS pomona_btl LABELS port)
