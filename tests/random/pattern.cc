#include "tests/random/pattern.h"

#include <algorithm>
#include <cmath>

#include "tests/support/dice.h"

namespace tutti::random_calls {
namespace {

using reference::is_float;
using reference::is_signed;
using reference::wrap;
using testing_support::mix;

// A product of so many factors of 2 or 1/2 stays in the range of every type.
constexpr uint64_t kFactors = 5;

double unit(uint64_t chance) { return static_cast<double>(chance >> 11) * 0x1.0p-53; }

// Integers whose sum over all ranks does not leave the type: only then averages are defined.
uint64_t small_integer(tuttiDataType_t type, int ranks, uint64_t chance) {
  const uint64_t greatest = std::max<uint64_t>(1, 120 / static_cast<uint64_t>(ranks));
  const uint64_t value = chance % (greatest + 1);
  const bool negative = is_signed(type) && (chance >> 32) % 2 == 1;
  return wrap(type, negative ? 0 - value : value);
}

long double factor(uint64_t turn, uint64_t chance) {
  const long double sign = chance % 2 == 0 ? 1 : -1;
  if (turn >= kFactors) return sign;
  constexpr long double kValues[] = {0.5L, 1.0L, 2.0L};
  return sign * kValues[(chance >> 8) % 3];
}

}  // namespace

// Integers so small that every partial sum has few enough bits, or powers of two for products.
uint64_t Pattern::exact(int rank, uint64_t at, uint64_t chance) const {
  const reference::Problem& p = call_.problem;
  const auto ranks = static_cast<uint64_t>(p.ranks);
  const uint64_t turn = (static_cast<uint64_t>(rank) + at) % ranks;
  if (p.op == tuttiProd) return reference::encode(p.type, factor(turn, chance));
  const int bits = std::min(reference::precision_of(p.type), 20);
  const uint64_t greatest = uint64_t{1} << bits;
  const uint64_t each = std::max<uint64_t>(1, greatest / ranks);
  if (turn >= greatest) return reference::encode(p.type, 0.0L);
  const auto value = static_cast<long double>(1 + chance % each);
  return reference::encode(p.type, (chance >> 32) % 2 == 0 ? value : -value);
}

uint64_t Pattern::bits(int rank, uint64_t index) const {
  const reference::Problem& p = call_.problem;
  const uint64_t at = index % kPeriod;
  const uint64_t chance = mix(call_.seed + static_cast<uint64_t>(rank) * 7919, at);
  if (!is_float(p.type) && reference::reduces(p.collective) && p.op == tuttiAvg) {
    return small_integer(p.type, p.ranks, chance);
  }
  if (call_.values == Values::kAny) return wrap(p.type, chance);
  if (call_.values == Values::kExact) return exact(rank, at, chance);
  const auto turn = (static_cast<uint64_t>(rank) + at) % static_cast<uint64_t>(p.ranks);
  // Between 1/2 and 1, smaller by a power of two, of either sign; for products near 1.
  const long double significand = 0.5L + static_cast<long double>(unit(chance)) / 2;
  const int power = p.op == tuttiProd ? static_cast<int>(turn < kFactors ? chance % 2 : 0)
                                      : -static_cast<int>(chance % 4);
  const long double magnitude =
      p.op == tuttiProd && turn >= kFactors ? 1.0L : std::ldexp(significand, power);
  return reference::encode(p.type, (chance >> 5) % 2 == 0 ? magnitude : -magnitude);
}

// Exact sums stay exact: the same power of two everywhere, and any sign.
uint64_t Pattern::scalar(int rank) const {
  const tuttiDataType_t type = call_.problem.type;
  const uint64_t chance = mix(call_.seed + 17, static_cast<uint64_t>(rank));
  if (!is_float(type)) return wrap(type, chance);
  const long double magnitude = call_.values == Values::kExact
                                    ? std::ldexp(1.0L, static_cast<int>(call_.seed % 3) - 1)
                                    : 0.5L + static_cast<long double>(unit(chance)) / 2;
  return reference::encode(type, chance % 2 == 0 ? magnitude : -magnitude);
}

std::byte put_byte(const Call& call, size_t ordinal, uint64_t index) {
  return static_cast<std::byte>(mix(call.seed + ordinal * 7'907, index % Pattern::kPeriod));
}

std::byte window_byte(uint32_t communicator, int rank, uint32_t window, uint64_t offset) {
  const uint64_t seed = (uint64_t{communicator} * 64 + static_cast<uint64_t>(rank)) * 16 + window;
  return static_cast<std::byte>(mix(seed, offset % Pattern::kPeriod));
}

uint64_t transfer_bits(const Call& call, size_t ordinal, uint64_t index) {
  return wrap(call.transfers[ordinal].type,
              mix(call.seed + ordinal * 104'729, index % Pattern::kPeriod));
}

}  // namespace tutti::random_calls
