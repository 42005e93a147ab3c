// A second mapping of memory that is mapped already: the same bytes at another address, which stays
// this one's when the first mapping is gone. For a driver that has registered memory and may know
// it longer than the memory's owner lives: what is mapped next may get the owner's address, and
// would count as known already.
//
// Owns: the second mapping. Units: bytes, whole pages. Threads: any. Errors: kSystemError, also
// where the memory is private, of which there can be no second mapping.
#pragma once

#include <cstddef>
#include <utility>

#include "src/base/status.h"

namespace tutti {

class AliasMapping {
 public:
  static Result<AliasMapping> create(void* data, size_t bytes);
  AliasMapping(AliasMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  AliasMapping& operator=(AliasMapping&&) = delete;
  ~AliasMapping();

  void* data() const { return data_; }

 private:
  AliasMapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_;
  size_t bytes_;
};

}  // namespace tutti
