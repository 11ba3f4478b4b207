# tests/functions.cmake: how tests are declared.
find_package(GTest REQUIRED)
# A failed test says how to repeat it.
add_library(pomona_test_repeat OBJECT ${CMAKE_CURRENT_LIST_DIR}/repeat.cc)
target_link_libraries(pomona_test_repeat PRIVATE pomona_options GTest::gtest)
# pomona_test(name sources... LIBS libraries... [LABELS labels...] [TIMEOUT seconds]): a GoogleTest
# program, one ctest entry. Under sanitizers it has four times as long.
function(pomona_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:pomona_test_repeat>)
  target_link_libraries(${name} PRIVATE pomona_options ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(POMONA_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}")
endfunction()
# pomona_long_first(): the tests of this folder begin early, the longer they may take the earlier,
# so that none is left to run alone at the end.
function(pomona_long_first)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test ${tests})
    get_test_property(${test} TIMEOUT seconds)
    if(seconds)
      set_tests_properties(${test} PROPERTIES COST ${seconds})
    endif()
  endforeach()
endfunction()
