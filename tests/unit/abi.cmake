# Unit tests of the functions of mpi/abi that need no second process: one rank, started by itself.
if(TARGET mpi_abi)
  pomona_test(unit_abi_local unit/abi_info.cc unit/abi_group.cc unit/abi_errors.cc
    unit/abi_attribute.cc unit/abi_env.cc unit/abi_tool.cc unit/abi_widen.cc LIBS mpi_abi LABELS abi)
  target_include_directories(unit_abi_local PRIVATE ${CMAKE_SOURCE_DIR}/mpi/include)
endif()
