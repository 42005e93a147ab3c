// The half of lowering that no count changes: which SEND meets which MOVE, by which mechanism,
// announced by which signal. Done once for (schedule, group, mode) and shared by all counts, types
// and operations.
//
// Every rank of a domain computes the same numbers from the same schedules, so nothing is
// negotiated.
//
// Errors: a schedule that does not match itself (the verifier would refuse it) is kInternalError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/group/view.h"
#include "src/plan/plan.h"
#include "src/plan/rounding.h"
#include "src/schedule/algorithm.h"

namespace tutti::plan {

enum class Mode : uint8_t {
  kStaged,  // ordinary buffers: INLINE and SLOT
  kDirect,  // every buffer of the domain is addressable: PULL and PUSH where no hazard forbids it
  kSingleCopy,  // ordinary buffers read with one copy by the operating system: kRead
  // For streams of devices, which write their own rank's memory only, and where every rank knows
  // beforehand where the buffers of all lie: PULL where no hazard forbids it, of inputs, or of
  // both. Nobody enters, since the counters say when a buffer may be read.
  kPullInputs,
  kPull,
};
const char* name_of(Mode mode);
/// Whether ranks tell each other at entry where their buffers are, and may read some from then on.
constexpr bool enters(Mode mode) { return mode == Mode::kDirect || mode == Mode::kSingleCopy; }

/// A message to ranks of my domain, or what my rank needs to know of one sent to it.
struct NearMessage {
  Mechanism mechanism = Mechanism::kSlot;
  int source = 0;
  uint32_t slot = 0;    // blocks of the source's frame before this message
  uint32_t cell = 0;    // the source's cells before this message
  uint32_t value = 0;   // of the source's lane counter: the message can be read. 0: from entry on
  uint32_t blocks = 0;  // the source's block list in Match::block_words (PULL reads there)
};

/// The target of a PUSH: the block list `blocks` of `peer`.
struct PushTarget {
  int peer = 0;
  uint32_t blocks = 0;
};

/// A step of this rank's schedule with the facts about the other ranks that lowering needs.
struct MatchedStep {
  // SEND
  bool near = false;    // someone of my domain receives it: `message` holds
  bool signal = false;  // the last SEND of a run: raise the counter to `message.value`
  NearMessage message;
  uint32_t pushes = 0, push_count = 0;  // into Match::push_targets
  uint32_t far = 0, far_count = 0;      // peers by stream, into Match::far_peers
  // MOVE
  uint32_t arrivals =
      0;  // into Match::arrivals, one for each message source from my domain, in order
  bool by_level = false;  // MOVE: a level call does it
};

/// A row of a level call, in blocks (plan::LevelRow), or a copy within this rank behind it.
struct MatchedRow {
  LevelRowKind kind = LevelRowKind::kFold;
  bool is_local = false;
  int root = 0, peer = 0;
  std::optional<schedule::Block> source{}, target{};
};

/// One call of all ranks of a host, in the place of the steps between two of a rank's messages to
/// or from other hosts.
struct MatchedLevel {
  uint32_t before = 0;           // the step before which it stands; all steps: behind the last one
  std::vector<MatchedRow> rows;  // by root, by its order of blocks; local ones last
  LevelWhole whole = LevelWhole::kNone;  // if the blocks lie one behind the other, too
};

struct LaneMatch {
  uint32_t advance = 1;   // 1 + the most signals of any rank of the domain
  uint32_t blocks = 0;    // the most slot blocks of any rank
  uint32_t messages = 0;  // the most near messages of any rank
  // Of no rank of the communicator any message is near, and a slice of the other lanes may be done
  // in parts: what comes `after` a step of another lane is in a lane behind it.
  bool far = false;
};

/// A rank that reads my buffers, and the value of its counter that says it is done.
struct Reader {
  int peer = 0;
  uint16_t lane = 0;
  uint32_t value = 0;
};

struct Match {
  schedule::Shape shape;
  schedule::Schedule schedule;  // my rank's
  group::GroupPointer group;
  Mode mode = Mode::kStaged;
  bool in_place = false;
  // The mechanisms follow from whether buffers are in place: then every rank must say the same.
  bool placement_matters = false;
  std::vector<MatchedStep> steps;
  std::vector<NearMessage> arrivals;
  std::vector<PushTarget> push_targets;
  std::vector<int> far_peers;
  std::vector<uint32_t> block_words;
  std::vector<LaneMatch> lanes;
  std::vector<Reader> readers;
  schedule::Fraction published;  // by the busiest rank of the communicator, in counts
  schedule::Fraction scratch;    // declared as what is published is, of scratch memory
  bool far = false;              // the communicator has other domains
  // No rank of the domain waits, through others, for itself: many short slices overlap for free.
  bool flows_one_way = false;
  uint32_t message_blocks = 0;  // of the longest near message of any rank
  // How many contributions each value holds, from `begin` of a MOVE of mine: for every block the
  // number in the target, and for every block its sources, in order. Counted for averages only.
  bool terms_are_counted = false;
  std::vector<uint32_t> target_terms;
  std::vector<uint32_t> target_terms_begin;
  std::vector<uint32_t> source_terms;
  std::vector<uint32_t> source_terms_begin;

  std::vector<MatchedLevel> levels;  // MatchRequest::level_calls

  // Where levels encode: which do, and what that does to values. The mode is then kStaged, since
  // peers would read what is not rounded yet.
  LevelEncodings wire;
  Rounding rounding;

  schedule::Block block(uint32_t list, uint32_t i) const { return {block_words[list + i]}; }
};

struct MatchRequest {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Parameters parameters;
  int rank = 0;
  group::GroupPointer group;
  Mode mode = Mode::kStaged;
  bool in_place = false;  // this rank's buffers
  // Whether the hazard pass assumes that every rank may be in place. Equal on all ranks; without
  // effect for rooted collectives, for which the pass looks at both placements.
  bool hazards_in_place = false;
  // Every value gets a scratch block of its own (schedule/single_assignment.h).
  bool single_assignment = false;
  LevelEncodings wire = {};  // the encodings of messages; equal on all ranks
  // No rank talks to one near it but in level calls (level_calls.h). kUnsupported: the schedule's
  // steps within a host are none.
  bool level_calls = false;
};

Result<Match> match(const MatchRequest& request);

class Traffic;
struct RankLevels;

/// The things that the matches of all ranks of a host have in common, worked out once: for those
/// who ask for several, as simulations do. Threads: one at a time.
class HostMatch {
 public:
  /// Of the host of request.rank.
  static Result<std::unique_ptr<HostMatch>> make(const MatchRequest& request);
  ~HostMatch();
  /// As match() gives it for that rank, which is of the host.
  Result<Match> of(int rank) const;

 private:
  explicit HostMatch(const MatchRequest& request);
  Status match_traffic();

  const MatchRequest request_;
  const schedule::Shape shape_;
  Mode mode_ = Mode::kStaged;
  bool placement_matters_ = false;
  std::unique_ptr<Traffic> traffic_;
  std::vector<RankLevels> levels_;  // by place; empty: no level calls
};

}  // namespace tutti::plan
