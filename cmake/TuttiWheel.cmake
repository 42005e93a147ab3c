# What a wheel carries, as the component "python": the package's own files come by pyproject.toml.
#
#   tutti/_core.abi3.so   tutti/_core.pyi      the binding, which finds lib/
#   tutti/lib/            libtutti.so.0, libtutti_runtime.so.0
#   tutti/lib/nccl/       libnccl.so.2: where `tutti run` and tutti.nccl look, and no loader
#   tutti/bin/tutti       the program
#
# Wheels hold no symbolic links: a file has the name by which it is loaded.
set_target_properties(tutti tutti_runtime PROPERTIES
  VERSION ${PROJECT_VERSION_MAJOR} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(tutti_runtime PROPERTIES INSTALL_RPATH "$ORIGIN")

# std::condition_variable::wait of newer compilers' libraries is the one symbol that would keep the
# wheel from systems with an older libstdc++: each library of the wheel has a copy of its own.
foreach(target tutti_core tutti_runtime_objects tutti_python)
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/condition_variable_wait.cc")
endforeach()
set_source_files_properties("${PROJECT_SOURCE_DIR}/cmake/condition_variable_wait.cc" PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)

set(TUTTI_KERNEL_LIST "none: no nvcc when the wheel was built")
if(TUTTI_NVCC AND TUTTI_NVCC_CODES)
  list(JOIN TUTTI_NVCC_CODES " " TUTTI_KERNEL_LIST)
endif()
file(WRITE "${PROJECT_BINARY_DIR}/generated/kernels.txt" "${TUTTI_KERNEL_LIST}\n")

install(TARGETS tutti_python LIBRARY DESTINATION tutti COMPONENT python)
install(FILES "${TUTTI_PYTHON_FOLDER}/_core.pyi" "${PROJECT_BINARY_DIR}/generated/kernels.txt"
        DESTINATION tutti COMPONENT python)
install(TARGETS tutti tutti_runtime LIBRARY DESTINATION tutti/lib COMPONENT python NAMELINK_SKIP)
install(TARGETS tutti_nccl LIBRARY DESTINATION tutti/lib/nccl COMPONENT python NAMELINK_SKIP)
install(TARGETS tutti_program RUNTIME DESTINATION tutti/bin COMPONENT python)
install(FILES LICENSE THIRD_PARTY_NOTICES DESTINATION tutti COMPONENT python)
