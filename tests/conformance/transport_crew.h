// Ranks as threads, for the conformance tests of transports: members, their transports, all links.
//
// The suite knows no transport by name. For each registered one it looks for the most distant
// setting in which it works: other hosts, other processes of one host, threads of one process.
//
// Owns:    everything it makes.
// Threads: links are made by one thread per rank.
// Errors:  Status.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/watch.h"
#include "src/registry/transports.h"

namespace tutti::conformance {

enum class Distance { kHosts, kProcesses, kThreads };

inline constexpr uint64_t kCommunicator = 0x7e57;
inline constexpr uint64_t kPatienceNs = 60'000'000'000;  // sanitizers on a busy machine
inline constexpr size_t kArenaBytes = 4 << 20;

/// A member with a key that all members of the tests share.
transport::Member make_member(int rank, int ranks, Distance distance);

/// One rank: a member with its memory, a transport and the links it has made.
struct Rank {
  transport::Arena arena;
  transport::Member member;
  std::unique_ptr<transport::Transport> transport;
  std::map<int, std::unique_ptr<transport::Link>> links;

  transport::Link& link(int peer) { return *links.at(peer); }
};

/// May differ from rank to rank: how a test makes one of them a stranger.
using Adjust = std::function<void(transport::Member&)>;

class Crew {
 public:
  /// Null if this transport works at none of the distances.
  static std::unique_ptr<Crew> create(const registry::TransportEntry& entry, int ranks,
                                      const Adjust& adjust = {});
  ~Crew();

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int index) { return *ranks_[static_cast<size_t>(index)]; }
  transport::Link& link(int rank_index, int peer) { return rank(rank_index).link(peer); }

  /// Everyone with everyone; rank r starts with peer r + 1 and goes round. A connection that is
  /// made at the first use is made now.
  Status connect_all();
  /// The result for rank `from` of connecting to `to` alone; `card` may be another `to`'s.
  Status connect_one(int from, int to, uint64_t deadline_ns);
  Status connect_one(int from, int to, const std::string& card, uint64_t deadline_ns);

 private:
  bool serve();
  static std::unique_ptr<Crew> at(const registry::TransportEntry& entry, int ranks,
                                  Distance distance, const Adjust& adjust);

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<bootstrap::Watch> watch_;  // serves the transports
};

/// Runs f(0) ... f(count - 1) on threads of their own.
void in_parallel(int count, const std::function<void(int)>& f);

/// Drives the stream until the condition holds; false if the link fails or patience ends.
bool drive(transport::Link& link, const std::function<bool()>& until);

std::vector<std::byte> pattern(size_t bytes, unsigned seed);

/// One test per registered transport; skipped with its reason where it reaches nobody here.
class TransportTest : public testing::TestWithParam<registry::TransportEntry> {
 protected:
  void SetUp() override;
  /// Connected ranks; null after a failure or a skip, which has been reported.
  std::unique_ptr<Crew> connected(int ranks);
  /// The same for tests of streams: skips a transport that has none.
  std::unique_ptr<Crew> streaming(int ranks);
};

std::string name_of(const testing::TestParamInfo<registry::TransportEntry>& info);

/// Those that are registered. Where this machine lacks the hardware of one, there is software in
/// its place, if there is such for it.
std::vector<registry::TransportEntry> transports_here();

#define TUTTI_FOR_EVERY_TRANSPORT(suite) \
  INSTANTIATE_TEST_SUITE_P(Every, suite, testing::ValuesIn(transports_here()), name_of)

}  // namespace tutti::conformance
