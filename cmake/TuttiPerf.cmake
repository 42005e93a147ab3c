# Benchmarks. perf/**/*_bench.cc: Google Benchmark programs. perf/**/*_main.cc: a program each.
# perf/mpi/*_main.cc: programs of MPI, linked with libtutti.so as a user would, and with the other files
# of that folder. All link what they use of the other files in perf/ (target tutti_perf).

tutti_glob(TUTTI_BENCHES FOLDERS perf MATCHING "_bench\\.cc$" WITHOUT "^perf/mpi/")
tutti_glob(TUTTI_PERF_PROGRAMS FOLDERS perf MATCHING "_main\\.cc$" WITHOUT "^perf/mpi/")
tutti_glob(TUTTI_MPI_PROGRAMS FOLDERS perf/mpi MATCHING "_main\\.cc$")
tutti_glob(TUTTI_MPI_HELPERS FOLDERS perf/mpi MATCHING "\\.cc$" WITHOUT "_main\\.cc$" "_test\\.cc$")
set(TUTTI_PERF_BIN "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/perf")

function(tutti_name_of_perf_program variable source)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_main$" "" name "${name}")
  set(${variable} "${name}" PARENT_SCOPE)
endfunction()

function(tutti_add_perf_program source)
  tutti_name_of_perf_program(name "${source}")
  tutti_add_program(perf_${name} "${source}")
  tutti_precompile(perf_${name} FROM tutti_core)
  target_link_libraries(perf_${name} PRIVATE ${ARGN})
  set_target_properties(perf_${name} PROPERTIES
    OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY "${TUTTI_PERF_BIN}")
endfunction()

foreach(source IN LISTS TUTTI_PERF_PROGRAMS)
  tutti_add_perf_program("${source}")
endforeach()

if(TUTTI_BENCHES)
  find_package(benchmark QUIET)
  if(benchmark_FOUND)
    foreach(source IN LISTS TUTTI_BENCHES)
      tutti_add_perf_program("${source}" benchmark::benchmark benchmark::benchmark_main)
    endforeach()
  else()
    message(STATUS "Google Benchmark was not found: perf/**/*_bench.cc are not built")
  endif()
endif()

if(TUTTI_MPI_PROGRAMS)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    foreach(source IN LISTS TUTTI_MPI_PROGRAMS)
      tutti_name_of_perf_program(name "${source}")
      add_executable(perf_mpi_${name} "${source}" ${TUTTI_MPI_HELPERS})
      target_link_libraries(perf_mpi_${name} PRIVATE tutti_perf tutti MPI::MPI_CXX)
      target_compile_definitions(perf_mpi_${name} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
      # Beside the program 'tutti', which looks for them there.
      set_target_properties(perf_mpi_${name} PROPERTIES
        OUTPUT_NAME "${name}" INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
      install(TARGETS perf_mpi_${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endforeach()
  else()
    message(STATUS "MPI was not found: perf/mpi is not built")
  endif()
endif()
