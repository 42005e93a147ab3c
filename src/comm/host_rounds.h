// Exchanges of texts among the ranks of each host, made of exchanges of all ranks: hosts that need
// fewer of them take part until all have made their last.
//
// Threads: one. Errors: those of the exchange; garbage is kRemoteError.
#pragma once

#include <string>
#include <vector>

#include "src/comm/window.h"

namespace tutti::comm {

class HostRounds {
 public:
  /// `near`: the ranks of this host, this one included, in the order in which their texts are
  /// wanted.
  HostRounds(GatherTexts gather, std::vector<int> near)
      : gather_(std::move(gather)), near_(std::move(near)) {}

  /// Collective among the ranks of this host: of each the text.
  Result<std::vector<std::string>> exchange(const std::string& text);
  /// Collective among all ranks: until no host needs an exchange any more.
  Status end();

 private:
  const GatherTexts gather_;
  const std::vector<int> near_;
};

}  // namespace tutti::comm
