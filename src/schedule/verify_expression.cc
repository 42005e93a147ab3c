#include "src/schedule/verify_expression.h"

#include <algorithm>
#include <bit>

namespace tutti::schedule::verifier {
namespace {

constexpr size_t kMaxNodes = 1u << 27;
constexpr size_t kMaxPool = 1u << 28;

uint64_t hash_of(std::span<const ExpressionId> operands) {
  uint64_t hash = operands.size();
  for (ExpressionId operand : operands) {
    hash = (hash ^ operand) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

Expressions::Expressions(int ranks) : ranks_(static_cast<uint32_t>(ranks)) {
  nodes_.resize(size_t{ranks_} + 1);
  for (uint32_t rank = 0; rank < ranks_; ++rank) nodes_[rank + 1] = {0, 0, rank, rank + 1};
  table_.assign(1024, 0);
}

ExpressionId Expressions::combine(Fold fold, std::span<const ExpressionId> operands) {
  if (operands.size() == 2) return pair(operands[0], operands[1]);
  if (fold == Fold::kTree) return tree(operands);
  // The first two of a list commute; that the rest keeps its order distinguishes it from every
  // pair.
  scratch_.assign(operands.begin(), operands.end());
  if (scratch_[0] > scratch_[1]) std::swap(scratch_[0], scratch_[1]);
  return intern(scratch_);
}

ExpressionId Expressions::pair(ExpressionId a, ExpressionId b) {
  const ExpressionId operands[2] = {std::min(a, b), std::max(a, b)};
  return intern(operands);
}

ExpressionId Expressions::tree(std::span<const ExpressionId> operands) {
  std::vector<ExpressionId> level(operands.begin(), operands.end());
  while (level.size() > 1) {
    const size_t pairs = level.size() / 2;
    for (size_t i = 0; i < pairs; ++i) level[i] = pair(level[2 * i], level[2 * i + 1]);
    if (level.size() % 2 != 0) level[pairs] = level.back();
    level.resize((level.size() + 1) / 2);
  }
  return level[0];
}

ExpressionId Expressions::intern(std::span<const ExpressionId> operands) {
  const size_t mask = table_.size() - 1;
  size_t slot = hash_of(operands) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (std::ranges::equal(operands_of(table_[slot]), operands)) return table_[slot];
  }
  if (nodes_.size() >= kMaxNodes || pool_.size() + operands.size() > kMaxPool) {
    exhausted_ = true;
    return 1;
  }
  Node node;
  node.operands = static_cast<uint32_t>(pool_.size());
  node.count = static_cast<uint32_t>(operands.size());
  set_canonical(node, operands);
  pool_.insert(pool_.end(), operands.begin(), operands.end());
  const auto id = static_cast<ExpressionId>(nodes_.size());
  nodes_.push_back(node);
  table_[slot] = id;
  if (nodes_.size() * 2 > table_.size()) grow();
  return id;
}

void Expressions::grow() {
  table_.assign(table_.size() * 4, 0);
  const size_t mask = table_.size() - 1;
  for (size_t id = size_t{ranks_} + 1; id < nodes_.size(); ++id) {
    size_t slot = hash_of(operands_of(static_cast<ExpressionId>(id))) & mask;
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = static_cast<ExpressionId>(id);
  }
}

// The tree joins [a*2s, a*2s+s) with [a*2s+s, min(a*2s+2s, ranks)), s a power of two.
void Expressions::set_canonical(Node& node, std::span<const ExpressionId> operands) const {
  if (operands.size() != 2) return;
  Node low = nodes_[operands[0]];
  Node high = nodes_[operands[1]];
  if (low.end == 0 || high.end == 0) return;
  if (low.begin > high.begin) std::swap(low, high);
  const uint32_t size = low.end - low.begin;
  if (!std::has_single_bit(size) || low.begin % (2 * size) != 0 || low.end != high.begin) return;
  if (high.end != std::min(low.begin + 2 * size, ranks_)) return;
  node.begin = low.begin;
  node.end = high.end;
}

bool Expressions::complete(ExpressionId id) {
  visited_.resize(nodes_.size(), 0);
  ++visit_;
  std::vector<ExpressionId> open = {id};
  uint32_t leaves = 0;
  while (!open.empty()) {
    const ExpressionId at = open.back();
    open.pop_back();
    if (at == 0 || visited_[at] == visit_) return false;
    visited_[at] = visit_;
    leaves += is_leaf(at) ? 1 : 0;
    const auto operands = operands_of(at);
    open.insert(open.end(), operands.begin(), operands.end());
    if (open.size() > ranks_) return false;
  }
  return leaves == ranks_;
}

std::string Expressions::describe(ExpressionId id) const {
  if (id == 0) return "nothing (never written)";
  // How often each node occurs, saturating. Operands have smaller numbers than their node.
  std::vector<uint64_t> times(size_t{id} + 1, 0);
  times[id] = 1;
  for (ExpressionId at = id; at > ranks_; --at) {
    if (times[at] == 0) continue;
    for (ExpressionId operand : operands_of(at)) {
      times[operand] = std::min<uint64_t>(times[operand] + times[at], 1u << 30);
    }
  }
  std::string text;
  const uint32_t last = std::min(id, ranks_);
  for (uint32_t begin = 1; begin <= last;) {
    uint32_t end = begin + 1;
    while (end <= last && times[end] == times[begin]) ++end;
    if (times[begin] != 0) {
      if (!text.empty()) text += " + ";
      if (times[begin] > 1) text += std::to_string(times[begin]) + " times ";
      text += end - begin == 1 ? "rank " : "ranks ";
      text += std::to_string(begin - 1);
      if (end - begin > 1) text += "-" + std::to_string(end - 2);
    }
    begin = end;
  }
  return text;
}

}  // namespace tutti::schedule::verifier
