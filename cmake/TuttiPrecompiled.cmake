# The standard headers that most files include, parsed once per build instead of once per file.
# A precompiled header serves files with the same options: tests share one of their own.
# tools/tidy says which file names something of these headers and does not include it.

set(TUTTI_COMMON_HEADERS <algorithm> <array> <atomic> <bit> <chrono> <cstdint> <cstring> <functional>
    <map> <memory> <mutex> <optional> <span> <string> <string_view> <thread> <utility> <vector>)

# tutti_precompile(<target> [FROM <target that has it already>] [ALSO <header>...])
function(tutti_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 PRECOMPILE "" "FROM" "ALSO")
  # g++ 12 has false alarms about std::string, which it forgets to keep to itself when the header is
  # precompiled. The address sanitizer looks at bounds.
  target_compile_options(${target} PRIVATE
    -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
  if(PRECOMPILE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${PRECOMPILE_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${TUTTI_COMMON_HEADERS} ${PRECOMPILE_ALSO})
  endif()
endfunction()
