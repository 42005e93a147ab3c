#include "src/operation/kinds.h"

#include <algorithm>

#include "src/operation/access_operation.h"
#include "src/operation/collective_operation.h"
#include "src/operation/transfer_operation.h"

namespace tutti::operation {
namespace {

struct KindOfCalls {
  std::vector<std::string> (*names)();
  /// Of one of these names.
  std::string (*answer)(const Question& question);
};

constexpr KindOfCalls kKinds[] = {
    {&CollectiveOperation::names, &CollectiveOperation::answer},
    {&TransferOperation::names, &TransferOperation::answer},
    {&AccessOperation::names, &AccessOperation::answer},
};

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
