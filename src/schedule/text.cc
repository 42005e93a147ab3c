#include "src/schedule/text.h"

#include <algorithm>

namespace tutti::schedule {
namespace {

constexpr const char* kSpaceNames[] = {"input", "output", "scratch", "invalid"};

const char* name_of_space(Block block) { return kSpaceNames[block.word >> 30]; }

bool inside(const Schedule& schedule, uint32_t offset, uint32_t count) {
  return uint64_t{offset} + count <= schedule.words.size();
}

std::string join(std::span<const uint32_t> numbers) {
  std::string text;
  for (uint32_t number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

// A step of an unverified schedule may point anywhere; printing it must not.
bool printable(const Schedule& schedule, const Step& step) {
  if (!inside(schedule, step.blocks, step.block_count)) return false;
  if (!inside(schedule, step.operands, step.operand_count)) return false;
  if (!inside(schedule, step.afters, step.after_count)) return false;
  if (step.kind != StepKind::kMove) return true;
  const auto sources = schedule.sources_of(step);
  return std::ranges::all_of(sources, [&](Source source) {
    return source.is_message() || inside(schedule, source.blocks(), step.block_count);
  });
}

std::string print_sources(const Schedule& schedule, const Step& step) {
  std::string text;
  for (Source source : schedule.sources_of(step)) {
    if (!text.empty()) text += " + ";
    text += source.is_message() ? "message " + std::to_string(source.peer())
                                : print_blocks(schedule.blocks_of(step, source));
  }
  return text.empty() ? "none" : text;
}

void print_partition(const char* name, const Partition& cut, std::string& text) {
  text += name;
  if (cut.bounds.empty()) {
    text += ' ' + std::to_string(cut.blocks) + '\n';
    return;
  }
  text += " at";
  for (Fraction bound : cut.bounds) text += ' ' + print(bound);
  text += '\n';
}

void print_rank(const Schedule& schedule, std::string& text) {
  text += "rank " + std::to_string(schedule.rank);
  if (schedule.lanes != 1) text += " lanes " + std::to_string(schedule.lanes);
  text += '\n';
  if (!schedule.scratch.empty()) text += "  scratch " + print_blocks(schedule.scratch) + '\n';
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    text += "  " + std::to_string(i) + ": " + print_step(schedule, i) + '\n';
  }
}

bool same_step(const Schedule& a, const Step& x, const Schedule& b, const Step& y) {
  if (x.kind != y.kind || x.fold != y.fold || x.lane != y.lane) return false;
  if (x.operand_count != y.operand_count) return false;
  if (!std::ranges::equal(a.blocks_of(x), b.blocks_of(y))) return false;
  if (!std::ranges::equal(a.afters_of(x), b.afters_of(y))) return false;
  if (x.kind == StepKind::kSend) return std::ranges::equal(a.peers_of(x), b.peers_of(y));
  return std::ranges::equal(a.sources_of(x), b.sources_of(y), [&](Source s, Source t) {
    if (s.is_message() || t.is_message()) return s.word == t.word;
    return std::ranges::equal(a.blocks_of(x, s), b.blocks_of(y, t));
  });
}

}  // namespace

std::string print(Fraction fraction) {
  std::string text = std::to_string(fraction.num);
  if (fraction.den != 1) text += '/' + std::to_string(fraction.den);
  return text;
}

std::string print(Block block) { return print_blocks({&block, 1}); }

std::string print_blocks(std::span<const Block> blocks) {
  if (blocks.empty()) return "nothing";
  std::string text;
  const char* space = nullptr;
  for (size_t i = 0; i < blocks.size();) {
    size_t end = i + 1;
    while (end < blocks.size() && blocks[end].word == blocks[end - 1].word + 1 &&
           blocks[end].space() == blocks[i].space()) {
      ++end;
    }
    if (space != name_of_space(blocks[i])) {
      if (space != nullptr) text += "] ";
      space = name_of_space(blocks[i]);
      text += space;
      text += '[';
    } else {
      text += ',';
    }
    text += std::to_string(blocks[i].index());
    if (end - i > 1) text += ':' + std::to_string(blocks[end - 1].index() + 1);
    i = end;
  }
  return text + ']';
}

std::string print_step(const Schedule& schedule, uint32_t index) {
  if (index >= schedule.steps.size()) return "no such step";
  const Step& step = schedule.steps[index];
  std::string text;
  if (schedule.lanes != 1 || step.lane != 0) text += "lane " + std::to_string(step.lane) + ' ';
  if (!printable(schedule, step)) return text + "a step whose offsets lie outside the schedule";
  if (step.kind == StepKind::kSend) {
    const auto peers = schedule.peers_of(step);
    text += "send " + print_blocks(schedule.blocks_of(step)) + " -> ";
    text += peers.empty() ? "nobody" : join(peers);
  } else if (step.kind == StepKind::kMove) {
    text +=
        "move " + print_blocks(schedule.blocks_of(step)) + " <- " + print_sources(schedule, step);
  } else {
    return text + "a step of unknown kind";
  }
  if (step.fold == Fold::kTree) text += " (tree)";
  if (step.after_count != 0) text += " after " + join(schedule.afters_of(step));
  return text;
}

std::string print(const Shape& shape, std::span<const Schedule> schedules) {
  std::string text = "tutti-schedule 1\ncollective ";
  const bool known = static_cast<int>(shape.collective) < kCollectives;
  text += known ? name_of(shape.collective) : "unknown";
  text += "\nranks " + std::to_string(shape.ranks);
  text += "\nroot " + std::to_string(shape.root);
  text += "\nlanes " + std::to_string(shape.lanes) + '\n';
  print_partition("input", shape.input, text);
  print_partition("output", shape.output, text);
  for (const Schedule& schedule : schedules) print_rank(schedule, text);
  return text;
}

bool same_program(const Schedule& a, const Schedule& b) {
  if (a.rank != b.rank || a.lanes != b.lanes || a.scratch != b.scratch) return false;
  return std::ranges::equal(a.steps, b.steps,
                            [&](const Step& x, const Step& y) { return same_step(a, x, b, y); });
}

}  // namespace tutti::schedule
