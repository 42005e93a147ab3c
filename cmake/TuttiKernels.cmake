# The kernels that fold device memory, compiled by nvcc where there is one into a fat binary that becomes
# part of the library. Nothing of CUDA is linked. Without nvcc, or with one that does not work with the
# host's compiler, reductions of device memory go through the host, and tuttiExplain says so.

option(TUTTI_KERNELS "Compile kernels where nvcc is found" ON)

function(tutti_add_kernels)
  if(NOT TUTTI_KERNELS)
    return()
  endif()
  find_program(TUTTI_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
  mark_as_advanced(TUTTI_NVCC)
  if(NOT TUTTI_NVCC)
    message(STATUS "No nvcc: reductions of device memory will go through the host")
    return()
  endif()
  set(flags -std=c++20 --expt-relaxed-constexpr -fmad=false "-I${PROJECT_SOURCE_DIR}"
      -ccbin "${CMAKE_CXX_COMPILER}")
  if(NOT DEFINED TUTTI_NVCC_CODES)
    set(probe "${PROJECT_BINARY_DIR}/kernels/probe.cu")
    file(WRITE "${probe}" "#include <bit>\n#include <cstdint>\n__global__ void probe() {}\n")
    execute_process(COMMAND "${TUTTI_NVCC}" ${flags} -ptx "${probe}" -o "${probe}.ptx"
                    RESULT_VARIABLE failed OUTPUT_VARIABLE why ERROR_VARIABLE why)
    execute_process(COMMAND "${TUTTI_NVCC}" --list-gpu-code OUTPUT_VARIABLE known)
    set(codes compute_80)
    foreach(code sm_80 sm_90 sm_100)
      if(known MATCHES "${code}\n")
        list(APPEND codes ${code})
      endif()
    endforeach()
    if(failed)
      message(STATUS "${TUTTI_NVCC} does not work (${why}): reductions of device memory will go "
                     "through the host")
      set(codes "")
    endif()
    set(TUTTI_NVCC_CODES "${codes}" CACHE INTERNAL "what kernels are compiled for")
  endif()
  if(NOT TUTTI_NVCC_CODES)
    return()
  endif()
  # One pass of the compiler proper, whose PTX is assembled for each.
  list(JOIN TUTTI_NVCC_CODES "," codes)
  set(source "${PROJECT_SOURCE_DIR}/src/engines/cuda/fold.cu")
  set(image "${PROJECT_BINARY_DIR}/kernels/fold.fatbin")
  add_custom_command(OUTPUT "${image}"
    COMMAND "${TUTTI_NVCC}" ${flags} -fatbin -Xfatbin=-compress-all -Xptxas --warn-on-local-memory-usage
            -gencode "arch=compute_80,code=[${codes}]" -MD -MF "${image}.d" -MT "${image}"
            "${source}" -o "${image}"
    DEPENDS "${source}" DEPFILE "${image}.d" COMMENT "Compiling kernels for ${codes}" VERBATIM)
  set_source_files_properties(src/engines/cuda/fold_image.cc PROPERTIES
    COMPILE_DEFINITIONS "TUTTI_FOLD_IMAGE=\"${image}\"" OBJECT_DEPENDS "${image}"
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()

tutti_add_kernels()
