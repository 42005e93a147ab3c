# Neighbouring files of a folder as one translation unit: more than half the time for a small file
# goes into headers that the next one needs, too. Equal names in their anonymous namespaces collide.
# The thread sanitizer's build compiles each file by itself, so that it says which of the project's
# headers a file does not include; -DTUTTI_UNITE=OFF does so elsewhere, for example while one file is
# worked on.

option(TUTTI_UNITE "Compile neighbouring files as one" ON)
set(TUTTI_UNITED_FILES 6 CACHE STRING "How many at most; the more, the less there is in parallel")
mark_as_advanced(TUTTI_UNITED_FILES)

# tutti_unite(<target> FOLDERS <folder>...): unites the target's files of each of these folders.
function(tutti_unite target)
  cmake_parse_arguments(PARSE_ARGV 1 UNITE "" "" "FOLDERS")
  if(NOT TUTTI_UNITE OR TUTTI_SANITIZE STREQUAL "thread")
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(folder IN LISTS UNITE_FOLDERS)
    set(files ${sources})
    list(FILTER files INCLUDE REGEX "^${folder}/[^/]*$")
    set(number 0)
    foreach(file IN LISTS files)
      math(EXPR group "${number} / ${TUTTI_UNITED_FILES}")
      set_source_files_properties("${file}" PROPERTIES UNITY_GROUP "${folder}/${group}")
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
endfunction()
