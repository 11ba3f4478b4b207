# tests/cross/macos/quick.cmake: included by project(): compiles the standard library's headers once
# for each target of some size, and some files of a folder at a time. Without optimization headers
# are most of a file's time. That a file includes what it uses is seen by
# tests/tidy/standard_headers.py, and by the other builds. Files that cannot be compiled together,
# since they have unlike things of the same name, are in apart.txt; groups with others of that kind,
# which macos.sh has met, are in POMONA_APART.
set(pomona_standard_headers algorithm array atomic chrono condition_variable cstdint cstring deque functional map
  memory mutex optional span string string_view thread unordered_map utility variant vector)
list(TRANSFORM pomona_standard_headers PREPEND "$<$<COMPILE_LANGUAGE:CXX>:<")
list(TRANSFORM pomona_standard_headers APPEND "$<ANGLE-R>>")

set(pomona_group 8)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/apart.txt pomona_apart REGEX "^[^#]")

# The group of a file follows from its name and from how many files its folder has: a file that is
# added meets its own group and moves no other one. Where a folder has become too large for its
# groups each is split in two, so that again nothing meets what it has not met before. It is the
# same in all targets, since of a source CMake keeps one group for all targets of a directory
# (mpi_abi and pomona_threads): what one took apart another one would put together again.
function(pomona_group_of source result)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
  cmake_path(GET source PARENT_PATH folder)
  file(GLOB beside ${folder}/*.cc)
  list(LENGTH beside count)
  set(groups 1)
  while(count GREATER pomona_group)
    math(EXPR groups "${groups} * 2")
    math(EXPR count "(${count} + 1) / 2")
  endwhile()
  string(MD5 hash ${name})
  string(SUBSTRING ${hash} 0 7 hash)
  math(EXPR group "0x${hash} % ${groups}")
  cmake_path(GET name PARENT_PATH folder)
  string(REPLACE "/" "_" folder "${folder}")
  set(group ${folder}_${group})
  if(name IN_LIST pomona_apart OR group IN_LIST POMONA_APART)
    set(group)
  endif()
  set(${result} ${group} PARENT_SCOPE)
endfunction()

function(pomona_unite target sources)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${sources})
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${source} generated)
    pomona_group_of(${source} group)
    if(group AND NOT generated)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

function(pomona_quicken folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    get_target_property(own ${target} PRECOMPILE_HEADERS)
    list(FILTER sources INCLUDE REGEX "\\.cc$")
    list(LENGTH sources count)
    if(count GREATER 4)
      if(NOT own)
        target_precompile_headers(${target} PRIVATE ${pomona_standard_headers})
      endif()
      # Not those that are compiled for a processor of their own, or optimized for speed. What else
      # is said of how to optimize means nothing here.
      set(alike)
      get_target_property(beside ${target} SOURCE_DIR)
      foreach(source ${sources})
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${beside} NORMALIZE)
        get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
        if(options STREQUAL "-Os" OR options STREQUAL "-fno-optimize-sibling-calls")
          set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS)  # no such
          set(options "")
        endif()
        if(options AND NOT own)
          set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
        elseif(NOT options)
          list(APPEND alike ${source})
        endif()
      endforeach()
      pomona_unite(${target} "${alike}")
    endif()
  endforeach()
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${subfolders})
    pomona_quicken(${subfolder})
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL pomona_quicken ${CMAKE_SOURCE_DIR})
