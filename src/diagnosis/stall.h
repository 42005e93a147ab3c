// Why a call takes long, and which rank is to blame for it.
//
// A rank whose call waits goes through these states:
//
//   WAIT     The rank publishes the peer that it waits for, again and again: in its arena for the
//     |      ranks of its host, by notes of the streams for all others.
//     |----> a peer gave up or is gone, or the calls of two ranks differ: GIVE UP
//     |      the verdict is due within a second
//   ASK      The rank follows the chain: its peer waits for a second rank, that one for a third. It
//     |      asks ranks of other hosts that it has not heard of; their control threads answer.
//     |      the verdict is due (up to a second later while an answer may still come)
//   BLAME    The culprit is the rank at the end of the chain: it has not been seen waiting for a
//     |      while, so it computes, is stopped, or is cut off.
//     |----> TUTTI_SLOW has passed: REPORT, which is a line in the log, and back to WAIT
//     '----> the deadline has passed: GIVE UP
//
//   GIVE UP  leave() tells all ranks that this rank has failed and which rank is the cause, and
//            ends the group's epoch on its links.
//
// A stopped rank cannot hide: the ranks of its host read its words in the arena, and all others
// notice that its notes stay away. A call that does not wait runs nothing of this.
//
// Threads: that of the calls; cause_told_by() from any, answer() from the control thread.
// Units: nanoseconds of CLOCK_MONOTONIC.
// Errors: check() says why a call cannot go on, and cause() which rank is the cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/diagnosis/contact.h"
#include "src/diagnosis/health.h"
#include "src/diagnosis/loss.h"
#include "src/trace/recorder.h"
#include "src/transport/transport.h"

namespace tutti::diagnosis {

/// Lanes of the notes beside the messages of streams (transport::Note).
inline constexpr uint32_t kControlLane = ~0u;     // which peer a rank waits for, in which call
inline constexpr uint32_t kNoticeLane = ~0u - 1;  // diagnosis::PeerWatch: a rank is gone
inline constexpr uint32_t kAskLane = ~0u - 2;     // a question: in which call are you?
inline constexpr uint32_t kCallLane = ~0u - 3;  // the description of the call in which a rank waits
inline constexpr uint32_t kLastLane = ~0u - 4;  // diagnosis::PeerWatch: this rank has given up

/// How far a call has come that has waited for long.
struct LongWait {
  const char* what = "";   // for messages: "all_reduce"
  uint32_t signature = 1;  // 0 for send and receive only, which not all ranks take part in
  uint64_t deadline_ns = ~uint64_t{0};
  uint32_t number = 0;     // of the call
  uint32_t transfers = 0;  // so far: send and receive have no number
  uint32_t peer = 0;       // the rank that it waits for
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
  /// Tells `peer` which call this rank makes, before a message of that call, so that the peer can
  /// name both calls if they differ. It is told only when `runs` has changed: when the call is not
  /// the same as the one before it.
  void announce_call(uint32_t peer, uint32_t number, uint32_t runs) {
    if (announced_[peer] != runs) [[unlikely]]
      announce_new_call(peer, number, runs);
  }
  /// A wait that check() was told of has ended. A rank that asks from now on does not hear of it.
  void ended() { mine_.awake_ns->store(0, std::memory_order_release); }
  /// An error if the waiting rank and the peer have made different calls.
  Status compare_calls(const LongWait& wait, uint32_t peer);
  /// The cause of the last error, as far as it is known.
  const Cause& cause() const { return cause_; }
  /// This rank gives up: it tells all ranks, and ends the group's epoch on its links. The links
  /// stay, except those to peers that could still write to the memory of this rank's calls and do
  /// not confirm in time that they will not. The words returned name these peers; there are mostly
  /// none.
  std::string leave(uint32_t number, const Loss& loss);
  /// Whether a peer waits for this rank in a call that this rank has not entered. From any thread.
  bool is_awaited() const;
  /// The reason that `peer`, a rank of another host, gave for giving up; not known if it gave none.
  Cause cause_told_by(uint32_t peer) const;
  /// Writes into `exchange` all that is known of its peer.
  void describe_peer(trace::ExchangeState& exchange) const;
  /// From the control thread: tells the ranks that wait for this one which call it is in. A rank
  /// that waits tells them itself, in the thread of its call.
  void answer();
  /// From the control thread: answers the question of `peer`.
  void answer(uint32_t peer);

 private:
  /// All that is known of another rank.
  struct Situation {
    bool known = false;
    uint32_t number = 0;   // of its present or last call
    uint32_t peer = 0;     // the rank that it waited for when it was last seen
    uint64_t seen_ns = 0;  // when it was last seen waiting; 0: it does not wait
    uint64_t told_ns = 0;  // when its last note came
    Cause cause;           // of giving up, if it has
  };
  /// The end of the chain of ranks that wait for each other.
  struct BlameChain {
    uint32_t culprit = 0;
    bool open = false;  // the rank may still answer that it waits, too
  };
  struct Heard {
    uint64_t serial = 0;
    uint64_t at_ns = 0;
    uint64_t asked_ns = 0;  // when this rank asked it
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
  Status remote_report(Status status, uint64_t patience_ns);
  void tell_all(uint32_t number, const Loss& loss);
  bool has_let_go(const Contact& peer) const;
  bool have_all_let_go() const;
  std::string sever_the_rest() const;
  Situation situation_of(uint32_t rank) const;
  uint64_t silence_ns(uint64_t now_ns) const;
  bool waits(const Situation& situation, uint64_t now_ns) const;
  bool may_answer(uint32_t rank, uint64_t now_ns) const;
  BlameChain find_culprit(const LongWait& wait, uint64_t now_ns) const;
  BlameChain query(const LongWait& wait, uint64_t now_ns);
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
  std::vector<uint32_t> announced_;       // by rank: the call of this rank that it was told last
  std::vector<uint64_t> answered_;        // by rank: notes so far; of the control thread

  Mutex leave_mutex_;
  // This rank has given up, and tells nothing more.
  bool left_ TUTTI_GUARDED_BY(leave_mutex_) = false;

  std::optional<uint64_t> episode_;  // the call and transfer that the times below belong to
  uint64_t since_ns_ = 0;
  uint64_t told_ns_ = 0;
  uint32_t told_call_ = 0;  // the last call whose description other hosts have
  uint64_t heard_ns_ = 0;
  uint64_t reported_ns_ = 0;
  uint64_t query_ns_ = 0;       // since when this rank looks for the culprit; 0: it does not
  uint64_t gave_up_at_ns_ = 0;  // when a peer was first seen to have failed
  Cause cause_;
};

}  // namespace tutti::diagnosis
