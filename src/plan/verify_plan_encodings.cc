// Encodings: what is encoded and decoded when, and whether all ranks round alike.
#include <algorithm>

#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {

uint64_t Machine::widening_of(const Plan& plan) {
  uint64_t most = 1;
  for (const codecs::Codec& codec : plan.codecs) {
    const uint64_t block = block_of(codec);
    most = std::max(most, block * plan.element_bytes / bytes_of(codec, block) + 1);
  }
  return most;
}

// The bytes of a value must not reach into the place of another one: of that the symbolic memory,
// where all places are wider, says nothing.
std::optional<Machine::Place> Machine::place_encoded(const Context& at, const Operand& operand,
                                                     uint64_t length) {
  const Plan& plan = plan_of(at.rank);
  const uint32_t lane = at.at->lane;
  const uint64_t slice = at.at->slice, whole = slice / plan.lanes[lane].parts;
  const schedule::Extent piece = piece_of(plan, lane, slice, length);
  const uint64_t part =
      piece.offset - schedule::piece(length, whole, plan.slices, plan.quantum).offset;
  std::vector<uint64_t>& places = encoded_places_[&plan];
  if (places.empty()) {
    for (const Operand& one : plan.operands) {
      if (one.encoding != 0) places.push_back(one.offset);
    }
    places.push_back(plan.encoded_bytes);
    std::sort(places.begin(), places.end());
  }
  const auto next = std::upper_bound(places.begin(), places.end(), operand.offset);
  const uint64_t end = operand.offset + bytes_of(plan, operand.encoding, part + piece.length);
  const bool is_cut = part % block_of(plan.codecs[operand.encoding - 1]) != 0 && piece.length > 0;
  if (next == places.end() || end > *next || is_cut) {
    refuse_at(at, is_cut ? "cuts a block of a codec" : "names encoded memory it does not have");
    return {};
  }
  const uint64_t copy = whole % plan.slices_in_flight * plan.encoded_bytes;
  const uint64_t begin = (operand.offset + copy) * widening_of(plan) + part * plan.element_bytes;
  return Place{memory_of(at.rank, kEncodeds), {begin, begin + piece.length * plan.element_bytes}};
}

// Decodes what a move reads. False: the bytes are something else than the move takes them for.
bool Machine::take(const Context& at, const Operand& source, std::vector<Part>& parts) {
  const bool is_elsewhere =
      source.base >= register_of(Base::kFixed) && rank_of(source.base) != at.rank;
  for (Part& part : parts) {
    if (part.value == kUndefined) continue;
    const uint8_t code = values_.code_of(part.value);
    if (code != source.encoding) {
      refuse_at(at, "reads " + values_.describe(part.value, part.begin) +
                        (source.encoding == 0
                             ? ", without decoding it"
                             : ", and decodes it by codec " + std::to_string(source.encoding)));
      return false;
    }
    if (code != 0) part.value = values_.decode(part.value);
    if (is_elsewhere) part.value = values_.by_exact_way(part.value);
  }
  return true;
}

// Stores folded_. Targets that are encoded come first; the others get the decoded value then.
void Machine::store(const Context& at, std::span<const Place> targets) {
  const Plan& plan = plan_of(at.rank);
  for (size_t i = 0; i < targets.size(); ++i) {
    const uint8_t encoding = plan.operands[at.op->operands + i].encoding;
    for (Part& part : folded_) {
      if (part.value == kUndefined) continue;
      if (encoding == 0) {
        part.value = values_.decode(part.value);
        continue;
      }
      part.value = values_.encode(values_.decode(part.value), encoding);
      if (part.value == kUndefined) {
        return refuse_at(at, "encodes what has been encoded since it was folded");
      }
    }
    write(targets[i], at.thread, folded_);
  }
}

void Machine::check_roundings(uint32_t rank, uint32_t block, std::span<const Part> parts) {
  std::vector<RoundedRun> runs;
  for (const Part& part : parts) {
    const uint64_t roundings = values_.roundings_of(part.value);
    if (!runs.empty() && runs.back().roundings == roundings) {
      runs.back().end = part.end;
    } else {
      runs.push_back({part.end, roundings});
    }
  }
  const uint32_t call = ranks_[rank].call;
  const auto [known, is_first] = rounded_.try_emplace({call, block}, RoundedBlock{rank, runs});
  if (is_first || known->second.runs == runs) return;
  refuse("rank " + std::to_string(rank) + " returns from call " + std::to_string(call) +
         " with a block " + std::to_string(block) + " that was not rounded as that of rank " +
         std::to_string(known->second.rank) + ": one has kept what the others have decoded");
}

}  // namespace tutti::plan::verifier
