#include "perf/collectives/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tutti::perf {
namespace {

constexpr int kPoison = 0x5A;
constexpr int kLargestAddend = 8;
constexpr int kLargestCopied = 100;

/// splitmix64: every bit of the result depends on every bit of the argument.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A number in [-amplitude, amplitude], or [0, amplitude].
double pick(uint64_t random, int amplitude, bool is_signed) {
  const auto width = static_cast<uint64_t>(is_signed ? 2 * amplitude + 1 : amplitude + 1);
  return static_cast<double>(random % width) - (is_signed ? amplitude : 0);
}

/// Sums stay below 2^20 in every type: enough to be told apart.
int sum_budget(const DataType& type) { return 1 << std::min(type.significand_bits, 20); }

double smallest_subnormal(const DataType& type) {
  std::byte element[8] = {std::byte{1}};
  return decode(type, element);
}

}  // namespace

/// Whether `rank` is one of the at most `budget` ranks that count at this index.
bool Pattern::contributes(int rank, size_t index, int budget) const {
  const int stride = (ranks_ + budget - 1) / budget;
  return (static_cast<size_t>(rank) + index) % static_cast<size_t>(stride) == 0;
}

/// How much the inputs of a sum may come to: half as much where scalars of up to 2 follow.
int Pattern::addends_budget() const { return sum_budget(type_) / (op_ == kMulSum ? 2 : 1); }

double Pattern::addend(int rank, size_t index, uint64_t random) const {
  const int budget = addends_budget();
  if (!contributes(rank, index, budget)) return 0;
  const int amplitude = std::clamp(budget / ranks_, 1, kLargestAddend);
  return pick(random, amplitude, type_.is_signed);
}

double Pattern::factor(int rank, size_t index, uint64_t random) const {
  const double sign = type_.is_signed && (random >> 32 & 1) != 0 ? -1 : 1;
  if (!contributes(rank, index, type_.exponent_budget)) return sign;
  return sign * std::ldexp(1, static_cast<int>(pick(random, 1, type_.is_float)));
}

double Pattern::input(int rank, size_t index) const {
  const size_t phase = index % kPeriod;
  const uint64_t random = mix(mix(seed_ * 4096 + static_cast<uint64_t>(rank)) + phase);
  if (op_ == tuttiProd) return factor(rank, phase, random);
  if (op_ == tuttiSum || op_ == tuttiAvg || op_ == kMulSum) return addend(rank, phase, random);
  return pick(random, std::min(sum_budget(type_), kLargestCopied), type_.is_signed);
}

double Pattern::contribution(int rank, size_t index) const {
  return input(rank, index) * (op_ == kMulSum ? mulsum_scalar(rank) : 1);
}

double Pattern::reduced(size_t index) const {
  double result = contribution(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double next = contribution(rank, index);
    switch (op_) {
      case tuttiProd:
        result *= next;
        break;
      case tuttiMax:
        result = std::max(result, next);
        break;
      case tuttiMin:
        result = std::min(result, next);
        break;
      default:
        result += next;
        break;
    }
  }
  if (op_ != tuttiAvg) return result;
  return type_.is_float ? result / ranks_ : std::trunc(result / ranks_);
}

bool Pattern::is_exact() const {
  const bool power_of_two = (ranks_ & (ranks_ - 1)) == 0;
  return op_ != tuttiAvg || !type_.is_float || power_of_two;
}

double Pattern::tolerance(size_t index) const {
  double magnitude = 0;
  for (int rank = 0; rank < ranks_; ++rank) magnitude += std::fabs(input(rank, index));
  const double epsilon = std::ldexp(1, 1 - type_.significand_bits);
  return (ranks_ + 1) * epsilon * magnitude / ranks_ + ranks_ * smallest_subnormal(type_);
}

/// One period of a rank's input (or of the reduction) as elements.
std::vector<std::byte> Pattern::table_of(int source) const {
  std::vector<std::byte> table(kPeriod * type_.bytes, std::byte{kPoison});
  if (source == Block::kUntouched) return table;
  for (size_t i = 0; i < kPeriod; ++i) {
    const double value = source == Block::kEveryRank ? reduced(i) : input(source, i);
    encode(type_, value, table.data() + i * type_.bytes);
  }
  return table;
}

void Pattern::fill_input(int rank, std::byte* buffer, size_t count) const {
  const std::vector<std::byte> table = table_of(rank);
  for (size_t i = 0; i < count; i += kPeriod) {
    const size_t elements = std::min(kPeriod, count - i);
    std::memcpy(buffer + i * type_.bytes, table.data(), elements * type_.bytes);
  }
}

void Pattern::poison(std::byte* buffer, size_t count) const {
  std::memset(buffer, kPoison, count * type_.bytes);
}

void Pattern::check_exact(const Block& block, const std::byte* output, size_t begin,
                          Mistakes& found) const {
  const std::vector<std::byte> table = table_of(block.source);
  const size_t bytes = type_.bytes;
  for (size_t i = 0; i < block.count;) {
    const size_t phase = (block.first + i) % kPeriod;
    const size_t elements = std::min(kPeriod - phase, block.count - i);
    const std::byte* got = output + (begin + i) * bytes;
    const std::byte* want = table.data() + phase * bytes;
    if (std::memcmp(got, want, elements * bytes) != 0) {
      for (size_t j = 0; j < elements; ++j) {
        if (std::memcmp(got + j * bytes, want + j * bytes, bytes) == 0) continue;
        found.add(begin + i + j, decode(type_, want + j * bytes), decode(type_, got + j * bytes));
      }
    }
    i += elements;
  }
}

void Pattern::check_rounded(const Block& block, const std::byte* output, size_t begin,
                            Mistakes& found) const {
  std::vector<double> want(kPeriod);
  std::vector<double> allowed(kPeriod);
  for (size_t i = 0; i < kPeriod; ++i) {
    want[i] = reduced(i);
    allowed[i] = tolerance(i);
  }
  for (size_t i = 0; i < block.count; ++i) {
    const size_t phase = (block.first + i) % kPeriod;
    const double got = decode(type_, output + (begin + i) * type_.bytes);
    const bool right = std::fabs(got - want[phase]) <= allowed[phase];  // a NaN is wrong too
    if (!right) found.add(begin + i, want[phase], got);
  }
}

Mistakes Pattern::check(std::span<const Block> blocks, const std::byte* output) const {
  Mistakes found;
  size_t begin = 0;
  for (const Block& block : blocks) {
    const bool exact = block.source != Block::kEveryRank || is_exact();
    if (exact) {
      check_exact(block, output, begin, found);
    } else {
      check_rounded(block, output, begin, found);
    }
    begin += block.count;
  }
  return found;
}

}  // namespace tutti::perf
