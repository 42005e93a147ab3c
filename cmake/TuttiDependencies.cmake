# What the library is built with, as one interface target: tutti_dependencies.
# Only libsodium is linked. The others are used as headers, so libtutti.so does not need them.

find_package(PkgConfig REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)

add_library(tutti_dependencies INTERFACE)
target_link_libraries(tutti_dependencies INTERFACE PkgConfig::SODIUM)

function(tutti_require_header header package)
  string(MAKE_C_IDENTIFIER "TUTTI_PATH_OF_${header}" path)
  find_path(${path} "${header}")
  mark_as_advanced(${path})
  if(NOT ${path})
    message(FATAL_ERROR "<${header}> was not found: tools/install-packages installs it (${package})")
  endif()
  target_include_directories(tutti_dependencies SYSTEM INTERFACE "${${path}}")
endfunction()

tutti_require_header(hwy/highway.h libhwy-dev)
tutti_require_header(fmt/format.h libfmt-dev)
tutti_require_header(nlohmann/json.hpp nlohmann-json3-dev)
tutti_require_header(CLI/CLI.hpp libcli11-dev)
