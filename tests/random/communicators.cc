#include "tests/random/communicators.h"

#include <algorithm>
#include <numeric>

namespace tutti::random_calls {

const char* name_of(Origin origin) {
  constexpr const char* kNames[kOrigins] = {"id", "one thread", "split", "shrink", "grow"};
  return kNames[static_cast<int>(origin)];
}

Communicator Communicator::of_all(int ranks) {
  Communicator all;
  all.members.resize(static_cast<size_t>(ranks));
  std::iota(all.members.begin(), all.members.end(), 0);
  return all;
}

int Communicator::rank_of(int member) const {
  const auto found = std::ranges::find(members, member);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

std::string describe(const Change& change, const std::vector<Communicator>& communicators) {
  const std::string from = std::to_string(change.from);
  if (change.made.empty()) return "end of communicator " + from;
  std::string text = name_of(change.origin);
  if (change.origin == Origin::kId && change.ids > 1) text = std::to_string(change.ids) + " ids";
  if (change.origin >= Origin::kSplit) text += " of communicator " + from;
  text += " makes";
  for (const uint32_t made : change.made) {
    text += " " + std::to_string(made) + " (ranks";
    for (const int member : communicators[made].members) text += " " + std::to_string(member);
    text += ")";
  }
  return text;
}

}  // namespace tutti::random_calls
