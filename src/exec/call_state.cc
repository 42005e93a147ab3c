// The parts of CallState that a healthy call on one host enters for no more than a comparison of
// signatures, and now and then a look at its deadline: streams, failures, mismatches.
#include "src/exec/call_state.h"

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/diagnosis/stall.h"

namespace tutti::exec {
namespace {

diagnosis::StallOptions diagnosis_options(const ExecutorOptions& options) {
  return {options.rank, options.communicator, options.epoch, options.slow_ns, options.recorder};
}

std::vector<diagnosis::Contact> contacts_of(const std::vector<Peer>& peers) {
  std::vector<diagnosis::Contact> contacts;
  for (const Peer& peer : peers) {
    const bool has_words = peer.arena.valid();
    contacts.push_back(
        {has_words ? peer.arena.words() : diagnosis::RankWords(), peer.stream, peer.link});
  }
  return contacts;
}

}  // namespace

CallState::CallState(const ExecutorOptions& options, std::vector<Peer> peers, Health& health)
    : options_(options),
      peers_(std::move(peers)),
      health_(health),
      mine_(peers_[static_cast<size_t>(options.rank)].arena),
      number_(options.calls_before),
      log_(mine_.log()),
      transfers_(options.calls_before) {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    has_streams_ = has_streams_ || peers_[rank].stream != nullptr;
    const bool other = rank != static_cast<uint32_t>(options.rank);
    if (other && peers_[rank].arena.valid()) domain_.push_back(rank);
  }
  mine_.counter(0).call.store(uint64_t{number_} << 32, std::memory_order_release);
  stall_ = std::make_unique<Stall>(diagnosis_options(options_), contacts_of(peers_), health_);
}

CallState::~CallState() = default;

bool CallState::poll_streams() {
  bool moved = false;
  for (Peer& peer : peers_) {
    if (peer.stream != nullptr && peer.stream->progress()) moved = true;
  }
  return moved;
}

void CallState::announce_far() {
  call_.far_signature = far_chain_ = chained(far_chain_, call_.far_signature);
  stall_->entered(number_, far_chain_);
}

void CallState::prioritize(transport::Priority priority) {
  if (std::exchange(priority_, priority) == priority) return;
  for (const Peer& peer : peers_) {
    if (peer.stream == nullptr) continue;
    peer.stream->prioritize({options_.communicator, options_.epoch}, priority);
  }
}

void CallState::announce_to(uint32_t peer) { stall_->announce_call(peer, number_, log_.runs()); }

void CallState::fail(Status status) {
  const bool differ = status.code() == Code::kInvalidUsage;
  const auto peer = static_cast<int>(waiting_for_);
  fail(std::move(status), {peer, differ && peer != options_.rank ? options_.rank : -1});
}

void CallState::fail(Status status, const Cause& cause) {
  if (!status_.ok()) return;
  if (options_.recorder != nullptr && options_.recorder->in_call()) {
    attempt([this] { tell_progress(); });
  }
  status_ = std::move(status);
  const Loss loss{options_.rank, cause};
  mine_.counter(0).failed.store(loss.word(), std::memory_order_release);
  if (!leaving_) tell(loss);
  const bool inside = mine_.guard().inside.load(std::memory_order_relaxed) != 0;
  if (!inside) close_buffers();  // else when the work in hand is done
}

void CallState::end_leaving() {
  if (!std::exchange(leaving_, false)) return;
  const uint64_t failed = mine_.counter(0).failed.load(std::memory_order_relaxed);
  if (const auto loss = Loss::read(failed, peers_.size())) tell(*loss);
}

void CallState::tell(const Loss& loss) {
  const std::string severed = stall_->leave(number_, loss);
  left_->store(true, std::memory_order_release);
  if (!severed.empty()) status_ = Status(status_.code(), std::string(status_.message()) + severed);
}

bool CallState::is_shut_out() {
  const uint64_t closed = mine_.guard().closed.load(std::memory_order_seq_cst);
  if (closed == 0) return false;
  if (static_cast<int32_t>(number_ - static_cast<uint32_t>(closed)) < 0) return false;
  const auto rank = static_cast<uint32_t>(closed >> 32) - 1;
  if (rank < peers_.size()) waiting_for_ = rank;  // in vain: check_rare() finds out
  return true;
}

// A rank that returns with an error may free its buffers at once, while peers still read or write
// there. So it tells them to keep away, and waits for those that are at it: each looks again before
// the next piece, if it lives. Threads of this process live as long as this one; other processes
// reach buffers by mappings of their own, where patience is enough.
void CallState::close_buffers() {
  if (!exposed_) return;
  exposed_ = false;
  const uint64_t mine = static_cast<uint64_t>(options_.rank + 1) << 32 | number_;
  for (const uint32_t rank : domain_) {
    std::atomic<uint64_t>& closed = peers_[rank].arena.guard().closed;
    // As strong as a store: a rank that finds it closed already looks at `inside` behind that, too.
    uint64_t before = closed.load(std::memory_order_seq_cst);
    // The first call that a rank left counts.
    while (before == 0 || static_cast<int32_t>(static_cast<uint32_t>(before) - number_) > 0) {
      if (closed.compare_exchange_weak(before, mine, std::memory_order_seq_cst)) break;
    }
  }
  const uint64_t until_ns = monotonic_ns() + kStretchPatienceNs;
  for (const uint32_t rank : domain_) {
    const Peer& peer = peers_[rank];
    const bool thread = peer.link != nullptr && peer.link->capabilities().all_memory;
    Backoff backoff(options_.spins);
    while (peer.arena.guard().inside.load(std::memory_order_seq_cst) != 0) {
      if (!thread && monotonic_ns() > until_ns) break;
      backoff.pause();
    }
  }
}

diagnosis::LongWait CallState::wait_at(uint32_t peer) const {
  diagnosis::LongWait wait{
      call_.what, call_.signature, call_.deadline_ns, number_, transfers_, peer, 0, 0};
  if (source_ == nullptr) return wait;
  const ProgressSource::StepPlace at = source_->step();
  wait.lane = at.lane;
  wait.step = at.step;
  return wait;
}

void CallState::tell_progress() {
  if (source_ != nullptr) source_->tell_progress(*options_.recorder, *stall_);
}

void CallState::check_rare() {
  if (!status_.ok()) return;
  spoke_ = true;
  if (Status status = stall_->check(wait_at(waiting_for_)); !status.ok()) {
    const Cause cause = stall_->cause();
    // A rank that others blame tells the third ones about the other side; one that finds the fault
    // in its own arguments does not.
    const bool own = cause.rank == options_.rank && !cause.calls_differ();
    const bool blamed = own && status.code() != Code::kInvalidArgument;
    if (!cause.known() || blamed) return fail(std::move(status));
    fail(std::move(status), cause);
  } else if (options_.recorder != nullptr && options_.recorder->lines_due(monotonic_ns())) {
    tell_progress();
  }
}

// It does not say that it waits, and looks at no peer: none is waited for.
void CallState::check_while_moving() {
  if (!status_.ok()) return;
  const Cause self{options_.rank, -1};
  if (Status lost = health_.check(); !lost.ok()) {
    const Cause cause = health_.cause();
    return fail(std::move(lost), cause.known() ? cause : self);
  }
  if (monotonic_ns() <= call_.deadline_ns) return;
  fail(Status::timeout(std::string(call_.what) + " on " + health_.name_of(options_.rank) +
                       " passed its deadline while its data moved: give it more time"),
       self);
}

bool CallState::check_after_moving() {
  unseen_bytes_ = 0;
  check_while_moving();
  return status_.ok();
}

void CallState::end_long_wait() {
  spoke_ = false;
  stall_->ended();
}

bool CallState::compare_calls(uint32_t peer) {
  if (Status status = stall_->compare_calls(wait_at(peer), peer); !status.ok()) {
    fail(std::move(status), stall_->cause());
  }
  return status_.ok();
}

}  // namespace tutti::exec
