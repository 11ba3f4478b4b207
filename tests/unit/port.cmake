# Unit tests of what differs between Linux and macOS, and of `pomona doctor`.
find_package(nlohmann_json REQUIRED)
pomona_test(port ${CMAKE_CURRENT_SOURCE_DIR}/unit/port.cc LIBS pomona_btl LABELS port)
pomona_test(doctor ${CMAKE_CURRENT_SOURCE_DIR}/unit/doctor.cc LIBS pomona_doctor
            nlohmann_json::nlohmann_json LABELS port)
add_test(NAME setup COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/setup_test.sh)
add_test(NAME report COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/report_test.sh)
set_tests_properties(setup report PROPERTIES TIMEOUT 120 LABELS port)
pomona_test(cores ${CMAKE_CURRENT_SOURCE_DIR}/unit/cores.cc LIBS pomona_launch LABELS port)
# What is installed on macOS, built here, the torch extension too where a Python with pip is given;
# the tests for it are built by slow.sh.
if(NOT APPLE AND NOT CMAKE_CROSSCOMPILING AND NOT POMONA_SANITIZE)
  add_test(NAME cross_macos
    COMMAND ${CMAKE_SOURCE_DIR}/tests/cross/macos.sh --torch ${CMAKE_BINARY_DIR}/macos)
  set_tests_properties(cross_macos PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 2400 LABELS "cross;port"
    COST 2400 PROCESSORS 2 ENVIRONMENT "CMAKE=${CMAKE_COMMAND};NINJA=${CMAKE_MAKE_PROGRAM}")
  if(POMONA_PYTHON)  # has pip
    set_property(TEST cross_macos APPEND PROPERTY ENVIRONMENT "PYTHON=${POMONA_PYTHON}")
  endif()
endif()
pomona_test(predict ${CMAKE_CURRENT_SOURCE_DIR}/unit/predict.cc LIBS pomona_doctor
  nlohmann_json::nlohmann_json LABELS launch)
