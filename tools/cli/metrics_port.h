// Answers whoever asks by HTTP for one text: what Prometheus scrapes.
//
// Any request gets the text; nothing that is asked changes anything. One caller at a time, each for
// at most a second.
//
// Owns: the listener. Threads: one. Errors: those of listening; callers that go away are none.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "src/base/status.h"
#include "src/bootstrap/address.h"

namespace tutti::cli {

class MetricsPort {
 public:
  /// `address`: numeric, "127.0.0.1".
  static Result<MetricsPort> open(const std::string& address, uint16_t port);

  uint16_t port() const { return listener_.port; }
  /// Answers one caller. False: none came until this time of monotonic_ns().
  bool serve_one(const std::string& text, uint64_t until_ns) const;

 private:
  explicit MetricsPort(bootstrap::Listener listener) : listener_(std::move(listener)) {}
  static void answer(int socket, const std::string& text);

  bootstrap::Listener listener_;
};

}  // namespace tutti::cli
