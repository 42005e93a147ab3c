#include "src/schedule/verify_check.h"

#include <algorithm>

#include "src/schedule/text.h"

namespace tutti::schedule::verifier {
namespace {

constexpr uint64_t kMaxWork = 1ull << 31;  // atoms touched by all steps

bool is_user_block(const Shape& shape, Block block) {
  if (block.space() == Space::kInput) return block.index() < shape.input.blocks;
  return block.space() == Space::kOutput && block.index() < shape.output.blocks;
}

}  // namespace

Status check_shape(const Shape& shape) {
  if (static_cast<int>(shape.collective) >= kCollectives) {
    return Status::invalid_argument("no such collective");
  }
  if (shape.ranks < 1 || shape.ranks > kMaxRanks) {
    return Status::invalid_argument("the number of ranks must be 1 to " +
                                    std::to_string(kMaxRanks));
  }
  if (shape.root < 0 || shape.root >= shape.ranks) {
    return Status::invalid_argument("the root is not a rank");
  }
  if (shape.lanes < 1 || shape.lanes > kMaxLanes) {
    return Status::invalid_argument("the number of lanes must be 1 to " +
                                    std::to_string(kMaxLanes));
  }
  return {};
}

Status check_header(const Shape& shape, const Schedule& schedule, int rank) {
  const std::string who = "rank " + std::to_string(rank) + ": ";
  if (schedule.rank != rank) {
    return Status::invalid_argument(who + "its schedule is that of rank " +
                                    std::to_string(schedule.rank));
  }
  if (schedule.lanes < 1 || schedule.lanes > shape.lanes) {
    return Status::invalid_argument(who + "uses " + std::to_string(schedule.lanes) +
                                    " lanes, the shape has " + std::to_string(shape.lanes));
  }
  if (schedule.words.size() >= Source::kMessageBit) {
    return Status::unsupported(who + "too many words");
  }
  for (Block like : schedule.scratch) {
    if (!is_user_block(shape, like)) {
      return Status::invalid_argument(who + "a scratch block has the size of " + print(like) +
                                      ", which is no input or output block");
    }
  }
  return {};
}

Status StepChecker::check(StepRef ref) {
  if (Status s = check_offsets(ref); !s.ok()) return s;
  if (Status s = check_afters(ref); !s.ok()) return s;
  const bool sends = program_.step(ref).kind == StepKind::kSend;
  return sends ? check_send(ref) : check_move(ref);
}

Status StepChecker::spend(StepRef ref, uint64_t work) {
  work_ += work;
  if (work_ <= kMaxWork) return {};
  return Status::unsupported(program_.where(ref) + ": too much to verify up to here");
}

Status StepChecker::check_offsets(StepRef ref) {
  const Schedule& schedule = program_.schedule(ref.rank);
  const Step& step = program_.step(ref);
  if (step.kind != StepKind::kSend && step.kind != StepKind::kMove) {
    return program_.refuse(ref, "unknown kind of step");
  }
  if (step.fold != Fold::kList && step.fold != Fold::kTree) {
    return program_.refuse(ref, "unknown fold");
  }
  if (step.lane >= schedule.lanes) {
    return program_.refuse(
        ref, "lane " + std::to_string(step.lane) + " of " + std::to_string(schedule.lanes));
  }
  const auto inside = [&](uint32_t offset, uint32_t count) {
    return uint64_t{offset} + count <= schedule.words.size();
  };
  bool ok = inside(step.blocks, step.block_count) && inside(step.operands, step.operand_count) &&
            inside(step.afters, step.after_count);
  if (ok && step.kind == StepKind::kMove) {
    for (Source source : schedule.sources_of(step)) {
      ok = ok && (source.is_message() || inside(source.blocks(), step.block_count));
    }
  }
  if (!ok) return program_.refuse(ref, "its offsets lie outside the schedule");
  return spend(ref, (uint64_t{step.operand_count} + 1) * (uint64_t{step.block_count} + 1));
}

Status StepChecker::check_afters(StepRef ref) const {
  const Schedule& schedule = program_.schedule(ref.rank);
  for (uint32_t earlier : schedule.afters_of(program_.step(ref))) {
    if (earlier >= ref.step) {
      return program_.refuse(
          ref, "comes after step " + std::to_string(earlier) + ", which is not an earlier step");
    }
    if (schedule.steps[earlier].lane == program_.step(ref).lane) {
      return program_.refuse(ref, "comes after step " + std::to_string(earlier) +
                                      " of its own lane, as every later step does");
    }
  }
  return {};
}

Status StepChecker::check_blocks(StepRef ref, std::span<const Block> blocks, bool written) {
  const RankMemory memory = program_.memory(ref.rank);
  const size_t scratch = program_.schedule(ref.rank).scratch.size();
  const bool has_output = program_.has_output(ref.rank);
  uint64_t work = 0;
  for (Block block : blocks) {
    const Space space = block.space();
    const bool exists =
        space == Space::kScratch ? block.index() < scratch : is_user_block(program_.shape(), block);
    if (!exists) return program_.refuse(ref, "there is no " + print(block));
    const AtomRange region = memory.region(block);
    work += region.count;
    if (space == Space::kInput) {
      if (Status s = check_input(ref, block, region, written); !s.ok()) return s;
    } else if (space == Space::kOutput && !has_output) {
      return program_.refuse(ref, print(block) + ": only the root has output");
    }
  }
  return spend(ref, work);
}

Status StepChecker::check_input(StepRef ref, Block block, const AtomRange& region,
                                bool written) const {
  if (!program_.has_input(ref.rank)) {
    return program_.refuse(ref, print(block) + ": only the root has input");
  }
  if (written && !program_.aliases_output(ref.rank, region)) {
    return program_.refuse(ref, "writes " + print(block) + ", which belongs to the caller");
  }
  return {};
}

Status StepChecker::check_send(StepRef ref) {
  const Schedule& schedule = program_.schedule(ref.rank);
  const Step& step = program_.step(ref);
  if (step.operand_count == 0) return program_.refuse(ref, "sends to nobody");
  ++epoch_;
  marks_.resize(std::max(marks_.size(), static_cast<size_t>(program_.ranks())));
  for (uint32_t peer : schedule.peers_of(step)) {
    if (peer >= static_cast<uint32_t>(program_.ranks())) {
      return program_.refuse(ref, "there is no rank " + std::to_string(peer));
    }
    if (peer == static_cast<uint32_t>(ref.rank)) return program_.refuse(ref, "sends to itself");
    if (marks_[peer] == epoch_) {
      return program_.refuse(ref, "sends twice to rank " + std::to_string(peer));
    }
    marks_[peer] = epoch_;
  }
  return check_blocks(ref, schedule.blocks_of(step), false);
}

Status StepChecker::check_move(StepRef ref) {
  const Schedule& schedule = program_.schedule(ref.rank);
  const Step& step = program_.step(ref);
  const auto target = schedule.blocks_of(step);
  if (step.operand_count == 0) return program_.refuse(ref, "has no source");
  if (step.operand_count > 1 && !target.empty() && !reduces(program_.shape().collective)) {
    return program_.refuse(ref, "combines sources, but the collective has no operation");
  }
  if (Status s = check_blocks(ref, target, true); !s.ok()) return s;
  const RankMemory memory = program_.memory(ref.rank);
  for (Source source : schedule.sources_of(step)) {
    if (source.is_message()) {
      if (source.peer() >= program_.ranks()) {
        return program_.refuse(ref, "there is no rank " + std::to_string(source.peer()));
      }
      if (source.peer() == ref.rank) return program_.refuse(ref, "receives from itself");
      continue;
    }
    const auto blocks = schedule.blocks_of(step, source);
    if (Status s = check_blocks(ref, blocks, false); !s.ok()) return s;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (memory.region(blocks[i]).pairs(memory.region(target[i]))) continue;
      return program_.refuse(ref,
                             print(target[i]) + " and " + print(blocks[i]) + " differ in size");
    }
  }
  return check_overlap(ref);
}

// Executors take the blocks of a list in any order and each in pieces. So a target may be a source
// of the same position, and must not touch anything else in the step.
Status StepChecker::check_overlap(StepRef ref) {
  const Schedule& schedule = program_.schedule(ref.rank);
  const Step& step = program_.step(ref);
  // One block of separate buffers is another block or the same.
  if (step.block_count <= 1 && program_.placement() == Placement::kSeparate) return {};
  const auto target = schedule.blocks_of(step);
  const size_t size = std::max<size_t>(program_.atoms(ref.rank), marks_.size());
  marks_.resize(size);
  positions_.resize(size);
  const RankMemory memory = program_.memory(ref.rank);
  ++epoch_;
  for (uint32_t i = 0; i < target.size(); ++i) {
    const AtomRange region = memory.region(target[i]);
    for (uint32_t atom = region.first; atom < region.first + region.count; ++atom) {
      if (marks_[atom] == epoch_) {
        return program_.refuse(ref, "writes twice to " + print(target[i]));
      }
      marks_[atom] = epoch_;
      positions_[atom] = i;
    }
  }
  for (Source source : schedule.sources_of(step)) {
    if (source.is_message()) continue;
    const auto blocks = schedule.blocks_of(step, source);
    for (uint32_t i = 0; i < blocks.size(); ++i) {
      const AtomRange region = memory.region(blocks[i]);
      const bool same = region == memory.region(target[i]);
      for (uint32_t atom = region.first; atom < region.first + region.count; ++atom) {
        if (marks_[atom] != epoch_ || (same && positions_[atom] == i)) continue;
        return program_.refuse(ref, "reads " + print(blocks[i]) + ", which it also writes as " +
                                        print(target[positions_[atom]]));
      }
    }
  }
  return {};
}

}  // namespace tutti::schedule::verifier
