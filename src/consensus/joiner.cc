#include "src/consensus/joiner.h"

#include <limits>
#include <utility>

namespace tutti::consensus {

Joiner::Joiner(View present, MemberId self, std::string card, uint64_t retry)
    : present_(std::move(present)),
      view_(present_.digest()),
      self_(self),
      card_(std::move(card)),
      retry_(retry) {}

void Joiner::tick(uint64_t now) {
  if (now < wake_at_ || adopted_ || left_behind_) return;
  EditMessage here;
  here.kind = EditMessage::Subject::kHere;
  here.from = self_;
  here.epoch = present_.epoch;
  here.view = view_;
  here.text = card_;
  for (const MemberId member : present_.members) outbox_.push_back({member, here});
  wake_at_ = now + retry_;
}

void Joiner::receive(const EditMessage& message) {
  const bool is_decision = message.kind == EditMessage::Subject::kAdopted &&
                           message.view == view_ && message.proposal->view.previous == view_ &&
                           present_.holds(message.from);
  if (!is_decision || adopted_) return;
  wake_at_ = std::numeric_limits<uint64_t>::max();
  if (message.proposal->view.holds(self_)) {
    adopted_ = message.proposal->view;
  } else {
    left_behind_ = true;
  }
}

std::vector<Envelope> Joiner::take_messages() { return std::exchange(outbox_, {}); }

}  // namespace tutti::consensus
