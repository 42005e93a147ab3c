// The newcomer's side of an edit: it repeats that it is there until it is told of the view that
// holds it.
//
// Threads: one object belongs to one thread. Units: ticks. Errors: none; the caller has a deadline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/consensus/message.h"
#include "src/consensus/view.h"

namespace tutti::consensus {

class Joiner {
 public:
  /// `card` is what the members need to reach this newcomer; `retry` ticks lie between two calls.
  Joiner(View present, MemberId self, std::string card, uint64_t retry);

  void tick(uint64_t now);
  void receive(const EditMessage& message);
  std::vector<Envelope> take_messages();
  uint64_t wake_at() const { return wake_at_; }
  /// The view that holds this newcomer. One that is adopted without it tells it nothing: the
  /// members may wait for another newcomer only, and a later edit may take this one.
  const std::optional<View>& adopted() const { return adopted_; }
  /// The group has gone on without this newcomer, to the epoch after the one it knows.
  bool left_behind() const { return left_behind_; }

 private:
  const View present_;
  const Digest view_;
  const MemberId self_;
  const std::string card_;
  const uint64_t retry_;
  uint64_t wake_at_ = 0;
  std::optional<View> adopted_;
  bool left_behind_ = false;
  std::vector<Envelope> outbox_;
};

}  // namespace tutti::consensus
