# mpi/abi/abi.cmake: runs the generator of the ABI at build time.
# Afterwards: POMONA_ABI_SOURCES (to compile into the library), POMONA_ABI_FOLDER (the
# export lists), and pomona_export_abi(target) which limits what a shared library exports.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(abi_dir ${CMAKE_CURRENT_LIST_DIR})
set(POMONA_ABI_FOLDER ${CMAKE_BINARY_DIR}/generated/abi)
file(GLOB_RECURSE abi_inputs CONFIGURE_DEPENDS ${abi_dir}/../*.cc ${abi_dir}/tables/*.csv
     ${abi_dir}/generator/*.py)
set(POMONA_ABI_SOURCES ${POMONA_ABI_FOLDER}/large_count.cc)
if(APPLE)
  list(APPEND POMONA_ABI_SOURCES ${POMONA_ABI_FOLDER}/weak_apple.cc)
endif()
set(abi_outputs large_count.cc weak_apple.cc exports.map exports_apple.txt)
list(TRANSFORM abi_outputs PREPEND ${POMONA_ABI_FOLDER}/)
# The stamp is the output and the files are by-products: those that stay the same are not rebuilt.
add_custom_command(
  OUTPUT ${POMONA_ABI_FOLDER}/stamp
  BYPRODUCTS ${abi_outputs}
  COMMAND ${Python3_EXECUTABLE} ${abi_dir}/generate.py build ${POMONA_ABI_FOLDER}
  COMMAND ${CMAKE_COMMAND} -E touch ${POMONA_ABI_FOLDER}/stamp
  DEPENDS ${abi_inputs} ${abi_dir}/generate.py ${abi_dir}/../include/mpix.h
  COMMENT "Generating the int forms and export lists of the ABI"
  VERBATIM)
add_custom_target(pomona_abi_generated DEPENDS ${POMONA_ABI_FOLDER}/stamp)

function(pomona_export_abi target)
  if(APPLE)
    target_link_options(${target} PRIVATE
      "LINKER:-exported_symbols_list,${POMONA_ABI_FOLDER}/exports_apple.txt")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${POMONA_ABI_FOLDER}/exports_apple.txt)
  else()
    # -Bsymbolic-functions: calls between our own PMPI_ functions do not go through the linker's
    # table. Profiling tools replace MPI_ names, which the library never calls.
    target_link_options(${target} PRIVATE "LINKER:--version-script=${POMONA_ABI_FOLDER}/exports.map"
      "LINKER:-Bsymbolic-functions")
    # Nothing may be left undefined; sanitizers' own names are, until the program is linked.
    if(NOT POMONA_SANITIZE)
      target_link_options(${target} PRIVATE "LINKER:-z,defs")
    endif()
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${POMONA_ABI_FOLDER}/exports.map)
  endif()
  add_dependencies(${target} pomona_abi_generated)
endfunction()
