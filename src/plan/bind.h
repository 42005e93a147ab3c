// The half of lowering that depends on the call: count, type and operation turn a Match into a
// Plan, in time proportional to the rank's own steps; across hosts moves are also compared with the
// sends before them.
//
// Every rank of a domain must bind with equal arguments: slices, frames and cells follow from them
// alone.
#pragma once

#include <cstdint>

#include "src/plan/match.h"
#include "src/plan/plan.h"
#include "src/types/types.h"

namespace tutti::plan {

/// The knobs of lowering, equal on all ranks of a communicator.
struct Tuning {
  uint32_t inline_bytes = kCellPayloadBytes;  // messages up to this travel in cells
  uint64_t frame_bytes = 512 << 10;           // what one rank stages for one slice, at most
  // Where nobody waits in a circle, the receivers copy out one slice while the sender copies in the
  // next. The last one waits for its last slice to be copied out, and each slice costs as much as
  // copying so many bytes: the whole is shortest with slices of sqrt(slice_cost * message) bytes.
  uint64_t pipeline_slice_cost_bytes = 4 << 10;
  uint64_t pipeline_bytes = 16 << 10;  // shorter are no slices
  uint64_t region_bytes = 1 << 20;     // of a staging ring; the lanes of a plan share so much
  // The data in flight in such a pipeline should stay in the caches, so its frames use so much of a
  // region (512 KiB, and what pads them).
  uint64_t pipeline_region_bytes = 516 << 10;
  // Pipelines of so many bytes fill the third level cache with what the user sends and receives.
  // Then only the second level cache has room for the data in flight: frames have so many bytes in
  // each region (more where they have blocks for many ranks), and copies to the user are made by
  // vectors or bypass the cache.
  uint64_t long_pipeline_bytes = 8 << 20;
  uint64_t long_frame_bytes = 256 << 10;
  uint64_t read_bytes = 256 << 10;  // single copy: bytes of one read
  uint64_t stream_bytes = 1 << 20;  // streams: bytes of one block's piece in a message
  // Of slices that are longer between hosts: what is kept beside the buffers. 0: there are none.
  uint64_t long_slice_bytes = 64 << 20;
  // Direct calls, and long pipelines, whose output is so long bypass the cache with their stores.
  uint64_t streaming_store_bytes = 4 << 20;
  uint64_t pipeline_streaming_store_bytes = 20 << 20;
  uint32_t cells_per_region = 64;
  bool fuse = true;  // the store-forwarding pass
  // Plans of several slices get so many lanes, which do them in turn (take_turns()), for engines
  // that do several things at once. Each has a ring, with regions of region_bytes.
  uint32_t turns = 1;
  // Of all lanes that take turns together; slices are so short that it suffices.
  uint64_t scratch_bytes = ~uint64_t{0};
  // Calls of more than so many slices have frames of up to spanning_frame_bytes, which span several
  // regions of the ring: fewer hand-overs and less to enqueue, where the first and the last slice
  // are short beside the whole. They keep at least so many slices.
  uint64_t most_short_slices = ~uint64_t{0};
  uint64_t spanning_frame_bytes = 0;
  uint64_t spanned_bytes = 0;  // of these regions, which also hold what pads the blocks
  // Every message between hosts arrives in a landing zone, since its target is memory that no
  // transport can write to. Only then may lanes with such messages take turns.
  bool lands = false;
};

struct BindRequest {
  uint64_t count = 0;  // with count vectors: vectors->longest
  types::DataType type = types::DataType::kFloat32;
  types::ReduceOp op = types::ReduceOp::kSum;
  // v-collectives: this rank's shares. The match is staged, or pulls inputs, which then begin with
  // the same shares at the same places on all ranks, or are one share each. Slices, frames and
  // cells follow from the longest share alone, so they are equal on ranks that know different
  // sizes.
  const schedule::CountVectors* vectors = nullptr;
  // In so many slices, at most, lanes between hosts move their data, where LaneMatch says that it
  // is possible. The other lanes, if there are any, do each of them in parts, which are as short as
  // Tuning says. Where every message lands (Tuning::lands), so many slices are enough for them,
  // however long their pieces are. 0: all lanes have the short slices. Equal on all ranks.
  uint64_t far_slices = 0;
  // The engine has moves by which one place of all ranks' slots is folded (shared_places.h), and
  // the call is to have them where it can. Equal on all ranks.
  bool shares_places = false;

  schedule::Layout layout(const schedule::Shape& shape) const {
    return vectors == nullptr ? schedule::Layout(shape, count) : schedule::Layout(shape, *vectors);
  }
};

/// kUnsupported where a slice of some lane stages more than a region of the ring holds; the plan's
/// algorithm is named.
Status check_fit(const Plan& plan, const Tuning& tuning);

Plan bind(const Match& match, const BindRequest& request, const Tuning& tuning);

/// Fills Match::target_terms and source_terms by running the schedules of all ranks on numbers of
/// contributions. Needed by the average only; costs what one verification of the values costs.
Status count_terms(Match& match, const schedule::Algorithm& algorithm,
                   const schedule::Parameters& parameters);

}  // namespace tutti::plan
