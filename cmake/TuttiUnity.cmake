# Neighbouring files of a folder as one translation unit: more than half the time for a small file
# goes into headers that the next one needs, too. Equal names in their anonymous namespaces collide.
# The thread sanitizer's build compiles each file by itself, so that it says which of the project's
# headers a file does not include; -DTUTTI_UNITE=OFF does so elsewhere, for example while one file is
# worked on.
#
# The units are written here and not by CMake's UNITY_BUILD, whose files name others by their absolute
# paths: what ccache has compiled in one checkout would be of no use in another.

option(TUTTI_UNITE "Compile neighbouring files as one" ON)
set(TUTTI_UNITED_FILES 6 CACHE STRING "How many at most; the more, the less there is in parallel")
mark_as_advanced(TUTTI_UNITED_FILES)

# tutti_unite(<target> FOLDERS <folder>...): unites the target's files of each of these folders.
function(tutti_unite target)
  cmake_parse_arguments(PARSE_ARGV 1 UNITE "" "" "FOLDERS")
  if(NOT TUTTI_UNITE OR TUTTI_SANITIZE STREQUAL "thread")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(folder IN LISTS UNITE_FOLDERS)
    set(files ${sources})
    list(FILTER files INCLUDE REGEX "^${folder}/[^/]*$")
    list(REMOVE_ITEM sources ${files})
    set(number 0)
    while(files)
      list(SUBLIST files 0 ${TUTTI_UNITED_FILES} together)
      list(REMOVE_ITEM files ${together})
      set(unit "${PROJECT_BINARY_DIR}/united/${target}/${folder}/${number}.cc")
      list(TRANSFORM together PREPEND "#include \"")
      list(TRANSFORM together APPEND "\"\n")
      list(JOIN together "" together)
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${together}" @ONLY)
      list(APPEND sources "${unit}")
      math(EXPR number "${number} + 1")
    endwhile()
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()
