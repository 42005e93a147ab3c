#include "src/engines/streams/begun_kernels.h"

#include <utility>

namespace tutti::engines::streams {
namespace {

/// Words of what the rank's kernels wait for, and of what they have waited for in vain.
template <class Act>
void each_wait(const FusedWords& words, const Act& act) {
  for (const std::atomic<uint64_t>& one : words.waiting) act(one.load(std::memory_order_acquire));
  act(words.expired.load(std::memory_order_acquire));
}

}  // namespace

// The calls behind it may differ because of it. Numbers rise, and begin anew when all are used.
std::optional<CallDifference> BegunKernels::find_difference() const {
  std::optional<std::pair<uint32_t, size_t>> first;
  for (const std::atomic<uint64_t>& one : ranks_.words[own()]->begun) {
    const uint64_t mine = one.load(std::memory_order_acquire);
    if (mine == 0) continue;
    const auto number = static_cast<uint32_t>(mine >> 32);
    if (first && static_cast<int32_t>(number - first->first) > 0) continue;
    for (size_t peer = 0; peer < ranks_.words.size(); ++peer) {
      const std::optional<uint32_t> theirs = ranks_.words[peer]->signature_of(number);
      if (theirs && *theirs != static_cast<uint32_t>(mine)) first = {number, peer};
    }
  }
  if (!first) return std::nullopt;
  return describe_difference(first->first, first->second);
}

CallDifference BegunKernels::describe_difference(uint32_t number, size_t peer) const {
  const auto call_of = [&](size_t rank) {
    const std::optional<uint32_t> signature = ranks_.words[rank]->signature_of(number);
    return signature ? ranks_.find_call(rank, *signature) : std::nullopt;
  };
  const auto mine = call_of(own()), theirs = call_of(peer);
  const std::string self = ranks_.name_of(ranks_.rank);
  const std::string other = ranks_.name_of(static_cast<int>(peer));
  std::optional<std::string> both;
  if (mine && theirs) both = diagnosis::compare_text(self, *mine, other, *theirs);
  return {Status::invalid_usage("kernels of different calls have met: " +
                                both.value_or(self + " and " + other + " run different calls") +
                                "; all ranks must run the same calls and graphs in the same order"),
          static_cast<int>(peer)};
}

std::string BegunKernels::describe(size_t rank, uint64_t word) const {
  const auto number = static_cast<uint32_t>(word >> 32);
  const std::optional<uint32_t> signature = ranks_.words[rank]->signature_of(number);
  const auto call = signature ? ranks_.find_call(rank, *signature) : std::nullopt;
  return call ? diagnosis::text_of(*call) : "a call";
}

// A kernel names one of the ranks that it waits for. It also waits for all that have not begun its
// call.
std::string BegunKernels::describe_wait() const {
  std::string text;
  for (size_t rank = 0; rank < ranks_.words.size(); ++rank) {
    each_wait(*ranks_.words[rank], [&](uint64_t word) {
      const std::optional<int> peer = FusedWords::peer_in(word, ranks_.words.size());
      const auto number = static_cast<uint32_t>(word >> 32);
      const bool concerns =
          peer && (rank == own() || !ranks_.words[own()]->signature_of(number).has_value());
      if (!concerns || !text.empty()) return;
      text = describe(rank, word);
      if (rank != own()) text += " of " + ranks_.name_of(static_cast<int>(rank));
    });
  }
  return text;
}

}  // namespace tutti::engines::streams
