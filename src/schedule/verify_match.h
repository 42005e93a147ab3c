// Which SEND feeds which MOVE: the k-th of a channel feeds the k-th.
//
// Channels hold nothing back and reorder nothing, so the matching is known before anything runs,
// and running is then only a question of order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/verify_program.h"

namespace tutti::schedule::verifier {

inline constexpr uint32_t kNoMessage = 0xffffffffu;

struct MatchedMessage {
  StepRef send;
  StepRef move;
  uint32_t number = 0;  // in its channel; the channel's messages follow each other in Matching
};

class Matching {
 public:
  /// Also checks that paired block lists have equal sizes.
  static Result<Matching> of(const Program& program);

  std::span<const MatchedMessage> messages() const { return messages_; }
  uint32_t longest_channel() const { return longest_channel_; }

  /// One entry per operand of the step: the message, or kNoMessage for a local source.
  std::span<const uint32_t> of_step(uint32_t step_number) const {
    const uint32_t begin = first_[step_number];
    return {ids_.data() + begin, first_[step_number + 1] - begin};
  }

 private:
  friend class Matcher;
  std::vector<MatchedMessage> messages_;
  std::vector<uint32_t> ids_;
  std::vector<uint32_t> first_;  // per step of all ranks, and the end
  uint32_t longest_channel_ = 0;
};

}  // namespace tutti::schedule::verifier
