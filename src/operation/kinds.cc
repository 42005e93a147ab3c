#include "src/operation/kinds.h"

#include <algorithm>

// Declared here, so that kinds.inc is the only line a kind needs.
#define TUTTI_KIND_OF_CALLS(name)               \
  namespace tutti::operation::calls::name {     \
  std::vector<std::string> names();             \
  std::string answer(const Question& question); \
  }
#include "src/operation/kinds.inc"
#undef TUTTI_KIND_OF_CALLS

namespace tutti::operation {
namespace {

struct KindOfCalls {
  std::vector<std::string> (*names)();
  /// Of one of these names.
  std::string (*answer)(const Question& question);
};

#define TUTTI_KIND_OF_CALLS(name) {&calls::name::names, &calls::name::answer},
constexpr KindOfCalls kKinds[] = {
#include "src/operation/kinds.inc"
};
#undef TUTTI_KIND_OF_CALLS

}  // namespace

std::vector<std::string> names_of_calls() {
  std::vector<std::string> all;
  for (const KindOfCalls& kind : kKinds) {
    for (std::string& name : kind.names()) all.push_back(std::move(name));
  }
  return all;
}

Result<std::string> explain(const Question& question) {
  for (const KindOfCalls& kind : kKinds) {
    const std::vector<std::string> names = kind.names();
    const bool has_it = std::find(names.begin(), names.end(), question.call) != names.end();
    if (has_it) return kind.answer(question);
  }
  std::string known;
  for (const std::string& name : names_of_calls()) known += (known.empty() ? "" : ", ") + name;
  return Status::invalid_argument("there is no call '" + std::string(question.call) +
                                  "'; there are " + known);
}

}  // namespace tutti::operation
