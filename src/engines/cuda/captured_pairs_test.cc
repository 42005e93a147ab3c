#include "src/engines/cuda/captured_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>

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
    if (list[i].address >= kSlots && list[i].address < kBuffers) {  // it tells of a place
      recorded.push_back({Step::kCopy, list[i].address, kBuffers, 0});
      continue;
    }
    recorded.push_back({waits ? Step::kWait : Step::kWrite, list[i].address, 0, list[i].value});
  }
  return drivers::cuda::kSuccess;
}

drivers::cuda::CUresult record_copy(CUdeviceptr target, CUdeviceptr source, size_t,
                                    drivers::cuda::CUstream) {
  recorded.push_back({Step::kCopy, target, source, 0});
  return drivers::cuda::kSuccess;
}

/// Of a launch's arguments the last but one are the kernel's parameters.
template <class... Arguments>
drivers::cuda::CUresult record_kernel(Arguments... arguments) {
  void** const parameters = std::get<sizeof...(Arguments) - 2>(std::tuple(arguments...));
  const auto& given = *static_cast<const PlacedPieces*>(parameters[0]);
  for (uint32_t i = 0; i < given.count; ++i) {
    recorded.push_back({Step::kCopy, kBuffers, given.pieces[i].place, 0});
  }
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
    // Direct pieces lie in no slot, so the words of their places can be where slots begin.
    addresses.sends.push_back({slots_of(rank, peer), words_of(peer, rank, false),
                               words_of(rank, peer, true), false, slots_of(rank, peer)});
    addresses.receives.push_back({slots_of(peer, rank), words_of(peer, rank, true),
                                  words_of(rank, peer, false), false, slots_of(peer, rank)});
  }
  return addresses;
}

Transfer transfer(bool is_send, uint32_t peer, uint64_t pieces) {
  return {peer, is_send, reinterpret_cast<std::byte*>(kBuffers), pieces * kSlotBytes};
}

/// Groups of each rank, all of one graph.
using Groups = std::vector<std::vector<Transfer>>;

/// Looks at every order in which the steps of ranks can run: does a piece come out of a slot that
/// is not the next one of its pair, is one lost, or do ranks stand still before their ends? With
/// `reads`, is a rank past a group from which a peer has not read all?
class Explorer {
 public:
  Explorer(std::vector<Steps> lines, bool reads) : lines_(std::move(lines)), reads_(reads) {
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
    if (reads_ && step.kind == Step::kWrite && step.at == kBuffers && has_unread(next, line)) {
      orders_.fault = "what a peer reads is written over";
    }
    if (step.kind == Step::kCopy && sends(step)) {
      if (value != 0) orders_.fault = "a piece is lost";
      value = step.value;
    } else if (step.kind == Step::kCopy) {
      if (value != step.value) orders_.fault = "a wrong piece";
      value = 0;
    }
    return next;
  }

  bool has_unread(const State& state, size_t line) const {
    return std::any_of(lines_[line].begin(), lines_[line].end(), [&](const Step& step) {
      return step.kind == Step::kCopy && sends(step) && state.values[places_.at(step.at)] != 0;
    });
  }

  std::vector<Steps> lines_;
  bool reads_ = false;
  std::map<CUdeviceptr, size_t> places_;
  streams::Orders<State> orders_;
};

using Change = std::function<void(Steps&)>;

class CapturedPairsOfRanks : public drivers::cuda::OnSoftwareDevice {
 protected:
  CapturedPairsOfRanks() : fake_(driver()) {
    fake_.call.cuStreamBatchMemOp = record_words;
    fake_.call.cuMemcpyAsync = record_copy;
    fake_.call.cuLaunchKernel = record_kernel;
  }

  /// As explore(), of transfers that are all direct.
  Explorer explore_direct(
      const std::vector<Groups>& ranks, int runs, const Change& change = [](Steps&) {}) {
    auto kernels = FoldKernels::load(fake_, {});
    EXPECT_TRUE(kernels.ok()) << kernels.status().message();
    kernels_ = &kernels.value();
    Explorer explored = explore(ranks, runs, streams::kCapturedSlots, change);
    kernels_ = nullptr;
    return explored;
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
        exec::RegisteredTransfers registered;
        if (kernels_ != nullptr) {
          registered.marks.assign(group.size(), 7);
          registered.places.assign(group.size(), 4096);
        }
        const PairCall call{.registered = &registered, .kernels = kernels_};
        EXPECT_TRUE(pairs.put(call, group).ok());
        EXPECT_TRUE(pairs.finish(kBuffers, 1).ok());
      }
      change(recorded);
      Steps all;
      for (int run = 0; run < runs; ++run) all.insert(all.end(), recorded.begin(), recorded.end());
      lines.push_back(std::move(all));
    }
    return Explorer(std::move(lines), kernels_ != nullptr);
  }

  drivers::cuda::Cuda fake_;
  const FoldKernels* kernels_ = nullptr;  // null: nothing is direct
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

TEST_F(CapturedPairsOfRanks, AreNotPastWhatPeersStillReadOfThem) {
  for (const uint64_t pieces : {1, 2, 3, 5}) {
    EXPECT_EQ(explore_direct(exchange(pieces), 3).fault(), "") << pieces;
  }
  const std::vector<Groups> alone = {{{transfer(true, 1, 3)}, {transfer(false, 1, 1)}},
                                     {{transfer(false, 0, 3)}, {transfer(true, 0, 1)}}};
  EXPECT_EQ(explore_direct(alone, 2).fault(), "");
  std::vector<Groups> ring;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ring.push_back({{transfer(true, (rank + 1) % 3, 1), transfer(false, (rank + 2) % 3, 1)}});
  }
  EXPECT_EQ(explore_direct(ring, 2).fault(), "");
}

// As NCCL's do: each waits for the other to receive.
TEST_F(CapturedPairsOfRanks, StandStillIfBothSendFirstWhatIsReadWhereItLies) {
  const std::vector<Groups> ranks = {{{transfer(true, 1, 1)}, {transfer(false, 1, 1)}},
                                     {{transfer(true, 0, 1)}, {transfer(false, 0, 1)}}};
  EXPECT_EQ(explore(ranks, 1, kTwo).fault(), "");
  EXPECT_EQ(explore_direct(ranks, 1).fault(), "stands still");
}

TEST_F(CapturedPairsOfRanks, ASenderThatEndsBeforeItsReaderIsFound) {
  const Change change = [](Steps& steps) {
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      const Step &wait = steps[i], &next = steps[i + 1];
      const bool resets = next.kind == Step::kWrite && next.at == wait.at && next.value == 0;
      if (wait.kind == Step::kWait && !resets) steps.erase(steps.begin() + static_cast<long>(i--));
    }
  };
  EXPECT_EQ(explore_direct(exchange(2), 2, change).fault(), "what a peer reads is written over");
}

TEST_F(CapturedPairsOfRanks, APlaceThatIsReadBeforeTheWaitIsFound) {
  const Change change = [](Steps& steps) {
    const auto take = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
      return step.kind == Step::kCopy && step.at == kBuffers;
    });
    if (take != steps.end()) std::rotate(steps.begin(), take, take + 1);
  };
  EXPECT_NE(explore_direct(exchange(1), 2, change).fault(), "");
}

TEST_F(CapturedPairsOfRanks, APlaceThatIsToldBehindItsSignalIsFound) {
  const Change change = [](Steps& steps) {
    const auto tell = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
      return step.kind == Step::kCopy && step.from == kBuffers;
    });
    if (tell + 1 < steps.end()) std::iter_swap(tell, tell + 1);
  };
  EXPECT_NE(explore_direct(exchange(1), 2, change).fault(), "");
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
