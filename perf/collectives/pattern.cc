#include "perf/collectives/pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "perf/collectives/board.h"

namespace tutti::perf {
namespace {

constexpr int kLargestAddend = 8;
constexpr int kLargestExponent = 3;
constexpr int kLargestCopied = 100;
constexpr uint64_t kBits = 0x7F;      // that bitwise operations work on
constexpr int kLargestSum = 1 << 20;  // enough to be told apart, in every type

/// A filling that differs from every result: integers stay between -128 and 128, and floats far
/// below this, or off it.
std::byte poison_of(const DataType& type) { return std::byte(type.is_float ? 0x5A : 0x80); }

/// splitmix64: every bit of the result depends on every bit of the argument.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A number of [1, amplitude] with either sign; where that would be 1 for ever, of 0 and 1.
int pick(uint64_t random, int amplitude, bool is_signed) {
  if (!is_signed && amplitude == 1) return static_cast<int>(random & 1);
  const int magnitude = 1 + static_cast<int>((random >> 1) % static_cast<uint64_t>(amplitude));
  return is_signed && (random & 1) != 0 ? -magnitude : magnitude;
}

int sum_budget(const DataType& type) {
  if (type.is_float) return std::min(1 << std::min(type.significand_bits, 30), kLargestSum);
  if (type.id == tuttiBool) return 1;
  if (type.bytes == 2) return (1 << 15) - 1;
  return type.bytes == 1 ? 127 : kLargestSum;
}

/// The average of these is no exact number.
bool rounds(const DataType& type, tuttiRedOp_t op, int ranks) {
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  return op == tuttiAvg && type.is_float && !power_of_two;
}

/// So many addends of magnitude 1 or 2 have a rounded average that moves further if one of them
/// changes than all their roundings can move it: ((1 + u)^(k + 1) - 1) 2 k < 1, u = 2^-bits.
int rounded_addends(const DataType& type) {
  int addends = 1;
  const int64_t limit = int64_t{1} << (type.significand_bits - 1);
  while (addends < kMaxRanks && (addends + 1) * (addends + 2) < limit) ++addends;
  return addends;
}

/// The largest sum that is divided for an average.
int dividend_budget(const DataType& type) {
  if (type.id == tuttiUint16) return (1 << 16) - 1;
  return type.id == tuttiUint8 ? 255 : sum_budget(type);
}

/// The addends of an average are multiples of this number: for integers the number of ranks, or
/// cutting would hide a difference; for floats one that keeps quotients from being subnormal.
int unit_of(const DataType& type, tuttiRedOp_t op, int ranks) {
  if (op != tuttiAvg) return 1;
  if (rounds(type, op, ranks)) {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  }
  return !type.is_float && ranks <= dividend_budget(type) ? ranks : 1;
}

/// The largest result of all contributors at an index, in units.
int budget_of(const DataType& type, tuttiRedOp_t op, int ranks) {
  if (op == tuttiProd) return type.exponent_budget;
  if (op == kMulSum) return sum_budget(type) / 2;  // scalars of up to 2 follow
  if (rounds(type, op, ranks)) return 2 * rounded_addends(type);
  if (op == tuttiAvg) return dividend_budget(type) / unit_of(type, op, ranks);
  return sum_budget(type);
}

}  // namespace

Pattern::Pattern(const DataType& type, tuttiRedOp_t op, int ranks, uint64_t seed)
    : type_(type),
      op_(op),
      logic_(logic_of(type, op)),
      ranks_(ranks),
      seed_(seed),
      unit_(unit_of(type, op, ranks)) {
  const bool has_signs = op == tuttiProd ? type.is_float : type.is_signed;
  const int budget = budget_of(type, op, ranks);
  // Every contributor has two values at least.
  const bool rounded = rounds(type, op, ranks);
  const int most = std::clamp(budget / (has_signs && !rounded ? 1 : 2), 1, ranks);
  stride_ = (ranks + most - 1) / most;
  contributors_ = (ranks + stride_ - 1) / stride_;
  const int largest = op == tuttiProd ? kLargestExponent : rounded ? 2 : kLargestAddend;
  amplitude_ = std::clamp(budget / contributors_, 1, largest);
}

/// Whether `rank` is one of the at most contributors_ ranks that count at this index.
bool Pattern::contributes(int rank, size_t index) const {
  return (static_cast<size_t>(rank) + index + seed_) % static_cast<size_t>(stride_) == 0;
}

uint64_t Pattern::random_of(int rank, size_t index) const {
  return mix(mix(seed_ * 4096 + static_cast<uint64_t>(rank)) + index);
}

double Pattern::addend(int rank, size_t index) const {
  if (!contributes(rank, index)) return 0;
  // Where quotients are cut, every fourth sum has a remainder.
  const bool has_remainder = !type_.is_float && index / static_cast<size_t>(stride_) % 4 == 3;
  return pick(random_of(rank, index), amplitude_, type_.is_signed) * (has_remainder ? 1 : unit_);
}

double Pattern::factor(int rank, size_t index) const {
  const uint64_t random = random_of(rank, index);
  const double sign = type_.is_signed && (random >> 62 & 1) != 0 ? -1 : 1;
  if (!contributes(rank, index)) return sign;
  return sign * std::ldexp(1, pick(random, amplitude_, type_.is_float));
}

/// One rank has the greatest (least) number, another one at each index.
double Pattern::compared(int rank, size_t index) const {
  const int most = std::min(sum_budget(type_), kLargestCopied);
  const int least = type_.is_signed ? -most : 0;
  const auto of_range = [&](int who, int from, int to) {
    return from + static_cast<int>(random_of(who, index) % static_cast<uint64_t>(to - from + 1));
  };
  const auto winner = static_cast<int>((index + seed_) % static_cast<size_t>(ranks_));
  const int extreme = of_range(winner, most / 2 + 1, most);
  const int level = rank == winner ? extreme : of_range(rank, least, extreme - 1);
  return op_ == tuttiMin ? most + least - level : level;
}

/// One rank alone has these at an index. They are never nothing, but of bools in one of four turns.
uint64_t Pattern::winning_bits(size_t index) const {
  const auto winner = static_cast<int>((index + seed_) % static_cast<size_t>(ranks_));
  if (type_.id != tuttiBool) return 1 + random_of(winner, index) % kBits;
  const uint64_t turn = (index + seed_) / static_cast<size_t>(ranks_);
  return mix(mix(seed_) + turn / 4) % 4 != turn % 4;
}

/// One rank has a bit that no other has (or lacks one that all have), another rank at each index.
double Pattern::of_bits(int rank, size_t index) const {
  const uint64_t mask = type_.id == tuttiBool ? 1 : kBits;
  const uint64_t random = random_of(rank, index);
  if (logic_ == Logic::kXor) return static_cast<double>(random & mask);
  const auto winner = static_cast<int>((index + seed_) % static_cast<size_t>(ranks_));
  const uint64_t all = winning_bits(index);
  const uint64_t others = random & all & (all - 1);
  const uint64_t bits = rank == winner ? all : others;
  return static_cast<double>(logic_ == Logic::kOr ? bits : mask ^ bits);
}

double Pattern::input(int rank, size_t index) const {
  const size_t phase = index % kPeriod;
  if (logic_ != Logic::kNone) return of_bits(rank, phase);
  if (op_ == tuttiProd) return factor(rank, phase);
  if (op_ == tuttiSum || op_ == tuttiAvg || op_ == kMulSum) return addend(rank, phase);
  return compared(rank, phase);
}

double Pattern::contribution(int rank, size_t index) const {
  return input(rank, index) * (op_ == kMulSum ? mulsum_scalar(rank) : 1);
}

double Pattern::reduced(size_t index) const {
  double result = contribution(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double next = contribution(rank, index);
    if (logic_ != Logic::kNone) {
      result = combined(logic_, result, next);
      continue;
    }
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

bool Pattern::is_exact() const { return !rounds(type_, op_, ranks_); }

/// Of 1/ranks or a product with it, and of every addition of what is not 0. All are far from
/// subnormal numbers.
double Pattern::tolerance(size_t index) const {
  double magnitude = 0;
  for (int rank = 0; rank < ranks_; ++rank) magnitude += std::fabs(input(rank, index));
  const double unit = std::ldexp(1, -type_.significand_bits);
  return (std::pow(1 + unit, contributors_ + 1) - 1) * magnitude / ranks_;
}

/// One period of a rank's input (or of the reduction) as elements.
std::vector<std::byte> Pattern::table_of(int source) const {
  std::vector<std::byte> table(kPeriod * type_.bytes, poison_of(type_));
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
  std::memset(buffer, std::to_integer<int>(poison_of(type_)), count * type_.bytes);
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
