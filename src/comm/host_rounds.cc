#include "src/comm/host_rounds.h"

#include <algorithm>

namespace tutti::comm {
namespace {

constexpr char kGoesOn = '+', kDone = '.';

}  // namespace

Result<std::vector<std::string>> HostRounds::exchange(const std::string& text) {
  Result<std::vector<std::string>> all = gather_(kGoesOn + text);
  if (!all.ok()) return all.status();
  std::vector<std::string> texts;
  for (const int rank : near_) {
    std::string& one = all.value()[static_cast<size_t>(rank)];
    if (one.empty() || one.front() != kGoesOn) {
      return Status::remote_error("rank " + std::to_string(rank) +
                                  " has ended an exchange of its host that others go on with");
    }
    texts.push_back(one.substr(1));
  }
  return texts;
}

Status HostRounds::end() {
  for (;;) {
    const Result<std::vector<std::string>> all = gather_(std::string(1, kDone));
    if (!all.ok()) return all.status();
    const bool done = std::all_of(all.value().begin(), all.value().end(), [](const auto& text) {
      return text.size() == 1 && text.front() == kDone;
    });
    if (done) return {};
  }
}

}  // namespace tutti::comm
