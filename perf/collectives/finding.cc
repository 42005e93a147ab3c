#include "perf/collectives/finding.h"

#include <cstdio>
#include <vector>

namespace tutti::perf {
namespace {

/// Exact for every integer that a pattern holds.
std::string number_text(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

}  // namespace

std::optional<Finding> first_finding(const RankContext& context, const BufferMistakes& own) {
  const std::vector<BufferMistakes> all = context.board.exchange(context.rank, own);
  Finding finding;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const BufferMistakes& mistakes = all[rank];
    if (mistakes.count() == 0) continue;
    if (finding.wrong_ranks++ == 0) {
      finding.rank = static_cast<int>(rank);
      finding.in_input = mistakes.output.count == 0;
      finding.first = finding.in_input ? mistakes.input : mistakes.output;
    }
    finding.wrong_elements += mistakes.count();
  }
  if (finding.wrong_ranks == 0) return std::nullopt;
  return finding;
}

std::string sentence_of(const Finding& finding) {
  return "rank " + std::to_string(finding.rank) + ", element " +
         std::to_string(finding.first.element) + " of its " +
         (finding.in_input ? "input, which must not change" : "output") + ": expected " +
         number_text(finding.first.expected) + ", got " + number_text(finding.first.got) + "; " +
         std::to_string(finding.wrong_elements) + " wrong elements on " +
         std::to_string(finding.wrong_ranks) + " ranks";
}

}  // namespace tutti::perf
