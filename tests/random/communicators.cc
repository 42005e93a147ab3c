#include "tests/random/communicators.h"

#include <algorithm>
#include <numeric>

namespace tutti::random_calls {

const char* name_of(Origin origin) {
  constexpr const char* kNames[kOrigins] = {"id", "one thread", "split", "shrink", "grow"};
  return kNames[static_cast<int>(origin)];
}

const char* name_of(Mode mode) {
  constexpr const char* kNames[kModes] = {"without a word", "blocking", "not blocking"};
  return kNames[static_cast<int>(mode)];
}

const char* name_of(Ending ending) {
  constexpr const char* kNames[kEndings] = {"destroy", "finalize", "revoke", "abort"};
  return kNames[static_cast<int>(ending)];
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
  if (change.made.empty()) {
    return std::string(name_of(communicators[change.from].ending)) + " of communicator " + from;
  }
  std::string text = name_of(change.origin);
  if (change.origin == Origin::kId && change.ids > 1) text = std::to_string(change.ids) + " ids";
  if (change.origin >= Origin::kSplit) text += " of communicator " + from;
  text += std::string(" makes, ") + name_of(communicators[change.made[0]].mode) + ",";
  for (const uint32_t made : change.made) {
    text += " " + std::to_string(made) + " (ranks";
    for (const int member : communicators[made].members) text += " " + std::to_string(member);
    text += ")";
  }
  return text;
}

}  // namespace tutti::random_calls
