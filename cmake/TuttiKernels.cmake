# The kernels that fold device memory, compiled by nvcc where there is one into a fat binary that becomes
# part of the library. Nothing of CUDA is linked. Without nvcc, or with one that does not work with the
# host's compiler, reductions of device memory go through the host, and tuttiExplain says so.

option(TUTTI_KERNELS "Compile kernels where nvcc is found" ON)

# The kernels of src/engines/cuda/NAME.cu, compiled once for ARCH and assembled for each of CODES; DEFINED
# names the file for fold_image.cc, and DEFINED_SUM one with its sum.
function(tutti_add_image name arch codes flags defined)
  set(source "${PROJECT_SOURCE_DIR}/src/engines/cuda/${name}.cu")
  set(image "${PROJECT_BINARY_DIR}/kernels/${name}.fatbin")
  add_custom_command(OUTPUT "${image}"
    COMMAND "${TUTTI_NVCC}" ${flags} -fatbin -Xfatbin=-compress-all -Xptxas --warn-on-local-memory-usage
            -gencode "arch=${arch},code=[${codes}]" -MD -MF "${image}.d" -MT "${image}"
            "${source}" -o "${image}"
    COMMAND sh -c "sha256sum <'${image}' | sed 's|^|// |' >'${image}.h'"
    BYPRODUCTS "${image}.h"
    DEPENDS "${source}" DEPFILE "${image}.d" COMMENT "Compiling ${name} kernels for ${codes}" VERBATIM)
  set_property(SOURCE src/engines/cuda/fold_image.cc APPEND PROPERTY
               COMPILE_DEFINITIONS "${defined}=\"${image}\"" "${defined}_SUM=\"${image}.h\"")
  set_property(SOURCE src/engines/cuda/fold_image.cc APPEND PROPERTY OBJECT_DEPENDS "${image}")
endfunction()

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
  list(JOIN TUTTI_NVCC_CODES "," codes)
  tutti_add_image(fold compute_80 "${codes}" "${flags}" TUTTI_FOLD_IMAGE)
  # Instructions of multicast came with CUDA 12.1 and compute capability 9.0.
  if(NOT DEFINED TUTTI_NVCC_MULTICAST_CODES)
    set(probe "${PROJECT_BINARY_DIR}/kernels/multicast_probe.cu")
    file(WRITE "${probe}" "__global__ void probe(unsigned* a) {\n  asm volatile("
         "\"multimem.st.relaxed.sys.global.u32 [%0], %1;\" ::\"l\"(a), \"r\"(1) : \"memory\");\n}\n")
    execute_process(COMMAND "${TUTTI_NVCC}" ${flags} -arch=sm_90 -cubin "${probe}" -o "${probe}.cubin"
                    RESULT_VARIABLE failed OUTPUT_VARIABLE why ERROR_VARIABLE why)
    set(codes "")
    if(NOT failed)
      set(codes ${TUTTI_NVCC_CODES})
      list(REMOVE_ITEM codes compute_80 sm_80)
      list(PREPEND codes compute_90)
    endif()
    set(TUTTI_NVCC_MULTICAST_CODES "${codes}" CACHE INTERNAL "what kernels of multicast are compiled for")
  endif()
  if(TUTTI_NVCC_MULTICAST_CODES)
    list(JOIN TUTTI_NVCC_MULTICAST_CODES "," codes)
    tutti_add_image(multicast compute_90 "${codes}" "${flags}" TUTTI_MULTICAST_IMAGE)
  endif()
  set_source_files_properties(src/engines/cuda/fold_image.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

tutti_add_kernels()
