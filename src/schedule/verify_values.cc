#include "src/schedule/verify_values.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/schedule/text.h"
#include "src/schedule/verify_expression.h"

namespace tutti::schedule::verifier {
namespace {

// The values of each SEND, once however many peers there are, until the last of them has them.
// Memory is used again: all of a call's messages together are many times what is under way.
class MessageValues {
 public:
  explicit MessageValues(uint32_t steps) : sent_(steps) {}

  /// False if too much is under way.
  bool open(uint32_t step, uint32_t atoms, uint32_t peers) {
    SentValues& sent = sent_[step];
    sent = {values_.size(), atoms, peers};
    std::vector<uint64_t>& free = free_[atoms];
    if (!free.empty()) {
      sent.first = free.back();
      free.pop_back();
      return true;
    }
    if (values_.size() + atoms > kMaxAtoms) return false;
    values_.resize(values_.size() + atoms);
    return true;
  }

  /// Until the next open().
  AtomValue* of(uint32_t step) { return values_.data() + sent_[step].first; }

  /// One peer has consumed them.
  void consume(uint32_t step) {
    SentValues& sent = sent_[step];
    if (--sent.peers == 0) free_[sent.atoms].push_back(sent.first);
  }

 private:
  struct SentValues {
    uint64_t first = 0;
    uint32_t atoms = 0;
    uint32_t peers = 0;  // that have not consumed them
  };

  std::vector<SentValues> sent_;  // per step of all ranks
  std::vector<AtomValue> values_;
  std::unordered_map<uint32_t, std::vector<uint64_t>> free_;  // by length
};

class Evaluation {
 public:
  Evaluation(const Program& program, const Matching& matching, Verdict& verdict)
      : program_(program),
        matching_(matching),
        geometry_(program.geometry()),
        verdict_(verdict),
        expressions_(program.ranks()),
        traits_(traits_of(program.shape().collective)),
        messages_(program.total_steps()) {}

  Status run(std::span<const StepRef> order) {
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
  void start(int rank) {
    auto& atoms = atoms_.emplace_back(program_.atoms(rank));
    if (!program_.has_input(rank)) return;
    const uint32_t begin = program_.input_begin(rank);
    for (uint32_t i = 0; i < geometry_.input_atoms(); ++i) {
      atoms[begin + i] = {Expressions::leaf(rank), i};
    }
  }

  Status send(StepRef ref) {
    const Schedule& schedule = program_.schedule(ref.rank);
    const RankMemory memory = program_.memory(ref.rank);
    const auto& atoms = atoms_[static_cast<size_t>(ref.rank)];
    const Step& step = program_.step(ref);
    const auto blocks = schedule.blocks_of(step);
    uint64_t length = 0;
    for (Block block : blocks) length += memory.region(block).count;
    const uint32_t number = program_.number(ref);
    if (length > kMaxAtoms ||
        !messages_.open(number, static_cast<uint32_t>(length), step.operand_count)) {
      return Status::unsupported("too many blocks in messages to verify");
    }
    AtomValue* to = messages_.of(number);
    for (Block block : blocks) {
      const AtomRange region = memory.region(block);
      for (uint32_t i = 0; i < region.count; ++i) {
        const AtomValue value = atoms[region.first + i];
        if (value.expression == 0) return unwritten(ref, block);
        *to++ = value;
      }
    }
    return {};
  }

  // Where the values of one source of a MOVE are read.
  struct SourceReader {
    const AtomValue* next = nullptr;  // those of a message follow each other
    std::span<const Block> blocks;    // of a local list, which is read block by block
  };

  Status move(StepRef ref) {
    const Schedule& schedule = program_.schedule(ref.rank);
    const Step& step = program_.step(ref);
    const RankMemory memory = program_.memory(ref.rank);
    const auto messages = matching_.of_step(program_.number(ref));
    const auto sources = schedule.sources_of(step);
    readers_.clear();
    for (size_t i = 0; i < sources.size(); ++i) {
      SourceReader& reader = readers_.emplace_back();
      if (sources[i].is_message()) {
        reader.next = messages_.of(origin_of(messages[i]));
      } else {
        reader.blocks = schedule.blocks_of(step, sources[i]);
      }
    }
    operands_.resize(sources.size());
    const auto target = schedule.blocks_of(step);
    const AtomValue* const atoms = atoms_[static_cast<size_t>(ref.rank)].data();
    for (size_t i = 0; i < target.size(); ++i) {
      for (SourceReader& reader : readers_) {
        if (reader.blocks.empty()) continue;
        reader.next = atoms + memory.region(reader.blocks[i]).first;
      }
      const AtomRange region = memory.region(target[i]);
      if (Status s = move_block(ref, region, i); !s.ok()) return s;
      if (traits_.input.parts || traits_.output.parts) note_shares(ref, target[i], region);
    }
    for (uint32_t message : messages) {
      if (message != kNoMessage) messages_.consume(origin_of(message));
    }
    return {};
  }

  uint32_t origin_of(uint32_t message) const {
    return program_.number(matching_.messages()[message].send);
  }

  Status move_block(StepRef ref, const AtomRange& region, size_t position) {
    AtomValue* const to = atoms_[static_cast<size_t>(ref.rank)].data() + region.first;
    for (uint32_t i = 0; i < region.count; ++i) {
      uint32_t atom = 0;
      for (size_t k = 0; k < readers_.size(); ++k) {
        const AtomValue value = *readers_[k].next++;
        if (value.expression == 0) return unwritten(ref, readers_[k].blocks[position]);
        if (k > 0 && value.atom != atom) return mixed(ref, k, atom, value.atom);
        atom = value.atom;
        operands_[k] = value.expression;
      }
      to[i] = {expressions_.fold(program_.step(ref).fold, operands_), atom};
    }
    return {};
  }

  // Notes, for v-collectives, whose counts decide how long this block is.
  void note_shares(StepRef ref, Block target, const AtomRange& region) {
    const bool scratch = target.space() == Space::kScratch;
    const Block block = scratch ? program_.schedule(ref.rank).scratch[target.index()] : target;
    const bool in = block.space() == Space::kInput;
    const auto me = static_cast<uint32_t>(ref.rank);
    const uint32_t first = geometry_.region(block).first;
    const AtomValue* const values = atoms_[static_cast<size_t>(ref.rank)].data() + region.first;
    for (uint32_t i = 0; i < region.count; ++i) {
      const uint32_t part = part_of(first + i);
      const uint32_t value_part = part_of(values[i].atom);
      const uint32_t value_rank = values[i].expression - 1;  // of a leaf
      // A share of the output is named by whose contribution it is, one of the input by who gets
      // it.
      const bool source_differs = traits_.output.parts && (in ? me : part) != value_rank;
      const bool part_differs = traits_.input.parts && (in ? part : me) != value_part;
      const bool both = traits_.input.parts && traits_.output.parts;
      const bool foreign = both && value_rank != me && value_part != me;
      verdict_.forwards |= foreign;
      verdict_.needs_equal_counts |= (source_differs || part_differs) && !(foreign && scratch);
    }
  }

  // Of every value; most shapes have one atom for a count, and there is nothing to divide.
  uint32_t part_of(uint32_t atom) const {
    const uint32_t per_count = geometry_.atoms_per_count();
    return per_count == 1 ? atom : atom / per_count;
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
    const uint32_t part = part_of(atom);
    if (traits_.reduces) return {true, 0, traits_.nests(Space::kOutput) ? mine + atom : atom};
    const bool roots = traits_.input.holder == Holder::kRoot;
    const int source = roots ? program_.shape().root : static_cast<int>(part);
    return {false, source, (traits_.input.parts ? mine : 0) + (atom - part * per_count)};
  }

  Status check_output(int rank) {
    if (!program_.has_output(rank)) return {};
    const auto& atoms = atoms_[static_cast<size_t>(rank)];
    const uint32_t begin = program_.output_begin(rank);
    for (uint32_t atom = 0; atom < geometry_.output_atoms(); ++atom) {
      const AtomValue found = atoms[begin + atom];
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

  void note_order(AtomValue found) {
    verdict_.canonical &= expressions_.canonical(found.expression);
    if (agreed_.empty()) agreed_.resize(geometry_.input_atoms(), 0);
    ExpressionId& agreed = agreed_[found.atom];
    verdict_.agrees &= agreed == 0 || agreed == found.expression;
    agreed = found.expression;
  }

  Status wrong(int rank, uint32_t atom, AtomValue found, Required wanted) const {
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
  const Traits& traits_;
  std::vector<std::vector<AtomValue>> atoms_;  // per rank
  MessageValues messages_;
  std::vector<SourceReader> readers_;
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
