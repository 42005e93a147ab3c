#include "perf/collectives/choice.h"

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
  const std::string_view line = explanation.substr(0, explanation.find('\n'));
  return {after(line, " ranks: "), after(line, ", over ")};
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
