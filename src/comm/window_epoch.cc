// The part of Window about edits: what goes from one epoch to the next, and who is kept out.
#include "src/comm/window.h"

namespace tutti::comm {

// Signals belong to members, whatever their ranks. Those that this rank has waited for count no
// more, and a newcomer has raised none.
void Window::take_signals(const Window& before) {
  const std::vector<MemberId>& members = members_.group()->members();
  const SharedPartState& old = before.parts_[before.rank_].board;
  for (uint32_t rank = 0; rank < parts_.size(); ++rank) {
    const int was = before.members_.rank_of(members[rank]);
    if (was < 0) continue;
    const auto source = static_cast<uint32_t>(was);
    for (uint32_t signal = 0; signal < kSignals; ++signal) {
      const uint64_t raised = old.signals(source)[signal].load(std::memory_order_acquire);
      const uint64_t left = raised - before.waited_[source * kSignals + signal];
      parts_[rank_].board.signals(rank)[signal].store(left, std::memory_order_release);
    }
  }
}

// Where there is no connection nothing was put, and on one host it is there at once.
std::vector<Access> Window::flushes() {
  std::vector<Access> gets;
  for (uint32_t peer = 0; peer < parts_.size(); ++peer) {
    const WindowPart& part = parts_[peer];
    if (part.remote == nullptr || part.is_absent || part.link == nullptr) continue;
    if (part.link->state() != transport::Link::State::kConnected) continue;
    Access get;
    get.kind = Access::Kind::kGet;
    get.peer = peer;
    get.window = this;
    if (check(get).ok()) gets.push_back(get);
  }
  return gets;
}

void Window::bar(int peer, bool out) const {
  parts_[rank_].board.bar(static_cast<uint32_t>(peer), out);
}

bool Window::has_captured_puts(int peer) const {
  const auto source = static_cast<uint32_t>(peer);
  return parts_[rank_].board.captured(source).load(std::memory_order_seq_cst) != 0;
}

bool Window::is_inside(int peer) const {
  const auto source = static_cast<uint32_t>(peer);
  const SharedPartState& own = parts_[rank_].board;
  return own.inside(source).load(std::memory_order_seq_cst) != 0 ||
         own.held(source).load(std::memory_order_seq_cst) != 0;
}

}  // namespace tutti::comm
