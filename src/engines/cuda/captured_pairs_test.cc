#include "src/engines/cuda/captured_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "src/drivers/cuda/software_device_test.h"
#include "src/engines/streams/orders_test.h"

namespace tutti::engines::cuda {
namespace {

using drivers::cuda::CUdeviceptr;
using exec::Transfer;

constexpr uint64_t kSlotBytes = 256;
constexpr CUdeviceptr kWords = uint64_t{1} << 40, kSlots = uint64_t{2} << 40;
constexpr CUdeviceptr kBuffers = uint64_t{3} << 40;

/// A stream does its steps one after the other.
struct Step {
  enum Kind : uint8_t { kWait, kWrite, kCopy };
  Kind kind = kWait;
  CUdeviceptr at = 0, from = 0;  // of a copy: where it goes to
  uint64_t value = 0;
};
using Steps = std::vector<Step>;

// tidy: allow mutable (a driver's functions have no object that they belong to)
Steps recorded;

drivers::cuda::CUresult record_words(drivers::cuda::CUstream, unsigned count,
                                     drivers::cuda::CUstreamBatchMemOpParams* list, unsigned) {
  for (unsigned i = 0; i < count; ++i) {
    const bool waits = list[i].operation == drivers::cuda::kWaitValue64;
    recorded.push_back({waits ? Step::kWait : Step::kWrite, list[i].address, 0, list[i].value});
  }
  return drivers::cuda::kSuccess;
}

drivers::cuda::CUresult record_copy(CUdeviceptr target, CUdeviceptr source, size_t,
                                    drivers::cuda::CUstream) {
  recorded.push_back({Step::kCopy, target, source, 0});
  return drivers::cuda::kSuccess;
}

/// The words of `rank` with `peer`: those of slots that are full, behind them those that are empty.
CUdeviceptr words_of(uint64_t rank, uint64_t peer, bool empty) {
  const uint64_t pair = rank * 16 + peer;
  return kWords +
         (2 * pair + (empty ? 1 : 0)) * streams::kCapturedSlots * CapturedPairs::kWordBytes;
}

CUdeviceptr slots_of(uint64_t source, uint64_t target) {
  return kSlots + (source * 16 + target) * streams::kCapturedSlots * kSlotBytes;
}

PairAddresses addresses_of(uint32_t rank, uint32_t ranks, uint64_t slots) {
  PairAddresses addresses;
  addresses.rank = rank;
  const PairSlots counted((ranks - 1) * PairSlots::kSlots * kSlotBytes, ranks);
  EXPECT_EQ(counted.slot_bytes(), kSlotBytes);
  addresses.slots = counted.with(slots);
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    addresses.sends.push_back(
        {slots_of(rank, peer), words_of(peer, rank, false), words_of(rank, peer, true)});
    addresses.receives.push_back(
        {slots_of(peer, rank), words_of(peer, rank, true), words_of(rank, peer, false)});
  }
  return addresses;
}

Transfer transfer(bool is_send, uint32_t peer, uint64_t pieces) {
  return {peer, is_send, reinterpret_cast<std::byte*>(kBuffers), pieces * kSlotBytes};
}

/// Groups of each rank, all of one graph.
using Groups = std::vector<std::vector<Transfer>>;

/// Looks at every order in which the steps of ranks can run: does a piece come out of a slot that
/// is not the next one of its pair, is one lost, or do ranks stand still before their ends?
class Explorer {
 public:
  explicit Explorer(std::vector<Steps> lines) : lines_(std::move(lines)) {
    for (const Steps& line : lines_) {
      for (const Step& step : line) {
        if (step.kind != Step::kCopy) places_.try_emplace(step.at, places_.size());
        if (step.kind == Step::kCopy) places_.try_emplace(slot_in(step), places_.size());
      }
    }
    number_pieces();
    State state{std::vector<size_t>(lines_.size(), 0), std::vector<uint64_t>(places_.size(), 0)};
    for (const auto& [at, place] : places_) {
      const bool is_word = at < kSlots;
      const uint64_t line = (at - kWords) / CapturedPairs::kWordBytes / streams::kCapturedSlots;
      if (is_word && line % 2 == 1) state.values[place] = 1;  // all slots are free
    }
    orders_.visit(
        std::move(state), lines_.size(),
        [&](const State& now, size_t line) { return now.steps[line] == lines_[line].size(); },
        [&](const State& now, size_t line) { return advance(now, line); });
  }
  const std::string& fault() const { return orders_.fault; }
  size_t states() const { return orders_.states(); }

 private:
  struct State {
    std::vector<size_t> steps;     // of each line
    std::vector<uint64_t> values;  // of words; of slots the number of the piece, 0: taken
    auto operator<=>(const State&) const = default;
  };
  static bool sends(const Step& copy) { return copy.at < kBuffers; }
  static CUdeviceptr slot_in(const Step& copy) { return sends(copy) ? copy.at : copy.from; }

  // A copy's value becomes the number of its piece among those of its rank, pair and direction.
  void number_pieces() {
    for (Steps& line : lines_) {
      std::map<uint64_t, uint64_t> of_way;
      for (Step& step : line) {
        if (step.kind != Step::kCopy) continue;
        const uint64_t pair = (slot_in(step) - kSlots) / kSlotBytes / streams::kCapturedSlots;
        step.value = ++of_way[2 * pair + (sends(step) ? 1 : 0)];
      }
    }
  }

  std::optional<State> advance(const State& state, size_t line) {
    const Step& step = lines_[line][state.steps[line]];
    const size_t place = places_.at(step.kind == Step::kCopy ? slot_in(step) : step.at);
    if (step.kind == Step::kWait && state.values[place] < step.value) return std::nullopt;
    State next = state;
    ++next.steps[line];
    uint64_t& value = next.values[place];
    if (step.kind == Step::kWrite) value = step.value;
    if (step.kind == Step::kCopy && sends(step)) {
      if (value != 0) orders_.fault = "a piece is lost";
      value = step.value;
    } else if (step.kind == Step::kCopy) {
      if (value != step.value) orders_.fault = "a wrong piece";
      value = 0;
    }
    return next;
  }

  std::vector<Steps> lines_;
  std::map<CUdeviceptr, size_t> places_;
  streams::Orders<State> orders_;
};

using Change = std::function<void(Steps&)>;

class CapturedPairsOfRanks : public drivers::cuda::OnSoftwareDevice {
 protected:
  CapturedPairsOfRanks() : fake_(driver()) {
    fake_.call.cuStreamBatchMemOp = record_words;
    fake_.call.cuMemcpyAsync = record_copy;
  }

  /// Several runs of each rank's groups, one after the other.
  Explorer explore(
      const std::vector<Groups>& ranks, int runs, uint64_t slots,
      const Change& change = [](Steps&) {}) {
    std::vector<Steps> lines;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      recorded.clear();
      CapturedPairs pairs(&fake_, addresses_of(rank, static_cast<uint32_t>(ranks.size()), slots));
      for (const std::vector<Transfer>& group : ranks[rank]) {
        EXPECT_TRUE(pairs.put({}, group).ok());
        EXPECT_TRUE(pairs.finish(kBuffers, 1).ok());
      }
      change(recorded);
      Steps all;
      for (int run = 0; run < runs; ++run) all.insert(all.end(), recorded.begin(), recorded.end());
      lines.push_back(std::move(all));
    }
    return Explorer(std::move(lines));
  }

  drivers::cuda::Cuda fake_;
};

constexpr uint64_t kTwo = streams::kCapturedSlots;

/// Two ranks that exchange three pieces each way in one group.
std::vector<Groups> exchange(uint64_t pieces) {
  return {{{transfer(true, 1, pieces), transfer(false, 1, pieces)}},
          {{transfer(true, 0, pieces), transfer(false, 0, pieces)}}};
}

TEST_F(CapturedPairsOfRanks, TakeEachPieceOnceInAnyOrderOfSteps) {
  for (const uint64_t pieces : {1, 2, 3, 5}) {
    const Explorer explored = explore(exchange(pieces), 3, kTwo);
    EXPECT_EQ(explored.fault(), "") << pieces;
    EXPECT_GT(explored.states(), 30u);
  }
}

TEST_F(CapturedPairsOfRanks, MayGroupDifferentlyWithinWhatIsOnItsWay) {
  const std::vector<Groups> ranks = {
      {{transfer(true, 1, 1), transfer(true, 1, 1)}, {transfer(false, 1, 3)}},
      {{transfer(false, 0, 1)}, {transfer(false, 0, 1)}, {transfer(true, 0, 3)}}};
  EXPECT_EQ(explore(ranks, 3, kTwo).fault(), "");
  const std::vector<Groups> both_send_first = {{{transfer(true, 1, 1)}, {transfer(false, 1, 2)}},
                                               {{transfer(true, 0, 2)}, {transfer(false, 0, 1)}}};
  EXPECT_EQ(explore(both_send_first, 3, kTwo).fault(), "");
}

TEST_F(CapturedPairsOfRanks, InARingAndWithARankThatIsFarAhead) {
  std::vector<Groups> ring;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ring.push_back({{transfer(true, (rank + 1) % 3, 2), transfer(false, (rank + 2) % 3, 2)}});
  }
  EXPECT_EQ(explore(ring, 2, kTwo).fault(), "");
  const std::vector<Groups> chain = {{{transfer(true, 1, 1)}},
                                     {{transfer(false, 0, 1)}, {transfer(true, 2, 1)}},
                                     {{transfer(false, 1, 1)}}};
  EXPECT_EQ(explore(chain, 4, kTwo).fault(), "");
}

TEST_F(CapturedPairsOfRanks, NeedTwoSlots) {
  EXPECT_EQ(explore(exchange(2), 1, 1).fault(), "stands still");
}

TEST_F(CapturedPairsOfRanks, AStepThatIsMissingIsFound) {
  const auto is_word = [](const Step& step, Step::Kind kind, uint64_t value) {
    return step.kind == kind && step.value == value;
  };
  for (const auto& [kind, value] :
       {std::pair{Step::kWait, 1}, {Step::kWrite, 0}, {Step::kWrite, 1}}) {
    for (const bool empty : {false, true}) {
      const Change change = [&, kind = kind, value = static_cast<uint64_t>(value)](Steps& steps) {
        std::erase_if(steps, [&](const Step& step) {
          const uint64_t line = (step.at - kWords) / CapturedPairs::kWordBytes / kTwo;
          return is_word(step, kind, value) && (line % 2 == 1) == empty;
        });
      };
      EXPECT_NE(explore(exchange(3), 2, kTwo, change).fault(), "") << kind << value << empty;
    }
  }
}

TEST_F(CapturedPairsOfRanks, ASignalBeforeTheCopyIsFound) {
  const Change change = [](Steps& steps) {
    const auto copy = [](const Step& step) { return step.kind == Step::kCopy; };
    const auto first = std::find_if(steps.begin(), steps.end(), copy);
    const auto behind = std::find_if_not(first, steps.end(), copy);
    std::rotate(first, behind, behind + 1);
  };
  EXPECT_NE(explore(exchange(1), 2, kTwo, change).fault(), "");
}

TEST_F(CapturedPairsOfRanks, SayInWhichSlotATransferBegins) {
  const std::vector<Transfer> first = {transfer(true, 1, 1)};
  const PairAddresses addresses = addresses_of(0, 2, kTwo);
  CapturedPairs one(&fake_, addresses);
  EXPECT_EQ(one.first_slots(first), std::vector<uint32_t>{0});
  EXPECT_TRUE(one.put({}, first).ok());
  EXPECT_EQ(one.first_slots(first), std::vector<uint32_t>{1});
  CapturedPairs other(&fake_, addresses);
  const std::vector<Transfer> long_ones = {transfer(true, 1, 3), transfer(false, 1, 1),
                                           transfer(true, 1, 1), transfer(true, 1, 0)};
  EXPECT_EQ(other.first_slots(long_ones), (std::vector<uint32_t>{0, 0, 1, 0}));
}

}  // namespace
}  // namespace tutti::engines::cuda
