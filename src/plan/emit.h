// Writes the micro-operations of one plan: the translation of steps, before any pass.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/plan/bind.h"
#include "src/plan/encoded_places.h"
#include "src/plan/touch.h"

namespace tutti::plan {

/// Sizes every rank computes alike from (match, count, type, tuning).
struct SliceGeometry {
  uint64_t element_bytes = 1;
  uint64_t quantum = 1;
  uint64_t slices = 1;
  uint32_t parts = 1;         // of a slice, in lanes that are not LaneMatch::far
  uint64_t piece = 0;         // elements of one block's longest piece in a slice
  uint64_t stride = 64;       // bytes of one block's piece in slots, scratch and landing zones
  uint64_t part_stride = 64;  // of a part's
  bool in_cells = false;      // every near message is INLINE
  bool tiny = false;          // and at most one, a tiny one, of each rank; they flow one way
  uint64_t region_bytes = 0;  // LanePlan::region_bytes, if a frame is not longer
  bool is_long_pipeline = false;
  bool lands = false;  // Tuning::lands
};

SliceGeometry measure(const Match& match, const BindRequest& request, const Tuning& tuning);

class Emitter {
 public:
  Emitter(const Match& match, const BindRequest& request, const SliceGeometry& geometry);

  Plan run();

 private:
  using Ops = std::vector<Op>;
  /// Bytes of the memory that a register names.
  struct TouchedBytes {
    uint32_t base;
    uint64_t begin, end;
    auto operator<=>(const TouchedBytes&) const = default;
  };

  void open_lane(uint16_t lane);
  void post_receives(uint16_t lane);
  void post_receive(uint32_t index, uint32_t source);
  bool dead_before(uint32_t index);
  uint32_t add_lengths(std::span<const uint64_t> lengths);
  void emit_step(uint32_t index);
  void emit_afters(const schedule::Step& step);
  void emit_send(uint32_t index);
  void emit_publication(const schedule::Step& step, const MatchedStep& matched);
  void emit_cell(const schedule::Step& step, const NearMessage& message);
  void emit_far(uint32_t index);
  Operand far_operand(const schedule::Step& step, schedule::Block block, bool encodes);
  void emit_move(uint32_t index);
  void emit_fold(uint32_t index, uint32_t i, uint64_t landing);
  void emit_rounding_fold(uint32_t index, uint32_t i, std::vector<Operand> operands);
  void emit_fold(uint32_t index, uint32_t i, std::span<const Operand> operands);
  bool lands_by_itself(uint32_t index) const;
  bool encodes(int peer) const;
  uint8_t encoding_of_source(uint32_t index, uint32_t i, uint32_t source) const;
  Operand encoded(const schedule::Step& step, schedule::Block block);
  void note_landing(uint32_t index);
  Operand readable(const schedule::Step& step, schedule::Block block);
  Operand rounded(const schedule::Step& step, schedule::Block block);
  void await(const schedule::Step& step, const NearMessage& message);
  void await_entry(int peer);
  std::vector<TouchedBytes> places_of(std::span<const schedule::Block> blocks) const;
  static bool overlap(const std::vector<TouchedBytes>& a, const std::vector<TouchedBytes>& b);
  void protect(const schedule::Step& step, std::span<const schedule::Block> blocks);
  void close_lanes();
  void join();
  // Level calls: emit_level.cc.
  void emit_levels(uint32_t before);
  void emit_level(const MatchedLevel& level);
  LevelRow level_row(const MatchedRow& row);
  bool lie_in_order(const LevelCall& call) const;

  void emit(uint16_t lane, Op op, std::span<const Operand> operands = {});
  void emit_copy(const schedule::Step& step, std::span<const Operand> operands, uint64_t length);
  Operand local(schedule::Block block) const;
  Operand remote(int peer, schedule::Block block) const;
  Operand arrived(const NearMessage& message, uint16_t lane, uint32_t i,
                  uint64_t cell_offset) const;
  Shift user_shift() const {
    return geometry_.slices * geometry_.parts > 1 ? Shift::kPiece : Shift::kNone;
  }
  uint32_t parts_of(uint16_t lane) const { return plan_.lanes[lane].parts; }
  /// Of slots and landing zones of a lane.
  uint64_t stride_of(uint16_t lane) const {
    return parts_of(lane) == 1 ? geometry_.stride : geometry_.part_stride;
  }
  uint64_t length_of(schedule::Block block) const;
  uint64_t message_bytes(std::span<const schedule::Block> blocks) const;

  const Match& match_;
  const BindRequest& request_;
  const SliceGeometry geometry_;
  schedule::Layout layout_;
  std::vector<Ops> lanes_;          // ops by lane, joined at the end
  std::vector<uint32_t> step_end_;  // ops of its lane up to and including the step
  // Of the ranks of the host, by place: values already waited for in this slice, by lane; those
  // whose entry the prologue awaits.
  std::vector<std::vector<uint32_t>> known_;
  std::vector<bool> entered_;
  // Streams: what was posted at the beginning of each lane's slice, in the order of the sources.
  struct Posted {
    uint32_t ordinal;
    bool landed;  // into the landing zone, or encoded, else straight into the target
    uint64_t landing;
    std::vector<Operand> encoded;  // by block, where the message is encoded
  };
  std::vector<Posted> posted_;
  std::vector<uint32_t> posted_begin_;  // [step]
  struct Unsent {
    uint16_t lane;
    uint32_t ordinal;
    std::vector<TouchedBytes> places;  // that are read
  };
  std::vector<Unsent> unsent_;  // sends by stream whose source must not be written yet
  uint64_t landing_bytes_ = 0;
  EncodedPlaces encoded_;
  std::map<std::pair<uint32_t, uint16_t>, Operand> rounded_;  // by block and lane, of inputs
  std::unique_ptr<Touches> touches_;
  uint32_t step_ = 0;  // that is being translated
  Plan plan_;
};

}  // namespace tutti::plan
