#include "perf/collectives/choice.h"

#include <algorithm>

namespace tutti::perf {
namespace {

/// The text between a mark and the next comma.
std::string after(std::string_view line, std::string_view mark) {
  const size_t found = line.find(mark);
  if (found == std::string_view::npos) return "?";
  const std::string_view rest = line.substr(found + mark.size());
  return std::string(rest.substr(0, rest.find(',')));
}

}  // namespace

Choice parse_choice(std::string_view explanation) {
  constexpr std::string_view kChosen = " ranks: ";
  std::string_view line;
  while (!explanation.empty() && line.find(kChosen) == std::string_view::npos) {
    line = explanation.substr(0, explanation.find('\n'));
    explanation.remove_prefix(std::min(line.size() + 1, explanation.size()));
  }
  return {after(line, kChosen), after(line, ", over ")};
}

Choice choice_of(const Communicator& communicator, const Operation& operation) {
  const CollectiveTraits& traits = traits_of(operation.collective);
  if (!traits.has(Trait::kOfPairs)) return parse_choice(explanation(communicator, operation));
  Operation barrier = operation;
  barrier.collective = Collective::kBarrier;
  barrier.count = 0;
  return {"pairs", parse_choice(explanation(communicator, barrier)).transports};
}

}  // namespace tutti::perf
