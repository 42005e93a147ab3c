// Results of the driver in programs of tests, which can do nothing about an error but say it and
// end.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "src/base/status.h"

namespace tutti::device_programs {

template <class Value>
Value must(Result<Value> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "the device: %s\n", std::string(result.status().message()).c_str());
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace tutti::device_programs
