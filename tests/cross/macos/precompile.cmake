# tests/cross/macos/precompile.cmake: included by project(): compiles the standard library's headers
# once for each target of some size. Without optimization they are half of a file's time. That a
# file includes what it uses is seen by tests/tidy/standard_headers.py, and by the other builds.
set(pomona_standard_headers algorithm array atomic chrono condition_variable cstdint cstring deque functional map
  memory mutex optional span string string_view thread unordered_map utility variant vector)
list(TRANSFORM pomona_standard_headers PREPEND "$<$<COMPILE_LANGUAGE:CXX>:<")
list(TRANSFORM pomona_standard_headers APPEND "$<ANGLE-R>>")

function(pomona_precompile folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    get_target_property(own ${target} PRECOMPILE_HEADERS)
    list(FILTER sources INCLUDE REGEX "\\.cc$")
    list(LENGTH sources count)
    if(count GREATER 4 AND NOT own)
      target_precompile_headers(${target} PRIVATE ${pomona_standard_headers})
      # Not those that are compiled for a processor of their own, or optimized.
      get_target_property(beside ${target} SOURCE_DIR)
      foreach(source ${sources})
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${beside})
        get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
        if(options)
          set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
        endif()
      endforeach()
    endif()
  endforeach()
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${subfolders})
    pomona_precompile(${subfolder})
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL pomona_precompile ${CMAKE_SOURCE_DIR})
