# Benchmarks. perf/**/*_bench.cc: Google Benchmark programs. perf/**/*_main.cc: a program each.
# perf/mpi/*_main.cc: programs of MPI, linked with libtutti.so as a user would, and with the other files
# of that folder, once for MPICH too, as NAMEch, since its binary interface is another one. All link what they use of the other files in perf/ (target tutti_perf).

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

# An MPI program `target` from `source`; ARGN: what it links of its MPI.
function(tutti_add_mpi_program target source)
  add_executable(perf_mpi_${target} "${source}" ${TUTTI_MPI_HELPERS})
  target_link_libraries(perf_mpi_${target} PRIVATE tutti_perf tutti ${ARGN})
  target_compile_definitions(perf_mpi_${target} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  # Beside the program 'tutti', which looks for them there.
  set_target_properties(perf_mpi_${target} PROPERTIES
    OUTPUT_NAME "${target}" INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS perf_mpi_${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

if(TUTTI_MPI_PROGRAMS)
  find_package(MPI QUIET COMPONENTS CXX)
  find_path(TUTTI_MPICH_INCLUDE mpi.h PATH_SUFFIXES mpich mpich-x86_64 DOC "the folder of MPICH's mpi.h")
  find_library(TUTTI_MPICH_LIBRARY mpich PATH_SUFFIXES mpich/lib DOC "libmpich.so")
  set(mpich)  # "#define MPICH_VERSION ...": another MPI has no such line
  if(TUTTI_MPICH_INCLUDE AND TUTTI_MPICH_LIBRARY)
    file(STRINGS "${TUTTI_MPICH_INCLUDE}/mpi.h" mpich REGEX "define MPICH_VERSION")
  endif()
  foreach(source IN LISTS TUTTI_MPI_PROGRAMS)
    tutti_name_of_perf_program(name "${source}")
    if(MPI_CXX_FOUND)
      tutti_add_mpi_program("${name}" "${source}" MPI::MPI_CXX)
    endif()
    if(mpich)
      tutti_add_mpi_program("${name}ch" "${source}" "${TUTTI_MPICH_LIBRARY}")
      target_include_directories(perf_mpi_${name}ch SYSTEM PRIVATE "${TUTTI_MPICH_INCLUDE}")
    endif()
  endforeach()
  if(NOT MPI_CXX_FOUND AND NOT mpich)
    message(STATUS "MPI was not found: perf/mpi is not built")
  endif()
endif()
