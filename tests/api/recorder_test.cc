// A flight recorder says of a call in flight whom it waits for, and what has come from each peer
// and what has not, in which call. A late rank reads it from outside before it makes the call.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/trace/reader.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::join;
using testing_support::Member;
using testing_support::Network;
using testing_support::sum;
using testing_support::TeamShape;
using trace::CallRecord;
using trace::ExchangeRecord;
using trace::RecordState;

constexpr uint64_t kLimitNs = 120'000'000'000;
constexpr int kRanks = 4;
constexpr int kLate = kRanks - 1;

/// A process of every rank. The rank fails if `body` returns anything but tuttiSuccess.
void expect_ok(Network network, const std::function<tuttiResult_t(Member&, tuttiComm_t)>& body) {
  TeamShape shape = TeamShape::processes(kRanks);
  shape.environment.assign(kRanks, {{"TUTTI_LOG", "off"}});
  shape.use(network);
  const auto result = testing_support::run_team(
      shape,
      [&](Member& member) {
        tuttiComm_t comm = join(member);
        if (comm == nullptr) return;
        if (body(member, comm) != tuttiSuccess) member.fail(tuttiGetLastError(comm));
        tuttiCommDestroy(comm);
      },
      [](uint64_t step) { return "step " + std::to_string(step); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

/// The last call of rank 0, once `accepts` it, seen from another process.
std::optional<CallRecord> watch_first_rank(Member& member,
                                           const std::function<bool(const CallRecord&)>& accepts) {
  const pid_t process = member.board().slots[0].process.load();
  std::string last;
  for (const uint64_t begin_ns = testing_support::now_ns();
       testing_support::now_ns() - begin_ns < kLimitNs / 2; testing_support::sleep_ns(1'000'000)) {
    const Result<trace::Recorders> found = trace::read_process(process);
    if (!found.ok() || found.value().snapshots.empty()) continue;
    const trace::Snapshot& snapshot = found.value().snapshots.front();
    if (snapshot.calls.empty()) continue;
    if (accepts(snapshot.calls.back())) return snapshot.calls.back();
    last = trace::to_line(snapshot.calls.back(), testing_support::now_ns());
    for (const std::string& line : trace::to_lines(snapshot.calls.back(), 16)) last += "\n" + line;
  }
  member.fail("rank 0's recorder does not say it; last: " + last);
  return std::nullopt;
}

const ExchangeRecord* find(const CallRecord& call, uint32_t peer, bool sends) {
  const auto found = std::find_if(
      call.exchanges.begin(), call.exchanges.end(),
      [&](const auto& exchange) { return exchange.peer == peer && exchange.sends == sends; });
  return found == call.exchanges.end() ? nullptr : &*found;
}

bool is_complete(const ExchangeRecord* exchange) {
  return exchange != nullptr && exchange->complete == exchange->messages &&
         exchange->moved == exchange->bytes;
}

class InFlight : public testing::TestWithParam<Network> {};

// By cells and by a slot (on one host in the short form), by slots, or all by streams.
TEST_P(InFlight, ACollectiveSaysWhatCameFromWhom) {
  for (const size_t count : {size_t{2}, size_t{2000}, size_t{100'000}}) {
    expect_ok(GetParam(), [&](Member& member, tuttiComm_t comm) {
      tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
      options.algorithm = "one_shot";
      tuttiResult_t result = tuttiCommSetOptions(comm, &options);
      if (result == tuttiSuccess) result = sum(comm, count);
      if (result != tuttiSuccess || member.rank() != kLate) {
        return result == tuttiSuccess ? sum(comm, count) : result;
      }
      const auto call = watch_first_rank(member, [&](const CallRecord& seen) {
        const ExchangeRecord* other = find(seen, 1, false);
        return seen.state == RecordState::kRunning && seen.number == 2 && seen.waits_for == kLate &&
               other != nullptr && other->moved > 0;
      });
      if (!call) return tuttiSuccess;
      const ExchangeRecord* awaited = find(*call, kLate, false);
      const std::string text = trace::to_line(*call, 0);
      for (uint32_t peer = 1; peer < kRanks; ++peer) {
        const ExchangeRecord* from = find(*call, peer, false);
        if (from == nullptr || find(*call, peer, true) == nullptr || from->bytes != 4 * count) {
          member.fail("no lines of rank " + std::to_string(peer) + ": " + text);
          return tuttiSuccess;
        }
      }
      if (awaited->moved != 0 || awaited->complete != 0) member.fail("it had not come: " + text);
      return sum(comm, count);
    });
  }
}

TEST_P(InFlight, ABarrierSaysWhoHasNotCome) {
  expect_ok(GetParam(), [](Member& member, tuttiComm_t comm) {
    if (member.rank() == kLate) {
      (void)watch_first_rank(member, [](const CallRecord& seen) {
        return seen.state == RecordState::kRunning && seen.collective == "barrier" &&
               std::any_of(seen.exchanges.begin(), seen.exchanges.end(),
                           [](const auto& exchange) { return !is_complete(&exchange); });
      });
    }
    return tuttiBarrier(comm, tuttiBlocking());
  });
}

// A group of three transfers, and one before it, so that numbers are not all the same.
TEST_P(InFlight, SendsAndReceivesAreNumberedAndTyped) {
  expect_ok(GetParam(), [](Member& member, tuttiComm_t comm) {
    const tuttiStream_t now = tuttiBlocking();
    std::vector<int32_t> ints(100);
    std::vector<float> floats(10);
    if (member.rank() == 1) {
      tuttiResult_t result = tuttiSend(floats.data(), 10, tuttiFloat32, 0, comm, now);
      if (result == tuttiSuccess) {
        result = tuttiRecv(floats.data(), 10, tuttiFloat32, 0, comm, now);
      }
      return result == tuttiSuccess ? tuttiSend(floats.data(), 10, tuttiFloat32, 0, comm, now)
                                    : result;
    }
    if (member.rank() == 0) {
      tuttiResult_t result = tuttiRecv(floats.data(), 10, tuttiFloat32, 1, comm, now);
      if (result != tuttiSuccess) return result;
      tuttiGroupStart();
      std::vector<float> back(10);
      tuttiSend(floats.data(), 10, tuttiFloat32, 1, comm, now);
      tuttiRecv(back.data(), 10, tuttiFloat32, 1, comm, now);
      tuttiRecv(ints.data(), 100, tuttiInt32, kLate, comm, now);
      return tuttiGroupEnd();
    }
    if (member.rank() != kLate) return tuttiSuccess;
    const auto call = watch_first_rank(member, [](const CallRecord& seen) {
      return seen.state == RecordState::kRunning && seen.exchanges.size() == 3 &&
             is_complete(find(seen, 1, true)) && is_complete(find(seen, 1, false));
    });
    if (!call) return tuttiSuccess;
    const ExchangeRecord* from = find(*call, 1, false);
    const ExchangeRecord* awaited = find(*call, kLate, false);
    if (call->series != trace::Series::kTransfers || call->number != 2) member.fail("its number");
    if (from->number != 2 || from->type != "float" || find(*call, 1, true)->number != 1) {
      member.fail("the numbers of the transfers with rank 1");
    }
    if (awaited == nullptr || awaited->type != "int32" || awaited->number != 1 ||
        awaited->bytes != 400 || awaited->moved != 0) {
      member.fail("what is awaited");
    }
    return tuttiSend(ints.data(), 100, tuttiInt32, 0, comm, now);
  });
}

TEST_P(InFlight, AnAccessIsNumberedAndSaysWhomItWaitsFor) {
  expect_ok(GetParam(), [](Member& member, tuttiComm_t comm) {
    std::vector<char> part(64);
    tuttiWindow_t window = nullptr;
    tuttiResult_t result = tuttiCommWindowRegister(comm, part.data(), part.size(), &window, 0);
    if (result != tuttiSuccess) return result;
    if (member.rank() == 0) {
      result = tuttiWaitSignal(kLate, window, 0, 1, tuttiBlocking());
    } else if (member.rank() == kLate) {
      const auto call = watch_first_rank(member, [](const CallRecord& seen) {
        return seen.state == RecordState::kRunning && seen.series == trace::Series::kOneSided &&
               find(seen, kLate, false) != nullptr;
      });
      if (call && call->number != 1) member.fail("its number");
      result = tuttiSignal(0, window, 0, tuttiBlocking());
    }
    return result == tuttiSuccess ? tuttiCommWindowDeregister(comm, window) : result;
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, InFlight,
                         testing::Values(Network::kDefault, Network::kTcp, Network::kMixed));

TEST(Recorder, AScaledSumShowsItsOperation) {
  expect_ok(Network::kDefault, [](Member& member, tuttiComm_t comm) {
    tuttiRedOp_t op{};
    float half = 0.5f;
    tuttiResult_t result =
        tuttiRedOpCreatePreMulSum(&op, &half, tuttiFloat32, tuttiScalarHostImmediate, comm);
    float value = 1;
    if (result == tuttiSuccess) {
      result = tuttiAllReduce(&value, &value, 1, tuttiFloat32, op, comm, tuttiBlocking());
    }
    const auto found = trace::read_process(getpid());
    if (!found.ok() || found.value().snapshots.empty()) {
      member.fail("no recorder");
    } else if (found.value().snapshots[0].calls.back().op != "scaled_sum") {
      member.fail(trace::to_text(found.value().snapshots[0], 0));
    }
    return result == tuttiSuccess ? tuttiRedOpDestroy(op, comm) : result;
  });
}

}  // namespace
}  // namespace tutti::api_test
