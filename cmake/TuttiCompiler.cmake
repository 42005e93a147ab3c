# How every C++ file of the project is compiled, as one interface target: tutti_flags.

set(TUTTI_SANITIZE "" CACHE STRING "'address' (with undefined), 'thread', or empty")
set_property(CACHE TUTTI_SANITIZE PROPERTY STRINGS "" address thread)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness it does not cache what uses a precompiled header (with g++:
  # -fpch-preprocess, too), and without the next two nothing for a clone in another folder. CCACHE_DEPEND
  # asks the compiler what it has read: no run of the preprocessor before each new compilation.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_NOHASHDIR=1 "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_DEPEND=1 "${TUTTI_CCACHE}")
endif()

find_package(Threads REQUIRED)

add_library(tutti_flags INTERFACE)
# Contraction is off because it would fuse a*b+c on processors with FMA only: the bits of a result
# must not depend on the machine.
target_compile_options(tutti_flags INTERFACE -Wall -Wextra -Werror -ffp-contract=off
  "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>")
target_include_directories(tutti_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(tutti_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(tutti_flags INTERFACE LINKER:--as-needed LINKER:-z,defs)

set(TUTTI_MORE_CHECKS "")
if(TUTTI_SANITIZE STREQUAL "address")
  set(TUTTI_SANITIZE_FLAGS -fsanitize=address)
  # Not in tests: config_test.cc takes 5.4 s to compile without and 8.8 with them, once each. What is
  # tested has them, and so have the programs in tests/.
  set(TUTTI_MORE_CHECKS -fsanitize=undefined -fno-sanitize-recover=undefined)
elseif(TUTTI_SANITIZE STREQUAL "thread")
  set(TUTTI_SANITIZE_FLAGS -fsanitize=thread)
elseif(NOT TUTTI_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TUTTI_SANITIZE is '${TUTTI_SANITIZE}'; it may be 'address', 'thread' or empty")
endif()
if(TUTTI_SANITIZE)
  # NDEBUG stays undefined: a sanitizer build also checks assertions. Instrumentation confuses the
  # flow analysis behind some warnings of g++ 12, so those are errors in the plain build only.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
  target_compile_options(tutti_flags INTERFACE
    ${TUTTI_SANITIZE_FLAGS} -fno-omit-frame-pointer -Wno-error -Wno-tsan
    "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:TUTTI_IS_TEST>>>:${TUTTI_MORE_CHECKS}>")
  target_link_options(tutti_flags INTERFACE ${TUTTI_SANITIZE_FLAGS} ${TUTTI_MORE_CHECKS})
  # With a sanitizer g++ 12 takes five minutes for this file. The others do the same with the same
  # templates, on other types.
  set_source_files_properties(src/types/kernels_packed.cc
    PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()
