// DiLoCo and Streaming DiLoCo: ranks train alone for `period` steps; the mean of how far they have
// gone is the gradient of an outer step of SGD with Nesterov momentum.
//
//   shared by all ranks (outer)    o --------------------------> o'
//   a rank's own                    \__ inner steps __> l .... l' --> a * l' + (1 - a) * o'
//   exchange of o - l                                  |<-delay->|           (a: mixing)
//
// Papers: DiLoCo (arXiv:2311.08105); Streaming DiLoCo (arXiv:2501.18512). Exact: fragments with
// their turns, delay, mixing, the outer step, values of 4 bits (codec e3m0) summed in fp32, the
// rules of torchft's public code (fragments divide the period, the delay is shorter than the time
// between two fragments, one fragment under way at a time). Reconstructed: the scale of e3m0 is one
// byte for each block (the paper's is not known); a vote is part of the exchange it is about, so
// that it cannot pass for another epoch's.
//
// Owns: an outer copy of the parameters and a momentum, 8 bytes a parameter; buffers of the largest
//       fragment. The rest is as optimizer.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/runtime/coded_gather.h"
#include "tutti/runtime/outer/optimizer.h"

namespace tutti::runtime {

/// Elements begin .. end - 1 of the parameters.
struct FragmentPart {
  int64_t begin = 0;
  int64_t end = 0;
};
/// Parameters that are exchanged together.
using Fragment = std::vector<FragmentPart>;

/// Layer l, of layer_elements[l] elements, is part of fragment l mod `fragments`.
TUTTI_RUNTIME_API std::vector<Fragment> strided_fragments(std::span<const int64_t> layer_elements,
                                                          int fragments);

struct StreamingSpec {
  int64_t period = 100;      // inner steps between two exchanges of one fragment
  int64_t delay = 0;         // steps from the begin of an exchange to when its result is due
  float mixing = 0;          // how much of a rank's own parameters stays: 0 to 1
  bool keeps_local = false;  // allows a mixing of 1, with which ranks never meet
  float rate = 0.7f;         // of the outer step
  float momentum = 0.9f;
  std::string codec = "none";
};

class TUTTI_RUNTIME_API StreamingDiLoCo : public OuterOptimizer {
 public:
  /// `params` are equal on all ranks. The fragments cover them, each element once; fragment p has
  /// its turn at steps (p + 1) * period / fragments, and then every `period` steps.
  StreamingDiLoCo(OuterGroup group, std::span<const float> params, std::vector<Fragment> fragments,
                  StreamingSpec spec);
  ~StreamingDiLoCo() override;

  /// The parameters that all ranks share.
  std::span<const float> outer() const;

 private:
  OuterReport at_boundary(int64_t step, std::span<float> params, bool commit) override;
  OuterReport take_rest(std::span<float> params) override;
  void join_group() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct DiLoCoSpec {
  int64_t period = 100;
  float rate = 0.7f;
  float momentum = 0.9f;
  std::string codec = "none";
};

/// One fragment, no delay, no mixing.
class TUTTI_RUNTIME_API DiLoCo final : public StreamingDiLoCo {
 public:
  DiLoCo(OuterGroup group, std::span<const float> params, const DiLoCoSpec& spec);
};

}  // namespace tutti::runtime
