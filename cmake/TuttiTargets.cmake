# Helpers for the other files.

# tutti_glob(<variable> FOLDERS <folder>... MATCHING <regex> [WITHOUT <regex>...])
# Sets the variable to the files below the folders whose path from the root matches, sorted.
function(tutti_glob variable)
  cmake_parse_arguments(PARSE_ARGV 1 GLOB "" "MATCHING" "FOLDERS;WITHOUT")
  set(found)
  foreach(folder IN LISTS GLOB_FOLDERS)
    file(GLOB_RECURSE files RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
         "${PROJECT_SOURCE_DIR}/${folder}/*.cc" "${PROJECT_SOURCE_DIR}/${folder}/*.py")
    list(APPEND found ${files})
  endforeach()
  list(FILTER found INCLUDE REGEX "${GLOB_MATCHING}")
  foreach(pattern IN LISTS GLOB_WITHOUT)
    list(FILTER found EXCLUDE REGEX "${pattern}")
  endforeach()
  list(SORT found)
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# tutti_add_program(<target> <source>...): a program that contains the core, and of the verifier, the
# simulator and perf/ what it uses.
function(tutti_add_program target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE tutti_core tutti_verifier tutti_simulator tutti_perf)
  # As in libraries, so that both read one precompiled header.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()
