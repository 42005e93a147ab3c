// A rank whose call takes long says which rank it waits for, hears which ranks the others wait for,
// and finds the one that all of them wait for in the end.
//
// Ranks of one host read each other's words in the arenas, so a stopped rank cannot hide them;
// ranks of other hosts tell each other by notes of the streams. A rank that waits says so again and
// again: one that has not been seen waiting for a while is the one that the others wait for,
// whatever it does (it computes before its next call, is stopped, or cut off). A rank that must
// name the culprit asks those that it has not heard of, one after the other along the chain of
// ranks that wait for each other; their control threads answer. Nothing here runs in a call that
// does not wait.
//
// Threads: that of the calls; cause_told_by() from any, answer() from the control thread.
// Units: nanoseconds of CLOCK_MONOTONIC.
// Errors: check() says why a call cannot go on, and cause() whom it is about.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/diagnosis/contact.h"
#include "src/diagnosis/health.h"
#include "src/diagnosis/loss.h"
#include "src/trace/recorder.h"
#include "src/transport/transport.h"

namespace tutti::diagnosis {

/// Lanes of the notes beside the messages of streams (transport::Note).
inline constexpr uint32_t kControlLane = ~0u;   // whom a rank waits for, what it is in
inline constexpr uint32_t kNewsLane = ~0u - 1;  // diagnosis::PeerWatch: who is gone
inline constexpr uint32_t kAskLane = ~0u - 2;   // what are you in?
inline constexpr uint32_t kCallLane = ~0u - 3;  // what the call is that a rank waits in
inline constexpr uint32_t kLastLane = ~0u - 4;  // diagnosis::PeerWatch: this rank has given up

/// Where a call stands that waits for long.
struct LongWait {
  const char* what = "";   // for messages: "all_reduce"
  uint32_t signature = 1;  // 0 for send and receive only, which not all ranks take part in
  uint64_t deadline_ns = ~uint64_t{0};
  uint32_t number = 0;     // of the call
  uint32_t transfers = 0;  // so far: send and receive have no number
  uint32_t peer = 0;       // that it waits for
  uint32_t lane = 0;
  uint32_t step = 0;
};

struct StallOptions {
  int rank = 0;
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  uint64_t slow_ns = ~uint64_t{0};      // after which a call is reported
  trace::Recorder* recorder = nullptr;  // told of long waits; may be null
};

class Stall {
 public:
  /// The contacts are all ranks of the group, this one included; everything that they point to
  /// outlives the object, as do `health` and the recorder.
  Stall(const StallOptions& options, std::vector<Contact> contacts, Health& health);

  int rank() const { return options_.rank; }
  /// By rank.
  const std::vector<Contact>& contacts() const { return contacts_; }
  /// Where notes about this group go.
  transport::ChannelId channel(uint32_t lane) const;
  transport::EpochId epoch() const { return {options_.communicator, options_.epoch}; }

  /// A collective begins; only where there are streams.
  void entered(uint32_t number, uint32_t far_signature) {
    far_signatures_[number % kRecentCalls] = far_signature;
  }
  /// Why the wait should end: failures, mismatches, the deadline; OK if it should not.
  Status check(const LongWait& wait);
  /// A message to or from `peer` follows, of a call that differs from the one before it if `runs`
  /// does: so that the peer can say what this rank called.
  void announce_call(uint32_t peer, uint32_t number, uint32_t runs) {
    if (announced_[peer] != runs) [[unlikely]]
      announce_new_call(peer, number, runs);
  }
  /// A wait that check() was told of has ended: who asks from now on hears nothing of it.
  void ended() { mine_.awake_ns->store(0, std::memory_order_release); }
  /// The waiting rank's call and the peer's are different ones.
  Status compare_calls(const LongWait& wait, uint32_t peer);
  /// The cause of the last error, as far as it is known.
  const Cause& cause() const { return cause_; }
  /// This rank gives up: says so to all ranks, and ends the group's epoch on its links, which stay.
  /// A link is ended only if the peer could still write to memory of this rank's calls and does not
  /// say in time that it will not: the words returned name those peers; mostly none.
  std::string leave(uint32_t number, const Loss& loss);
  /// Whether a peer waits for this rank in a call that this rank has not entered. From any thread.
  bool is_awaited() const;
  /// Why `peer` on another host gave up; not known if it has said nothing.
  Cause cause_told_by(uint32_t peer) const;
  /// Writes all that is known of the peer of `exchange` into it.
  void describe_peer(trace::ExchangeState& exchange) const;
  /// From the control thread: tells those who wait for this rank what it is in, if it does not
  /// itself.
  void answer();
  /// From the control thread: tells `peer`, which asked.
  void answer(uint32_t peer);

 private:
  /// All that is known of another rank.
  struct Situation {
    bool known = false;
    uint32_t number = 0;   // of the call it is in, or was in last
    uint32_t peer = 0;     // whom it waits for, when it was seen
    uint64_t seen_ns = 0;  // waiting; 0: it does not
    uint64_t told_ns = 0;  // when it last said anything by a note
    Cause cause;           // it gave up because of that
  };
  /// Where following who waits for whom ended.
  struct Trail {
    uint32_t culprit = 0;
    bool open = false;  // it may still say that it waits, too
  };
  struct Heard {
    uint64_t serial = 0;
    uint64_t at_ns = 0;
    uint64_t asked_ns = 0;  // when it was
    transport::Note note;
  };

  void begin(const LongWait& wait, uint64_t now_ns);
  void say(const LongWait& wait, uint64_t now_ns);
  Status hear(const LongWait& wait, uint64_t now_ns);
  Status judge_link(const LongWait& wait, uint32_t peer);
  Status judge_note(const LongWait& wait, uint32_t peer, const transport::Note& note);
  Status diagnose(const LongWait& wait);
  Status compare_with_host(const LongWait& wait);
  std::optional<std::string> compare(uint32_t peer, const std::optional<DescribedCall>& its,
                                     const std::optional<DescribedCall>& others) const;
  void announce_new_call(uint32_t peer, uint32_t number, uint32_t runs);
  std::optional<transport::Note> note_of_call(uint32_t number) const;
  Status mismatch_at(const LongWait& wait, uint32_t peer, Status found) const;
  Status hearsay(Status status, uint64_t patience_ns);
  void tell_all(uint32_t number, const Loss& loss);
  bool has_let_go(const Contact& peer) const;
  bool have_all_let_go() const;
  std::string sever_the_rest() const;
  Situation situation_of(uint32_t rank) const;
  uint64_t silence_ns(uint64_t now_ns) const;
  bool waits(const Situation& situation, uint64_t now_ns) const;
  bool may_answer(uint32_t rank, uint64_t now_ns) const;
  Trail find_culprit(const LongWait& wait, uint64_t now_ns) const;
  Trail inquire(const LongWait& wait, uint64_t now_ns);
  Status conclude(const LongWait& wait, uint32_t culprit, uint64_t now_ns);
  std::string describe(const LongWait& wait, uint32_t culprit, uint64_t now_ns) const;
  std::string waiting_ranks(uint32_t culprit, uint64_t now_ns) const;
  void tell_host(const Loss& loss) const;
  void tell_unless_left(uint32_t peer, const transport::Note& note);

  StallOptions options_;
  std::vector<Contact> contacts_;
  Health& health_;
  RankWords mine_;
  bool has_streams_ = false;
  std::vector<uint32_t> far_signatures_;  // of the last calls, for peers that are behind
  std::vector<Heard> heard_;              // by rank
  std::vector<uint32_t> announced_;       // by rank: which of this rank's calls it knows
  std::vector<uint64_t> answered_;        // by rank: notes so far; of the control thread

  std::mutex leave_mutex_;
  bool left_ = false;  // under leave_mutex_: what was told last stands

  std::optional<uint64_t> episode_;  // the call and transfer the times below belong to
  uint64_t since_ns_ = 0;
  uint64_t told_ns_ = 0;
  uint32_t told_call_ = 0;  // the last one that other hosts know what it is
  uint64_t heard_ns_ = 0;
  uint64_t reported_ns_ = 0;
  uint64_t inquiry_ns_ = 0;     // since when this rank asks who is to blame; 0: it need not know
  uint64_t gave_up_at_ns_ = 0;  // when a peer was first seen to have failed
  Cause cause_;
};

}  // namespace tutti::diagnosis
