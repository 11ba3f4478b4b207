# Unit tests of what differs between Linux and macOS, and of `pomona doctor`.
find_package(nlohmann_json REQUIRED)
pomona_test(port ${CMAKE_CURRENT_SOURCE_DIR}/unit/port.cc LIBS pomona_btl LABELS port)
pomona_test(doctor ${CMAKE_CURRENT_SOURCE_DIR}/unit/doctor.cc LIBS pomona_doctor
            nlohmann_json::nlohmann_json LABELS port)
add_test(NAME report COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/report_test.sh)
set_tests_properties(report PROPERTIES TIMEOUT 120 LABELS port)
pomona_test(cores ${CMAKE_CURRENT_SOURCE_DIR}/unit/cores.cc LIBS pomona_launch LABELS port)
