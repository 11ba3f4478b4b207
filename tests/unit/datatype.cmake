# Tests of datatypes and operations: mpi/object/datatype*, operation*, and their functions in
# mpi/abi; and what mpi/check makes of datatypes.
pomona_test(datatype_random property/datatype_random.cc LIBS pomona_mpi LABELS property datatype)
pomona_test(datatype_object unit/datatype_object.cc unit/datatype_operation.cc LIBS pomona_mpi
            LABELS datatype)
target_compile_definitions(datatype_object PRIVATE
  POMONA_DATATYPES_CSV="${CMAKE_SOURCE_DIR}/mpi/abi/tables/datatypes.csv")
pomona_test(check_types unit/check_types.cc LIBS pomona_mpi LABELS datatype)
if(TARGET mpi_abi)
  pomona_test(datatype_abi unit/datatype_abi.cc LIBS mpi_abi LABELS datatype)
endif()
add_subdirectory(bench_datatype)
