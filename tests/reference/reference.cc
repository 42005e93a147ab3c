#include "tests/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace tutti::reference {
namespace {

uint64_t combine(const Problem& p, uint64_t a, uint64_t b) {
  if (p.type == tuttiBool && p.op == tuttiSum) return a | b;
  switch (p.op) {
    case tuttiBitAnd:
      return a & b;
    case tuttiBitOr:
      return a | b;
    case tuttiBitXor:
      return a ^ b;
    case tuttiProd:
      return wrap(p.type, a * b);
    case tuttiMax:
    case tuttiMin: {
      const bool less = is_signed(p.type) ? to_signed(p.type, a) < to_signed(p.type, b) : a < b;
      return less == (p.op == tuttiMax) ? b : a;
    }
    default:
      return wrap(p.type, a + b);
  }
}

// Rounded once. Two numbers of up to 32 bits have an exact product in long double; that of two
// doubles the machine rounds.
uint64_t product(tuttiDataType_t type, uint64_t a, uint64_t b) {
  if (!is_float(type)) return wrap(type, a * b);
  const long double x = decode(type, a), y = decode(type, b);
  const bool wide = type == tuttiFloat64;
  return encode(type, wide ? static_cast<double>(x) * static_cast<double>(y) : x * y);
}

Expected reduce_integers(const Problem& p, const Input& input, uint64_t index) {
  uint64_t bits = input(0, index);
  for (int rank = 1; rank < p.ranks; ++rank) bits = combine(p, bits, input(rank, index));
  if (p.op == tuttiAvg) {
    const auto ranks = static_cast<uint64_t>(p.ranks);
    const bool negative = is_signed(p.type);
    const int64_t quotient = negative ? to_signed(p.type, bits) / p.ranks : 0;
    bits = negative ? wrap(p.type, static_cast<uint64_t>(quotient)) : bits / ranks;
  }
  return {true, bits, 0, 0};
}

Expected pick_float(const Problem& p, const Input& input, uint64_t index) {
  uint64_t best = input(0, index);
  for (int rank = 1; rank < p.ranks; ++rank) {
    const uint64_t bits = input(rank, index);
    const bool greater = decode(p.type, bits) > decode(p.type, best);
    const bool less = decode(p.type, bits) < decode(p.type, best);
    if (p.op == tuttiMax ? greater : less) best = bits;
  }
  return {true, best, 0, 0};
}

// One node of the tree in the precision of the additions (fp32 for all but fp64), rounded to the
// type.
template <class Real>
Real node(const Problem& p, Real a, Real b) {
  const Real both = p.op == tuttiProd ? a * b : a + b;
  return static_cast<Real>(decode(p.type, encode(p.type, both)));
}

template <class Real>
Expected reduce_canonically(const Problem& p, const Input& input, uint64_t index) {
  std::vector<Real> values;
  const Real scale = p.op == tuttiAvg ? Real{1} / static_cast<Real>(p.ranks) : Real{1};
  for (int rank = 0; rank < p.ranks; ++rank) {
    values.push_back(static_cast<Real>(decode(p.type, input(rank, index))) * scale);
  }
  const size_t ranks = values.size();
  for (size_t stride = 1; stride < ranks; stride *= 2) {
    for (size_t rank = 0; rank + stride < ranks; rank += 2 * stride) {
      values[rank] = node(p, values[rank], values[rank + stride]);
    }
  }
  return {true, encode(p.type, values[0]), 0, 0};
}

// At most `roundings` times the value has been rounded to the type; additions happen in fp32 or
// better. Every rounding moves a partial result, which is at most the sum of the magnitudes, by one
// half of a unit in the last place, and the errors compound.
long double bound(const Problem& p, long double magnitude) {
  // An average also rounds 1/n and the product with it, in the precision of the additions.
  const int additions = p.ranks - 1 + (p.op == tuttiAvg ? 2 : 0);
  const bool wide = p.type == tuttiFloat32 || p.type == tuttiFloat64;
  const int roundings = wide ? additions : p.ranks - 1;
  const long double unit = std::ldexp(1.0L, -precision_of(p.type));
  const long double adding = wide ? 0.0L : std::ldexp(1.0L, -24);
  const long double grown = std::pow(1 + unit, roundings) * std::pow(1 + adding, additions) - 1;
  // The last term is the reference's own rounding, in 64 bits.
  return magnitude * (grown + std::ldexp(1.0L, -58)) + roundings * least_step_of(p.type) / 2;
}

Expected reduce_floats(const Problem& p, const Input& input, uint64_t index) {
  const bool product = p.op == tuttiProd;
  long double value = product ? 1 : 0;
  long double magnitude = 0;
  for (int rank = 0; rank < p.ranks; ++rank) {
    const long double x = decode(p.type, input(rank, index));
    value = product ? value * x : value + x;
    magnitude += std::fabs(x);
  }
  if (product) magnitude = std::fabs(value);
  if (p.op == tuttiAvg) {
    value /= p.ranks;
    magnitude /= p.ranks;
  }
  return {false, 0, value, p.exact ? 0 : bound(p, magnitude)};
}

}  // namespace

const char* name_of(Collective collective) {
  constexpr const char* kNames[kCollectives] = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast",        "reduce",       "gather",
      "scatter",    "all_to_all", "all_gather_v",   "reduce_scatter_v", "all_to_all_v", "barrier"};
  return kNames[static_cast<int>(collective)];
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce || collective == Collective::kReduceScatterV;
}

bool is_rooted(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

bool output_is_part(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kScatter ||
         collective == Collective::kReduceScatterV;
}

bool has_counts(Collective collective) {
  return collective == Collective::kAllGatherV || collective == Collective::kReduceScatterV ||
         collective == Collective::kAllToAllV;
}

bool has_offsets(Collective collective) {
  return has_counts(collective) && collective != Collective::kReduceScatterV;
}

void spread_counts(Problem& p, bool symmetric) {
  if (!has_counts(p.collective)) return;
  const auto quarter = [&](int from, int to) {
    return p.count * static_cast<uint64_t>((symmetric ? from + to : from + 3 * to + 1) % 5) / 4;
  };
  p.counts.clear();
  for (int from = 0; from < p.ranks; ++from) {
    const int columns = p.collective == Collective::kAllToAllV ? p.ranks : 1;
    for (int to = 0; to < columns; ++to) p.counts.push_back(quarter(from, to));
  }
}

uint64_t share(const Problem& p, int from, int to) {
  switch (p.collective) {
    case Collective::kAllGatherV:
      return p.counts[static_cast<size_t>(from)];
    case Collective::kReduceScatterV:
      return p.counts[static_cast<size_t>(to)];
    case Collective::kAllToAllV:
      return p.counts[static_cast<size_t>(from * p.ranks + to)];
    default:
      return p.count;
  }
}

uint64_t offset(const Problem& p, bool output, int rank, int peer) {
  uint64_t at = p.gap;
  for (int before = 0; before < peer; ++before) {
    at += (output ? share(p, before, rank) : share(p, rank, before)) + p.gap;
  }
  return at;
}

bool has_input(const Problem& p, int rank) {
  const bool root_only =
      p.collective == Collective::kBroadcast || p.collective == Collective::kScatter;
  return p.collective != Collective::kBarrier && (!root_only || rank == p.root);
}

bool has_output(const Problem& p, int rank) {
  const bool root_only = p.collective == Collective::kReduce || p.collective == Collective::kGather;
  return p.collective != Collective::kBarrier && (!root_only || rank == p.root);
}

uint64_t input_elements(const Problem& p, int rank) {
  if (!has_input(p, rank)) return 0;
  switch (p.collective) {
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
    case Collective::kScatter:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return offset(p, false, rank, p.ranks);
    default:
      return share(p, rank, rank);
  }
}

uint64_t output_elements(const Problem& p, int rank) {
  if (!has_output(p, rank)) return 0;
  switch (p.collective) {
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kGather:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return offset(p, true, rank, p.ranks);
    default:
      return share(p, rank, rank);
  }
}

uint64_t place_of(const Problem& p, int rank) {
  if (output_is_part(p.collective)) return offset(p, false, rank, rank);
  const bool input_is_part = p.collective == Collective::kAllGather ||
                             p.collective == Collective::kAllGatherV ||
                             p.collective == Collective::kGather;
  return input_is_part ? offset(p, true, rank, rank) : 0;
}

namespace {

// Element `index` of an output with a share of every rank: who sent it, counted within the share.
Place sender_of(const Problem& p, int rank, uint64_t index) {
  if (p.counts.empty()) {
    return {static_cast<int>(index / p.count), index % p.count};
  }
  uint64_t begin = 0;
  for (int from = 0; from < p.ranks; ++from) {
    begin += p.gap;
    const uint64_t length = share(p, from, rank);
    if (index < begin) break;
    if (index < begin + length) return {from, index - begin};
    begin += length;
  }
  return {-1, 0};
}

}  // namespace

Place source_of(const Problem& p, int rank, uint64_t index) {
  switch (p.collective) {
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
      return {rank, offset(p, false, rank, rank) + index};
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kGather:
      return sender_of(p, rank, index);
    case Collective::kScatter:
      return {p.root, offset(p, false, p.root, rank) + index};
    case Collective::kAllToAll:
    case Collective::kAllToAllV: {
      Place place = sender_of(p, rank, index);
      if (place.rank >= 0) place.index += offset(p, false, place.rank, rank);
      return place;
    }
    case Collective::kBroadcast:
      return {p.root, index};
    default:
      return {rank, index};
  }
}

Expected reduce(const Problem& p, const Input& raw, uint64_t index) {
  const Input scaled = [&](int rank, uint64_t i) {
    return product(p.type, raw(rank, i), p.scalars[static_cast<size_t>(rank)]);
  };
  const Input& input = p.scalars.empty() ? raw : scaled;
  if (!is_float(p.type)) return reduce_integers(p, input, index);
  if (p.op == tuttiMax || p.op == tuttiMin) return pick_float(p, input, index);
  if (!p.canonical) return reduce_floats(p, input, index);
  return p.type == tuttiFloat64 ? reduce_canonically<double>(p, input, index)
                                : reduce_canonically<float>(p, input, index);
}

Expected expected(const Problem& p, const Input& input, int rank, uint64_t index) {
  const Place place = source_of(p, rank, index);
  if (reduces(p.collective)) return reduce(p, input, place.index);
  return {true, input(place.rank, place.index), 0, 0};
}

bool matches(tuttiDataType_t type, const Expected& expected, uint64_t got) {
  if (expected.bitwise) return expected.bits == got;
  // A NaN compares false, as it should.
  return std::fabs(decode(type, got) - expected.value) <= expected.tolerance;
}

std::string show(tuttiDataType_t type, uint64_t bits) {
  char text[96];
  if (is_float(type)) {
    std::snprintf(text, sizeof text, "%.17Lg (bits %#llx)", decode(type, bits),
                  static_cast<unsigned long long>(bits));
  } else {
    std::snprintf(text, sizeof text, "%.0Lf", decode(type, bits));
  }
  return text;
}

std::string show(tuttiDataType_t type, const Expected& expected) {
  if (expected.bitwise) return show(type, expected.bits);
  char text[96];
  std::snprintf(text, sizeof text, "%.17Lg +- %.3Lg", expected.value, expected.tolerance);
  return text;
}

}  // namespace tutti::reference
