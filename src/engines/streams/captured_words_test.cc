#include "src/engines/streams/captured_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>

#include "src/engines/streams/orders_test.h"

namespace tutti::engines::streams {
namespace {

/// All steps of one run of a rank, its plan in the middle.
CapturedSteps run_of(uint32_t rank, uint32_t ranks, uint32_t root) {
  CapturedSteps steps = steps_before(rank, ranks);
  const uint64_t first = kCapturedArrived + 1;
  // A broadcast in two slices: only the root is waited for.
  if (rank == root) {
    steps.push_back({false, CapturedWord::kProgress, rank, first});
    steps.push_back({false, CapturedWord::kProgress, rank, first + 1});
  } else {
    steps.push_back({true, CapturedWord::kProgress, root, first});
    steps.push_back({true, CapturedWord::kProgress, root, first + 1});
  }
  // And one of its second lane.
  steps.push_back({rank != root, CapturedWord::kSecondProgress, root, first});
  const CapturedSteps behind = steps_behind(rank, ranks, 2);
  steps.insert(steps.end(), behind.begin(), behind.end());
  return steps;
}

using Change = std::function<void(CapturedSteps&)>;

/// A queue of steps that run in order.
struct Line {
  uint32_t rank = 0;
  std::vector<std::pair<CapturedStep, int>> steps;  // and the run that each belongs to
};

/// Looks at every order in which lines of steps can run: does a wait end by what was written in
/// another run, or do lines stand still before their ends?
class Explorer {
 public:
  Explorer(uint32_t ranks, std::vector<Line> lines) : lines_(std::move(lines)) {
    State state;
    state.places.assign(lines_.size(), 0);
    state.words.assign(size_t{kCapturedWords} * ranks, {0, -1});
    orders_.visit(
        std::move(state), lines_.size(),
        [&](const State& now, size_t line) {
          return now.places[line] == lines_[line].steps.size();
        },
        [&](const State& now, size_t line) { return advance(now, line); });
  }
  const std::string& fault() const { return orders_.fault; }
  size_t states() const { return orders_.states(); }

 private:
  struct State {
    std::vector<size_t> places;
    std::vector<std::pair<uint64_t, int>> words;  // value, and the run that wrote it
    auto operator<=>(const State&) const = default;
  };

  static size_t index(const CapturedStep& step) {
    return size_t{step.rank} * kCapturedWords + static_cast<size_t>(step.word);
  }

  std::optional<State> advance(const State& state, size_t line) {
    const auto& [step, run] = lines_[line].steps[state.places[line]];
    const auto& [value, writer] = state.words[index(step)];
    if (step.waits && value < step.value) return std::nullopt;
    if (step.waits && writer != run) {
      orders_.fault = "a run takes the word of another one";
      return std::nullopt;
    }
    State next = state;
    ++next.places[line];
    if (!step.waits) next.words[index(step)] = {step.value, run};
    return next;
  }

  const std::vector<Line> lines_;
  Orders<State> orders_;
};

/// Several runs one after the other on each rank; their roots differ, so they are not all of one
/// call.
Explorer explore(uint32_t ranks, int runs, const Change& change) {
  std::vector<Line> lines(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    lines[rank].rank = rank;
    for (int run = 0; run < runs; ++run) {
      CapturedSteps steps = run_of(rank, ranks, static_cast<uint32_t>(run) % ranks);
      change(steps);
      for (const CapturedStep& step : steps) lines[rank].steps.emplace_back(step, run);
    }
  }
  return Explorer(ranks, std::move(lines));
}

void nothing(CapturedSteps&) {}

/// Without the steps that `which` says.
Change without(const std::function<bool(const CapturedStep&)>& which) {
  return [which](CapturedSteps& steps) { std::erase_if(steps, which); };
}

TEST(CapturedWords, NoRunTakesTheWordOfAnotherOneInAnyOrderOfSteps) {
  for (const auto& [ranks, runs] : {std::pair{2u, 5}, {3u, 4}, {4u, 2}}) {
    const Explorer explored = explore(ranks, runs, nothing);
    EXPECT_EQ(explored.fault(), "") << ranks << " ranks";
    EXPECT_GT(explored.states(), 100u);
  }
}

constexpr std::array kWords = {CapturedWord::kProgress, CapturedWord::kDone, CapturedWord::kReset};

TEST(CapturedWords, AResetThatIsMissingIsFound) {
  for (const CapturedWord word : kWords) {
    const Change change = without([word](const CapturedStep& step) {
      return !step.waits && step.word == word && step.value == 0;
    });
    EXPECT_NE(explore(2, 3, change).fault(), "") << static_cast<int>(word);
  }
}

TEST(CapturedWords, AResetBeforeTheReadersHaveReadIsFound) {
  for (const CapturedWord word : kWords) {
    // Behind the last write of the word instead.
    const Change early = [word](CapturedSteps& steps) {
      const auto reset = std::find_if(steps.begin(), steps.end(), [&](const CapturedStep& step) {
        return !step.waits && step.word == word && step.value == 0;
      });
      const CapturedStep moved = *reset;
      steps.erase(reset);
      const auto last = std::find_if(steps.rbegin(), steps.rend(), [&](const CapturedStep& step) {
        return !step.waits && step.word == word;
      });
      steps.insert(last.base(), moved);
    };
    EXPECT_NE(explore(2, 3, early).fault(), "") << static_cast<int>(word);
  }
}

TEST(CapturedWords, AWriterThatIsNotToldOfTheResetIsFound) {
  for (const CapturedWord word : kWords) {
    const Change change = without([word](const CapturedStep& step) {
      return step.waits && step.word == word && step.value == 1;
    });
    EXPECT_NE(explore(3, 3, change).fault(), "") << static_cast<int>(word);
  }
}

TEST(CapturedWords, CallsThatShareTheWordsAndDoNotFollowEachOtherAreFound) {
  std::vector<Line> lines;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (int run = 0; run < 2; ++run) {
      Line line{rank, {}};
      for (const CapturedStep& step : run_of(rank, 2, 0)) line.steps.emplace_back(step, run);
      lines.push_back(std::move(line));
    }
  }
  EXPECT_NE(Explorer(2, std::move(lines)).fault(), "");
}

}  // namespace
}  // namespace tutti::engines::streams
