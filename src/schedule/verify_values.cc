#include "src/schedule/verify_values.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/schedule/text.h"
#include "src/schedule/verify_expression.h"

namespace tutti::schedule::verifier {
namespace {

class Evaluation {
 public:
  Evaluation(const Program& program, const Matching& matching, Verdict& verdict)
      : program_(program),
        matching_(matching),
        geometry_(program.geometry()),
        verdict_(verdict),
        expressions_(program.ranks()) {}

  Status run(std::span<const StepRef> order) {
    if (Status s = reserve_messages(); !s.ok()) return s;
    for (int rank = 0; rank < program_.ranks(); ++rank) start(rank);
    for (StepRef ref : order) {
      const bool sends = program_.step(ref).kind == StepKind::kSend;
      if (Status s = sends ? send(ref) : move(ref); !s.ok()) return s;
      if (expressions_.exhausted()) return Status::unsupported("too many expressions to verify");
    }
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      if (Status s = check_output(rank); !s.ok()) return s;
    }
    return {};
  }

 private:
  // A SEND's values are kept once, however many peers there are.
  Status reserve_messages() {
    sent_.resize(program_.total_steps());
    uint64_t atoms = 0;
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      const Schedule& schedule = program_.schedule(rank);
      for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
        if (schedule.steps[i].kind != StepKind::kSend) continue;
        sent_[program_.number({rank, i})] = atoms;
        for (Block block : schedule.blocks_of(schedule.steps[i])) {
          atoms += program_.region(rank, block).count;
        }
        if (atoms > kMaxAtoms) return Status::unsupported("too many blocks in messages to verify");
      }
    }
    in_flight_.resize(atoms);
    return {};
  }

  void start(int rank) {
    auto& memory = memory_.emplace_back(program_.memory(rank));
    if (!program_.has_input(rank)) return;
    const uint32_t begin = program_.input_begin(rank);
    for (uint32_t i = 0; i < geometry_.input_atoms(); ++i) {
      memory[begin + i] = {Expressions::leaf(rank), i};
    }
  }

  Status send(StepRef ref) {
    const Schedule& schedule = program_.schedule(ref.rank);
    const auto& memory = memory_[static_cast<size_t>(ref.rank)];
    Value* to = in_flight_.data() + sent_[program_.number(ref)];
    for (Block block : schedule.blocks_of(program_.step(ref))) {
      const Region region = program_.region(ref.rank, block);
      for (uint32_t i = 0; i < region.count; ++i) {
        const Value value = memory[region.first + i];
        if (value.expression == 0) return unwritten(ref, block);
        *to++ = value;
      }
    }
    return {};
  }

  // Where the values of one source of a MOVE are read: block by block, or one after the other.
  struct Reader {
    const Value* next = nullptr;    // a message
    std::span<const Block> blocks;  // or a local list
  };

  Status move(StepRef ref) {
    const Schedule& schedule = program_.schedule(ref.rank);
    const Step& step = program_.step(ref);
    const auto messages = matching_.of_step(program_.number(ref));
    const auto sources = schedule.sources_of(step);
    readers_.clear();
    for (size_t i = 0; i < sources.size(); ++i) {
      Reader& reader = readers_.emplace_back();
      if (sources[i].is_message()) {
        const StepRef origin = matching_.messages()[messages[i]].send;
        reader.next = in_flight_.data() + sent_[program_.number(origin)];
      } else {
        reader.blocks = schedule.blocks_of(step, sources[i]);
      }
    }
    operands_.resize(sources.size());
    const auto target = schedule.blocks_of(step);
    for (size_t i = 0; i < target.size(); ++i) {
      if (Status s = move_block(ref, target[i], i); !s.ok()) return s;
    }
    return {};
  }

  Status move_block(StepRef ref, Block target, size_t position) {
    auto& memory = memory_[static_cast<size_t>(ref.rank)];
    const Region region = program_.region(ref.rank, target);
    for (uint32_t i = 0; i < region.count; ++i) {
      uint32_t atom = 0;
      for (size_t k = 0; k < readers_.size(); ++k) {
        Value value;
        if (readers_[k].next != nullptr) {
          value = *readers_[k].next++;
        } else {
          const Block block = readers_[k].blocks[position];
          value = memory[program_.region(ref.rank, block).first + i];
          if (value.expression == 0) return unwritten(ref, block);
        }
        if (k > 0 && value.atom != atom) return mixed(ref, k, atom, value.atom);
        atom = value.atom;
        operands_[k] = value.expression;
      }
      memory[region.first + i] = {expressions_.fold(program_.step(ref).fold, operands_), atom};
      note_share(ref, target, region, i);
    }
    return {};
  }

  // What a v-collective must know: whose counts decide how long this is.
  void note_share(StepRef ref, Block target, const Region& region, uint32_t offset) {
    const Traits& traits = traits_of(program_.shape().collective);
    if (!traits.input.parts && !traits.output.parts) return;  // there are no shares
    const Value value = memory_[static_cast<size_t>(ref.rank)][region.first + offset];
    const bool scratch = target.space() == Space::kScratch;
    const Block block = scratch ? program_.schedule(ref.rank).scratch[target.index()] : target;
    const uint32_t per_count = geometry_.atoms_per_count();
    const uint32_t part = (geometry_.region(block).first + offset) / per_count;
    const bool in = block.space() == Space::kInput;
    const auto me = static_cast<uint32_t>(ref.rank);
    const uint32_t value_part = value.atom / per_count;
    const uint32_t value_rank = value.expression - 1;  // of a leaf
    // A share of the output is named by whose contribution it is, one of the input by who gets it.
    const bool source_differs = traits.output.parts && (in ? me : part) != value_rank;
    const bool part_differs = traits.input.parts && (in ? part : me) != value_part;
    const bool both = traits.input.parts && traits.output.parts;
    const bool foreign = both && value_rank != me && value_part != me;
    verdict_.forwards |= foreign;
    verdict_.needs_equal_counts |= (source_differs || part_differs) && !(foreign && scratch);
  }

  Status unwritten(StepRef ref, Block block) const {
    return program_.refuse(ref, "reads " + print(block) + ", which was never written");
  }

  Status mixed(StepRef ref, size_t source, uint32_t first, uint32_t other) const {
    const uint32_t atoms = geometry_.input_atoms();
    return program_.refuse(ref, "source " + std::to_string(source) + " holds elements " +
                                    geometry_.interval(other, atoms) +
                                    " of the input, the sources before it hold " +
                                    geometry_.interval(first, atoms));
  }

  // The required value of an output atom: all ranks' contributions or one rank's, to one input
  // atom.
  struct Required {
    bool all = false;
    int rank = 0;
    uint32_t atom = 0;
  };

  Required required(int rank, uint32_t atom) const {
    const uint32_t per_count = geometry_.atoms_per_count();
    const auto mine = static_cast<uint32_t>(rank) * per_count;
    const int part = static_cast<int>(atom / per_count);
    const Traits& traits = traits_of(program_.shape().collective);
    if (traits.reduces) return {true, 0, traits.nests(Space::kOutput) ? mine + atom : atom};
    const int source = traits.input.holder == Holder::kRoot ? program_.shape().root : part;
    return {false, source, (traits.input.parts ? mine : 0) + atom % per_count};
  }

  Status check_output(int rank) {
    if (!program_.has_output(rank)) return {};
    const auto& memory = memory_[static_cast<size_t>(rank)];
    const uint32_t begin = program_.output_begin(rank);
    for (uint32_t atom = 0; atom < geometry_.output_atoms(); ++atom) {
      const Value found = memory[begin + atom];
      const Required wanted = required(rank, atom);
      const bool right = found.atom == wanted.atom &&
                         (wanted.all ? complete(found.expression)
                                     : found.expression == Expressions::leaf(wanted.rank));
      if (!right) return wrong(rank, atom, found, wanted);
      if (wanted.all) note_order(found);
    }
    return {};
  }

  bool complete(ExpressionId id) {
    if (id >= complete_.size()) complete_.resize(size_t{id} + 1, false);
    if (!complete_[id]) complete_[id] = expressions_.complete(id);
    return complete_[id];
  }

  void note_order(Value found) {
    verdict_.canonical &= expressions_.canonical(found.expression);
    if (agreed_.empty()) agreed_.resize(geometry_.input_atoms(), 0);
    ExpressionId& agreed = agreed_[found.atom];
    verdict_.agrees &= agreed == 0 || agreed == found.expression;
    agreed = found.expression;
  }

  Status wrong(int rank, uint32_t atom, Value found, Required wanted) const {
    const uint32_t in = geometry_.input_atoms();
    const uint32_t out = geometry_.output_atoms();
    const std::string needed = !wanted.all ? "rank " + std::to_string(wanted.rank)
                               : program_.ranks() > 1
                                   ? "ranks 0-" + std::to_string(program_.ranks() - 1)
                                   : "rank 0";
    std::string text = "rank " + std::to_string(rank) + ", elements " +
                       geometry_.interval(atom, out) + " of the output: expected " + needed +
                       " of input " + geometry_.interval(wanted.atom, in) + ", found " +
                       expressions_.describe(found.expression);
    if (found.expression != 0) text += " of input " + geometry_.interval(found.atom, in);
    return Status::invalid_argument(text);
  }

  const Program& program_;
  const Matching& matching_;
  const Geometry& geometry_;
  Verdict& verdict_;
  Expressions expressions_;
  std::vector<std::vector<Value>> memory_;  // per rank
  std::vector<uint64_t> sent_;              // per step: where in in_flight_ its values begin
  std::vector<Value> in_flight_;
  std::vector<Reader> readers_;
  std::vector<ExpressionId> operands_;
  std::vector<bool> complete_;        // per expression
  std::vector<ExpressionId> agreed_;  // per input atom: what some rank received
};

}  // namespace

Status check_values(const Program& program, const Matching& matching,
                    std::span<const StepRef> order, Verdict& verdict) {
  return Evaluation(program, matching, verdict).run(order);
}

Status check_barrier(const Program& program, const Matching& matching,
                     std::span<const StepRef> order) {
  // Per lane and per SEND: the set of ranks that have certainly entered.
  const auto ranks = static_cast<size_t>(program.ranks());
  const size_t lanes = program.shape().lanes;
  const size_t size = (ranks + 63) / 64;
  if ((ranks * lanes + program.total_steps()) * size > kMaxAtoms) {
    return Status::unsupported("too many ranks and steps to verify");
  }
  std::vector<uint64_t> entered(ranks * lanes * size, 0);
  std::vector<uint64_t> after(size_t{program.total_steps()} * size, 0);
  const auto merge = [&](uint64_t* into, const uint64_t* from) {
    for (size_t i = 0; i < size; ++i) into[i] |= from[i];
  };
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      entered[(rank * lanes + lane) * size + rank / 64] |= 1ull << rank % 64;
    }
  }
  for (StepRef ref : order) {
    const Schedule& schedule = program.schedule(ref.rank);
    const Step& step = program.step(ref);
    uint64_t* mine = &entered[(static_cast<size_t>(ref.rank) * lanes + step.lane) * size];
    for (uint32_t earlier : schedule.afters_of(step)) {
      merge(mine, &after[program.number({ref.rank, earlier}) * size]);
    }
    if (step.kind == StepKind::kMove) {
      for (uint32_t message : matching.of_step(program.number(ref))) {
        if (message == kNoMessage) continue;
        merge(mine, &after[program.number(matching.messages()[message].send) * size]);
      }
    }
    merge(&after[program.number(ref) * size], mine);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    uint64_t* whole = &entered[rank * lanes * size];
    for (size_t lane = 1; lane < lanes; ++lane) merge(whole, whole + lane * size);
    for (size_t other = 0; other < ranks; ++other) {
      if ((whole[other / 64] >> other % 64 & 1) != 0) continue;
      return Status::invalid_argument("rank " + std::to_string(rank) +
                                      " can leave the barrier before rank " +
                                      std::to_string(other) + " has entered it");
    }
  }
  return {};
}

}  // namespace tutti::schedule::verifier
