// How requests and answers of the transfer queue are written as bytes: whole numbers of 64 bits
// and texts with their length, one behind the other, in the byte order of the host.
//
// Errors: a reader throws Error where the bytes end early or more are left than were expected, so
//         that what a peer sends is never read beyond its end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "src/runtime/refuse.h"

namespace tutti::runtime::queue {

class WordWriter {
 public:
  WordWriter& number(int64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  WordWriter& text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WordReader {
 public:
  explicit WordReader(std::string_view bytes) : rest_(bytes) {}

  int64_t number() {
    int64_t value = 0;
    expect(sizeof value);
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  /// Of the reader's own bytes.
  std::string_view text() {
    const int64_t size = number();
    require(size >= 0, "a message of the queue has a text of ", size, " bytes; it is damaged");
    expect(static_cast<size_t>(size));
    const std::string_view value = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return value;
  }
  /// A number of things that follow, each at least 8 bytes long.
  int64_t count() {
    const int64_t value = number();
    require(value >= 0 && static_cast<uint64_t>(value) <= rest_.size() / sizeof value,
            "a message of the queue announces ", value, " entries in ", rest_.size(),
            " bytes; it is damaged");
    return value;
  }
  void end() const {
    require(rest_.empty(), "a message of the queue has ", rest_.size(),
            " bytes too many; both ends need one version of the library");
  }

 private:
  void expect(size_t bytes) const {
    require(rest_.size() >= bytes, "a message of the queue ends ", bytes - rest_.size(),
            " bytes early; both ends need one version of the library");
  }

  std::string_view rest_;
};

}  // namespace tutti::runtime::queue
