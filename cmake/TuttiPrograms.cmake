# The program under the names of nccl-tests, and the script that draws its results, both where the
# program looks for them: in the build folder as after cmake --install.

# As in perf/collectives/collective.cc, which knows what each of them is; a test runs all of them.
set(TUTTI_PERF_NAMES all_reduce_perf all_gather_perf reduce_scatter_perf broadcast_perf
    reduce_perf gather_perf scatter_perf alltoall_perf all_gather_v_perf reduce_scatter_v_perf
    alltoallv_perf sendrecv_perf hypercube_perf)
set(TUTTI_SHARE "${PROJECT_BINARY_DIR}/share/tutti")

foreach(name IN LISTS TUTTI_PERF_NAMES)
  file(MAKE_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  file(CREATE_LINK tutti "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}" SYMBOLIC)
  install(FILES "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}" DESTINATION "${CMAKE_INSTALL_BINDIR}")
endforeach()

file(MAKE_DIRECTORY "${TUTTI_SHARE}")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/perf/plot_results.py" "${TUTTI_SHARE}/plot_results.py" SYMBOLIC)
install(PROGRAMS perf/plot_results.py DESTINATION "${CMAKE_INSTALL_DATADIR}/tutti")
