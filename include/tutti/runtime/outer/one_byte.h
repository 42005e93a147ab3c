// Just One Byte: ranks exchange one byte for each estimate of a gradient. An estimate is the slope
// of the loss along a random direction; everybody can make that direction again from its seed.
//
//   slope = (loss(x + eps * z) - loss(x - eps * z)) / (2 * eps)      sent as one byte: log_byte
//   x <- x - rate / messages * sum of slope * z                      by every rank, in one order
//
// Paper: Just One Byte (arXiv:2306.10015). Exact: SPSA, seeds of (iteration, machine, sample),
// replay of all directions. Ours: a code that is one byte (the public code's needs nine bits, and
// sends the float all the same); the decoded value is what everybody applies, its sender too;
// directions are sums of four uniform numbers with mean 0 and variance 1, made of integers, so that
// they have the same bits on every machine; ranks compare a hash of their parameters every
// `check_every` steps.
//
// Owns: a copy of the parameters while a loss is computed. The rest is as optimizer.h says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tutti/runtime/outer/optimizer.h"

namespace tutti::runtime {

/// The numbers that a direction is made of.
struct DirectionSeed {
  uint64_t seed = 0;
  int64_t iteration = 0;
  int64_t machine = 0;
  int64_t sample = 0;
};
/// params += factor * z.
TUTTI_RUNTIME_API void add_direction(std::span<float> params, const DirectionSeed& seed,
                                     float factor);
/// Equal where directions have the same bits; ranks compare it when they join.
TUTTI_RUNTIME_API uint64_t known_answer();

/// The byte of a slope. Throws Error for NaN and infinity.
TUTTI_RUNTIME_API uint8_t encode_slope(float slope);
TUTTI_RUNTIME_API float decode_slope(uint8_t code);

struct SlopeMessage {
  int64_t iteration = 0;
  int64_t machine = 0;
  int64_t sample = 0;
  uint8_t code = 0;
};

struct ReplaySpec {
  uint64_t seed = 0;
  int64_t iteration = 0;
  int64_t machines = 1;  // messages come from machines 0 .. machines - 1
  float rate = 1e-3f;
};
/// One step of all messages, in the order of machines and samples, whatever order they are given
/// in. Throws Error, and changes nothing, for a message that occurs twice, is of another iteration,
/// of an unknown machine, or holds no number.
TUTTI_RUNTIME_API void replay(std::span<const SlopeMessage> messages, const ReplaySpec& spec,
                              std::span<float> params);

TUTTI_RUNTIME_API uint64_t hash_of(std::span<const float> params);

struct OneByteSpec {
  uint64_t seed = 0;
  int samples = 1;  // of each rank in a step
  float epsilon = 1e-3f;
  float rate = 1e-3f;
  int64_t check_every = 64;  // steps
};

class TUTTI_RUNTIME_API OneByte final : public OuterOptimizer {
 public:
  /// The loss of a sample of this rank; it is called twice for each, within boundary().
  using Loss = std::function<double(std::span<const float> params, int64_t step, int sample)>;

  /// `params` are equal on all ranks. boundary() is the whole step: there is no inner one. A rank
  /// whose loss is no finite number, or that votes against, sends a byte that all leave out.
  OneByte(OuterGroup group, std::span<const float> params, const OneByteSpec& spec, Loss loss);
  ~OneByte() override;

 private:
  OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) override;
  OuterReport take_rest(std::span<float> params) override;
  void join_group() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
