# Tests. Every *_test.cc goes into the GoogleTest program of its top-level folder (src, algorithms,
# transports, perf, tools, tests): build/bin/tests/<folder>_test; slow_*_test.cc into <folder>_slow_test.
# In tests/, *_main.cc is a program of its own beside them, and every other .cc is a helper linked into
# the tests and those programs. tools_test links the sources of the command line but main.cc. Python
# tests are *_test.py in tools, tests, perf and python, slow ones slow_*_test.py.
#
# ctest gets one entry per suite (a process per case would cost more than the cases). All but the slow
# ones carry the label 'fast'; target tutti_fast_tests builds exactly what those need, and what the
# Python tests that are not slow need.

find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(TUTTI_TEST_BIN "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests")
set(TUTTI_TEST_RESULTS "${PROJECT_BINARY_DIR}/test-results")
add_custom_target(tutti_fast_tests)
if(TUTTI_SANITIZE)
  set(TUTTI_REPORT_CHECKER "${Python3_EXECUTABLE};-B;${PROJECT_SOURCE_DIR}/tools/sanitizer-reports")
endif()
configure_file(cmake/test_paths.h.in test-include/generated/test_paths.h @ONLY)

# What tests may want to start or load. Those of the drop-in look at the plain build.
set(TUTTI_UNDER_TEST tutti tutti_program)
if(NOT TUTTI_SANITIZE)
  list(APPEND TUTTI_UNDER_TEST tutti_nccl)
endif()

# ---- the software device --------------------------------------------------------------------

# A libcuda.so.1 of the tests' own (docs/software_device.md), apart from all other libraries: only a
# program that gets its folder in LD_LIBRARY_PATH, or a test that names it, ever loads it.
tutti_glob(TUTTI_SOFTWARE_DEVICE FOLDERS tests/software_device/device MATCHING "\\.cc$")
add_library(tutti_software_device SHARED ${TUTTI_SOFTWARE_DEVICE})
target_link_libraries(tutti_software_device PRIVATE tutti_flags)
tutti_precompile(tutti_software_device FROM tutti_core)
tutti_unite(tutti_software_device FOLDERS tests/software_device/device)
set_target_properties(tutti_software_device PROPERTIES
  OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/software_device")
target_link_options(tutti_software_device PRIVATE LINKER:-z,nodelete)  # its threads never end
list(APPEND TUTTI_UNDER_TEST tutti_software_device)

# A libnccl.so.2 of the tests' own on the software device, likewise, one that lacks
# a function, and one that is older and keeps its memory.
tutti_glob(TUTTI_SOFTWARE_NCCL FOLDERS tests/software_nccl/library MATCHING "\\.cc$")
foreach(kind software_nccl lacking_nccl older_nccl)
  add_library(tutti_${kind} SHARED ${TUTTI_SOFTWARE_NCCL})
  target_link_libraries(tutti_${kind} PRIVATE tutti_flags)
  # As NCCL, it calls its own functions through the table that the loader fills.
  target_compile_options(tutti_${kind} PRIVATE -fsemantic-interposition)
  set_target_properties(tutti_${kind} PROPERTIES
    OUTPUT_NAME nccl SOVERSION 2 CXX_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${kind}")
  target_link_options(tutti_${kind} PRIVATE LINKER:-z,nodelete)
  list(APPEND TUTTI_UNDER_TEST tutti_${kind})
endforeach()
target_compile_definitions(tutti_lacking_nccl PRIVATE SOFTNCCL_LACKS_REDUCE_SCATTER)
target_compile_definitions(tutti_older_nccl PRIVATE SOFTNCCL_LACKS_SUSPEND)

# ---- programs -------------------------------------------------------------------------------

# Registers the suites of a GoogleTest program when ctest starts, so that a build does not run it.
function(tutti_register_suites target label)
  set(include_file "${PROJECT_BINARY_DIR}/suites/${target}.cmake")
  file(CONFIGURE OUTPUT "${include_file}" @ONLY CONTENT [[
set(suite_program "@TUTTI_TEST_BIN@/@target@")
set(suite_prefix "@target@")
set(suite_label "@label@")
set(suite_results "@TUTTI_TEST_RESULTS@")
set(suite_report_checker "@TUTTI_REPORT_CHECKER@")
include("@PROJECT_SOURCE_DIR@/cmake/register_suites.cmake")
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include_file}")
endfunction()

# tutti_add_gtest(<target> <label> <source>...): nothing where there are no sources.
function(tutti_add_gtest target label)
  if(NOT ARGN)
    return()
  endif()
  tutti_add_program(${target} ${ARGN})
  if(target STREQUAL "src_test")
    tutti_precompile(${target} ALSO <gtest/gtest.h>)
  else()
    tutti_precompile(${target} FROM src_test)
  endif()
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  # A fifth less time than with -O1. The reference of the kernels computes: it is the one that is slow then.
  if(NOT TUTTI_SANITIZE)
    target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O0>")
  endif()
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${TUTTI_TEST_BIN}" TUTTI_IS_TEST ON)
  target_include_directories(${target} PRIVATE "${PROJECT_BINARY_DIR}/test-include")
  add_dependencies(${target} ${TUTTI_UNDER_TEST})
  tutti_register_suites(${target} "${label}")
  if(label STREQUAL "fast")
    add_dependencies(tutti_fast_tests ${target})
  endif()
endfunction()

if(NOT TUTTI_SANITIZE)
  set_source_files_properties(src/types/kernels_test.cc PROPERTIES
    COMPILE_OPTIONS "$<$<CONFIG:Release>:-O1>" SKIP_PRECOMPILE_HEADERS ON)
endif()

# The vendor's header is looked at by one test, which compares it with Tutti's own declarations.
find_path(TUTTI_CUDA_HEADER_FOLDER cuda.h PATHS /usr/local/cuda/include)
mark_as_advanced(TUTTI_CUDA_HEADER_FOLDER)
if(TUTTI_CUDA_HEADER_FOLDER)
  set_source_files_properties(src/drivers/cuda/abi_test.cc PROPERTIES
    COMPILE_OPTIONS "-isystem;${TUTTI_CUDA_HEADER_FOLDER}")
else()
  message(STATUS "No cuda.h: src/drivers/cuda/api.h is compared with nothing (CudaInterface is skipped)")
endif()

tutti_glob(TUTTI_TEST_HELPERS FOLDERS tests MATCHING "\\.cc$"
           WITHOUT "_test\\.cc$" "_main\\.cc$" "^tests/software_(device/device|nccl/library)/")
# Of the drop-in, what reads a caller's bytes: its library shows only NCCL's names.
add_library(tutti_test_helpers OBJECT ${TUTTI_TEST_HELPERS}
            plugins/nccl/call_config.cc plugins/nccl/config.cc plugins/nccl/configuration_lines.cc)
target_link_libraries(tutti_test_helpers PUBLIC tutti_flags tutti_dependencies GTest::gtest)
tutti_precompile(tutti_test_helpers FROM tutti_core)
tutti_unite(tutti_test_helpers FOLDERS tests/fuzz tests/random tests/support tests/security plugins/nccl)
target_include_directories(tutti_test_helpers PRIVATE "${PROJECT_BINARY_DIR}/test-include")

# What has one thread only needs no thread sanitizer.
set(TUTTI_PURE_TESTS "^$")
if(TUTTI_SANITIZE STREQUAL "thread")
  string(CONCAT TUTTI_PURE_TESTS "^((src/(codecs|plan|registry|schedule|select|types)|algorithms|tools)/"
         "|src/comm/planner_test|perf/collectives/pattern_)")
endif()

foreach(folder src algorithms transports perf tools tests)
  tutti_glob(fast_sources FOLDERS ${folder} MATCHING "_test\\.cc$"
             WITHOUT "(^|/)slow_[^/]*$" "${TUTTI_PURE_TESTS}")
  tutti_glob(slow_sources FOLDERS ${folder} MATCHING "(^|/)slow_[^/]*_test\\.cc$")
  tutti_add_gtest(${folder}_test fast ${fast_sources})
  tutti_add_gtest(${folder}_slow_test slow ${slow_sources})
endforeach()
target_link_libraries(src_test PRIVATE tutti_runtime_part)
target_link_libraries(tests_test PRIVATE tutti_test_helpers tutti_runtime_part)
target_link_libraries(tests_slow_test PRIVATE tutti_test_helpers tutti_runtime_part)
if(TARGET tools_test)
  target_link_libraries(tools_test PRIVATE tutti_cli)
endif()
target_link_libraries(tools_slow_test PRIVATE tutti_cli)

tutti_glob(TUTTI_TEST_PROGRAMS FOLDERS tests MATCHING "_main\\.cc$")
foreach(source IN LISTS TUTTI_TEST_PROGRAMS)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_main$" "" name "${name}")
  tutti_add_program(tests_${name} "${source}")
  tutti_precompile(tests_${name} FROM tutti_core)
  set_target_properties(tests_${name} PROPERTIES
    OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY "${TUTTI_TEST_BIN}")
  target_link_libraries(tests_${name} PRIVATE tutti_test_helpers)
  add_dependencies(tutti_fast_tests tests_${name})
endforeach()

target_link_libraries(tests_device_movers PRIVATE tutti_runtime_part)
target_link_libraries(tests_device_steps PRIVATE tutti_runtime_part)
target_link_libraries(tests_elastic PRIVATE tutti_runtime_part)
target_link_libraries(tests_fault_tolerant PRIVATE tutti_runtime_part)
target_link_libraries(tests_queue PRIVATE tutti_runtime_part)

add_dependencies(tutti_fast_tests ${TUTTI_EXAMPLE_TARGETS})
if(TARGET tutti_python_stub)
  add_dependencies(tutti_fast_tests tutti_python_stub)
endif()

# ---- tests that are not GoogleTest ----------------------------------------------------------

# They look at the sources or at the plain build; docs/building.md says what the sanitizers miss by that.
if(NOT TUTTI_SANITIZE)
  tutti_glob(TUTTI_PYTHON_TESTS FOLDERS tools tests perf python MATCHING "_test\\.py$")
  foreach(source IN LISTS TUTTI_PYTHON_TESTS)
    string(REGEX REPLACE "\\.py$" "" name "${source}")
    string(REPLACE "/" "." name "${name}")
    set(label plain)
    if(source MATCHES "(^|/)slow_[^/]*$")
      set(label slow)
    endif()
    add_test(NAME ${name} COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/${source}")
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 1800 SKIP_RETURN_CODE 77
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      ENVIRONMENT "TEST_BINARY_DIR=${PROJECT_BINARY_DIR};CXX=${CMAKE_CXX_COMPILER};TUTTI_CACHE=off")
  endforeach()

  add_test(NAME tidy COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/tidy"
           --cxx "${CMAKE_CXX_COMPILER}" --cache "${PROJECT_BINARY_DIR}/tidy-headers.json")
  add_test(NAME library COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/check-library"
           "$<TARGET_FILE:tutti>" "$<TARGET_FILE:tutti_nccl>")
  set_tests_properties(library PROPERTIES LABELS plain)
  set_tests_properties(tidy PROPERTIES LABELS tidy TIMEOUT 3600)
endif()
