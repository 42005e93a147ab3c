// The description of a call in words that other ranks can read. When the calls of two ranks differ,
// the message names both calls and the field in which they differ.
//
// Ranks of a host find the description in each other's arenas, where a rank writes it when it makes
// another call than the last time, so that calls that are repeated cost nothing; ranks of other
// hosts are told by notes. Owns: nothing. Threads: a log has one writer. Errors: none; a call whose
// description was written over meanwhile is not found.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "src/base/config.h"
#include "src/schedule/schedule.h"
#include "src/types/types.h"

namespace tutti::diagnosis {

struct DescribedCall {
  static constexpr size_t kAlgorithmBytes = 24;
  static constexpr int kOffsetBits = 40;  // of `place`
  static constexpr int kCountBits = 44;

  schedule::Collective collective = schedule::Collective::kBarrier;
  types::DataType type = types::DataType::kInt8;
  types::ReduceOp op = types::ReduceOp::kSum;
  bool has_counts = false;  // a v-collective; then `count` is the longest share
  bool in_place = false;
  bool deterministic = false;
  EngineWish engine = EngineWish::kAuto;  // from the options of a call on a device's stream
  int root = 0;
  uint64_t count = 0;   // below 2^kCountBits
  uint32_t wire = 0;    // a hash of which levels encode; 0: none
  uint32_t counts = 0;  // a hash of the counts that all ranks must pass alike
  uint32_t model = 0;   // the version of the model by which the algorithm was chosen
  // The place of the buffer that peers read: the number of its registration, and below it the
  // offset there (kOffsetBits). 0: peers read staging memory.
  uint64_t place = 0;
  std::array<char, kAlgorithmBytes> algorithm{};  // its first letters; empty: not known

  bool operator==(const DescribedCall&) const = default;

  void set_algorithm(std::string_view name);
  void set_wire(std::string_view option);
  std::string_view algorithm_name() const;
};

/// The first two words hold everything but the counts, the algorithm and the place.
using DescribedWords = std::array<uint64_t, 7>;
DescribedWords words_of(const DescribedCall& call);
/// Nothing if these are no words of a call.
std::optional<DescribedCall> read_call(const DescribedWords& words);

/// "all_reduce of 7 float sum".
std::string text_of(const DescribedCall& call);
/// "rank 0: all_reduce of 7 float sum; rank 2: all_reduce of 8 float sum: count", with the names of
/// the two ranks. Nothing if the two descriptions are equal.
std::optional<std::string> compare_text(const std::string& one, const DescribedCall& its,
                                        const std::string& other, const DescribedCall& others);

/// The last calls of a rank, each with the number of the first of its repetitions.
class CallLog {
 public:
  static constexpr uint32_t kRuns = 256;
  struct alignas(64) Run {
    std::atomic<uint64_t> first;  // number << 32 | position in the log, from 1; 0: being written
    std::array<std::atomic<uint64_t>, std::tuple_size_v<DescribedWords>> words;
  };
  static_assert(sizeof(Run) == 64);

  explicit CallLog(Run* runs) : runs_(runs) {}

  /// The rank makes this call from number `number` on, until the next begin().
  void begin(uint32_t number, const DescribedCall& call);
  /// How many different calls have followed each other.
  uint32_t runs() const { return begun_; }
  /// The description of the call with this number, if it has begun and is still in the log.
  static std::optional<DescribedCall> find(const Run* runs, uint32_t number);

 private:
  Run* runs_;
  uint32_t begun_ = 0;
  DescribedCall last_;
};

}  // namespace tutti::diagnosis
