// A group whose members agree over a network that loses, delays, repeats and reorders messages,
// splits, and whose members die at any step: all of it drawn from one seed.
//
// Threads: pure. Errors: violated() has a sentence per broken promise.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "src/base/prng.h"
#include "src/consensus/agreement.h"
#include "src/consensus/joiner.h"
#include "src/consensus/rules.h"
#include "tests/consensus/numbered.h"

namespace tutti::consensus {

/// Ticks of the simulated clock.
inline constexpr uint64_t kSimulatedRetry = 40;
inline constexpr uint64_t kSimulatedDelay = 15;  // the longest, once nothing fails any more
/// From the last fault on, every member that can decide has done so within these.
inline constexpr uint64_t kSimulatedBound = 400 * kSimulatedRetry;

/// The faults of a run; everything follows from the seed.
struct Scenario {
  uint64_t seed = 0;
  uint32_t members = 2;
  uint32_t newcomers = 0;
  uint32_t deaths = 0;
  uint32_t edits = 1;  // one after the other
  Judge judge = Judge::kMajority;
  Wish wish;              // of the first edit; the later ones remove whoever is dead
  double loss = 0;        // until the last fault
  bool splits = false;    // the network, for a while
  bool suspects = false;  // kMajority: one living member is taken for dead by some

  static Scenario draw(uint64_t seed);
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, const Rules& rules);
  void run();
  /// Empty: every promise held.
  const std::string& violated() const { return violated_; }
  /// Equal for equal runs.
  uint64_t trace() const { return trace_; }
  uint32_t adoptions() const { return adoptions_; }

 private:
  struct Node {
    bool dead = false;
    uint64_t steps_to_live = ~uint64_t{0};
    std::vector<std::unique_ptr<Agreement>> edits;  // by epoch
    std::unique_ptr<Joiner> joiner;
  };
  struct Event {
    enum class Kind : uint8_t { kDeliver, kTick, kBegin, kNotice, kHeal };
    uint64_t time = 0;
    uint64_t number = 0;  // of equal times, the first that was made
    Kind kind = Kind::kTick;
    MemberId node;
    MemberId about;  // kNotice
    std::shared_ptr<const EditMessage> message;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };

  void plan_faults();
  void put(Event event);
  void handle(const Event& event);
  void begin(MemberId member);
  void begin_edit(MemberId member, const View& present);
  void deliver(Node& node, const EditMessage& message);
  void after_step(MemberId member);
  void send_all(MemberId from, std::vector<Envelope> envelopes, size_t limit);
  void send(MemberId from, Envelope envelope);
  void kill(MemberId member);
  void notice_deaths_of(MemberId member);
  void inspect(MemberId member);
  void judge_view(const View& view, const View& previous, const Wish& wish);
  void judge_end();
  bool can_decide(const View& present, const Wish& wish) const;
  void fail(const std::string& what);

  const Scenario scenario_;
  const Rules& rules_;
  Prng random_;
  View first_;
  std::map<MemberId, Node> nodes_;
  std::map<uint32_t, View> adopted_;  // by epoch: what the first one adopted
  std::map<uint32_t, View> present_;  // by epoch that the view begins
  std::set<MemberId> suspected_;
  std::set<MemberId> one_side_;  // while the network is split
  bool healed_ = false;
  bool split_ = false;
  uint64_t now_ = 0;
  uint64_t last_fault_ = 0;
  uint64_t events_ = 0;
  uint64_t trace_ = 0xcbf29ce484222325;
  uint32_t adoptions_ = 0;
  std::string violated_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
};

/// The first broken promise of `count` runs from seed `first` on; empty: none is broken.
std::string first_violation(const Rules& rules, uint64_t first, uint64_t count);

}  // namespace tutti::consensus
