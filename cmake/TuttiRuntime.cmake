# The runtime layer for training: libtutti_runtime.so, built on the public headers alone. Programs of
# this build contain it beside the core; examples use both libraries as a stranger would.

tutti_glob(TUTTI_RUNTIME_SOURCES FOLDERS src/runtime MATCHING "\\.cc$" WITHOUT "_test\\.cc$")
add_library(tutti_runtime_part STATIC ${TUTTI_RUNTIME_SOURCES})
target_link_libraries(tutti_runtime_part PUBLIC tutti_flags)
tutti_precompile(tutti_runtime_part FROM tutti_core)
tutti_unite(tutti_runtime_part FOLDERS src/runtime)

add_library(tutti_runtime SHARED)
target_link_libraries(tutti_runtime PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,tutti_runtime_part>" PUBLIC tutti)
set_target_properties(tutti_runtime PROPERTIES
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

tutti_glob(TUTTI_EXAMPLES FOLDERS examples MATCHING "\\.cc$")
foreach(source IN LISTS TUTTI_EXAMPLES)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  target_link_libraries(example_${name} PRIVATE tutti_flags tutti_runtime)
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME "${name}"
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/examples")
endforeach()
