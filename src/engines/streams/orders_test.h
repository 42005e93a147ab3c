// Every order in which the steps of several lines can run, for tests of protocols: a line's steps
// run one after the other, those of different lines in any order.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tutti::engines::streams {

template <class State>
class Orders {
 public:
  /// Whether the line has no step left.
  using Ended = std::function<bool(const State&, size_t line)>;
  /// The state behind the line's next step; none: that waits. It sets the fault that it finds.
  using Advance = std::function<std::optional<State>(const State&, size_t line)>;

  void visit(State first, size_t lines, const Ended& ended, const Advance& advance) {
    std::vector<State> open{std::move(first)};
    while (!open.empty() && fault.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      if (!seen_.insert(state).second) continue;
      const size_t before = open.size();
      bool all_ended = true;
      for (size_t line = 0; line < lines; ++line) {
        if (ended(state, line)) continue;
        all_ended = false;
        if (std::optional<State> next = advance(state, line)) open.push_back(*std::move(next));
      }
      if (!all_ended && open.size() == before && fault.empty()) fault = "stands still";
    }
  }

  size_t states() const { return seen_.size(); }
  std::string fault;

 private:
  std::set<State> seen_;
};

}  // namespace tutti::engines::streams
