# The runtime layer for training: libtutti_runtime.so, built on the public headers alone. Programs of
# this build contain it beside the core; examples use both libraries as a stranger would.

tutti_glob(TUTTI_RUNTIME_SOURCES FOLDERS src/runtime MATCHING "\\.cc$" WITHOUT "_test\\.cc$")
add_library(tutti_runtime_objects OBJECT ${TUTTI_RUNTIME_SOURCES})
# libsodium: both ends of a transfer queue prove that they hold its key.
target_link_libraries(tutti_runtime_objects PUBLIC tutti_flags PkgConfig::SODIUM)
tutti_precompile(tutti_runtime_objects FROM tutti_core)
tutti_unite(tutti_runtime_objects FOLDERS src/runtime src/runtime/outer)

add_library(tutti_runtime SHARED)
target_link_libraries(tutti_runtime PRIVATE tutti_runtime_objects PUBLIC tutti)
set_target_properties(tutti_runtime PROPERTIES
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

# What the programs of this build link; a linker takes of it what they use.
add_library(tutti_runtime_part STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:tutti_runtime_objects>)
target_link_libraries(tutti_runtime_part PUBLIC tutti_flags PkgConfig::SODIUM)
set_target_properties(tutti_runtime_part PROPERTIES LINKER_LANGUAGE CXX)

tutti_glob(TUTTI_EXAMPLES FOLDERS examples MATCHING "\\.cc$")
set(TUTTI_EXAMPLE_TARGETS)
foreach(source IN LISTS TUTTI_EXAMPLES)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  list(APPEND TUTTI_EXAMPLE_TARGETS example_${name})
  target_link_libraries(example_${name} PRIVATE tutti_flags tutti_runtime)
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME "${name}"
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/examples")
endforeach()
