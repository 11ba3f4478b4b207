# tests/cross/macos/quick.cmake: included by project(): compiles the standard library's headers once
# for each target of some size, and eight files of it at a time. Without optimization headers are
# most of a file's time. That a file includes what it uses is seen by
# tests/tidy/standard_headers.py, and by the other builds. Files that cannot be compiled together,
# since they have unlike things of the same name, are in apart.txt; groups with others of that kind,
# which macos.sh has met, are in POMONA_APART.
set(pomona_standard_headers algorithm array atomic chrono condition_variable cstdint cstring deque functional map
  memory mutex optional span string string_view thread unordered_map utility variant vector)
list(TRANSFORM pomona_standard_headers PREPEND "$<$<COMPILE_LANGUAGE:CXX>:<")
list(TRANSFORM pomona_standard_headers APPEND "$<ANGLE-R>>")

set(pomona_group 8)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/apart.txt pomona_apart REGEX "^[^#]")

# Groups of so many files, in their order; numbers do not move when a group is taken apart.
function(pomona_unite target sources)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(place 0)
  foreach(source ${sources})
    math(EXPR group "${place} / ${pomona_group}")
    math(EXPR place "${place} + 1")
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
    if(NOT name IN_LIST pomona_apart AND NOT "${target}:g${group}" IN_LIST POMONA_APART)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP g${group})
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
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${beside})
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
