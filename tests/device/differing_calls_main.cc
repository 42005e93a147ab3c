// differing_calls: one rank of several calls something else on device memory than the others. Every
// rank's stream goes on, every rank learns which two calls differ, and nobody's memory is written
// beside its output.
//
//   --rounds N   differences, each on a communicator of its own (default 20)
//   --seed S     what to draw from (default 1)
//   --equal 1    nobody differs: then it is wrong to say so
//   --ranks N (default 4)  --threads 0
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <algorithm>
#include <string>
#include <vector>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::device_test {
namespace {

namespace driver = drivers::cuda;
using testing_support::Member;

constexpr uint64_t kGuard = 4096;
constexpr uint64_t kPart = 256 << 10;  // of each buffer, at most
constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr unsigned char kUntouched = 0x5a;

struct Draw {
  tuttiCollective_t collective = tuttiCollAllGather;
  size_t count = 1;
  tuttiDataType_t type = tuttiInt8;
  int root = 0;
};

/// A send stands for a group of it and a receive, by which the ranks pass data around.
constexpr tuttiCollective_t kCalls[] = {tuttiCollAllGather, tuttiCollAllToAll, tuttiCollBroadcast,
                                        tuttiCollGather,    tuttiCollScatter,  tuttiCollAllGatherV,
                                        tuttiCollAllToAllV, tuttiCollSend};

/// Transfers have no number in common with the calls of all ranks: their order is the program's.
bool can_be_odd(const Draw& usual, tuttiCollective_t other) {
  return usual.collective != other && other != tuttiCollSend;
}

/// The call of a round, and what its odd rank calls.
struct Round {
  Draw usual, odd;
  int odd_rank = 0;
};

Round draw_round(uint64_t seed, uint64_t number, int ranks) {
  testing_support::Dice dice(testing_support::mix(seed, number));
  Round round;
  round.usual.collective = kCalls[dice.below(std::size(kCalls))];
  round.usual.count = 1 + dice.below(4000);
  round.usual.type = dice.one_in(2) ? tuttiInt32 : tuttiInt8;
  round.usual.root = static_cast<int>(dice.below(static_cast<uint64_t>(ranks)));
  round.odd = round.usual;
  round.odd_rank = static_cast<int>(dice.below(static_cast<uint64_t>(ranks)));
  switch (dice.below(round.usual.collective == tuttiCollSend ? 2 : 3)) {
    case 0:
      round.odd.count += 1 + dice.below(100);
      break;
    case 1:
      round.odd.type = round.usual.type == tuttiInt8 ? tuttiInt64 : tuttiInt8;
      break;
    default:
      while (!can_be_odd(round.usual, round.odd.collective)) {
        round.odd.collective = kCalls[dice.below(std::size(kCalls))];
      }
  }
  return round;
}

struct Plan {
  uint64_t rounds = 20;
  uint64_t seed = 1;
  bool equal = false;
};

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, const Plan& plan) : TeamRank(member), plan_(plan) {}

  void run() {
    const Result<driver::Cuda>& cuda = driver::find();
    if (!good(cuda.status())) return;
    auto context = driver::PrimaryContext::retain(cuda.value(), 0);
    if (!good(context.status())) return;
    const driver::ContextScope scope(cuda.value(), context.value().get());
    auto memory = driver::DeviceMemory::allocate(cuda.value(), 0, 2 * kPart + 3 * kGuard);
    auto stream = driver::CudaStream::create(cuda.value());
    if (!good(memory.status()) || !good(stream.status()) || !join()) return;
    cuda_ = &cuda.value();
    memory_ = memory.value().address();
    stream_ = &stream.value();
    for (uint64_t number = 0; number < plan_.rounds; ++number) {
      member_.at(number);
      if (!run_round(draw_round(plan_.seed, number, member_.ranks()))) return;
    }
    ok(tuttiCommDestroy(comm_));
  }

 private:
  bool good(const Status& status) {
    if (!status.ok()) member_.fail(std::string(status.message()));
    return status.ok();
  }
  bool wrong(const std::string& what) {
    member_.fail(what);
    return false;
  }

  bool run_round(const Round& round) {
    if (!fill()) return false;
    tuttiComm_t comm = nullptr;
    if (!ok(tuttiCommSplit(comm_, 0, member_.rank(), &comm, nullptr))) return false;
    const bool differs = !plan_.equal && member_.rank() == round.odd_rank;
    const tuttiResult_t called = call(differs ? round.odd : round.usual, comm);
    const uint64_t called_ns = testing_support::now_ns();
    if (called != tuttiSuccess && called != tuttiInvalidUsage && called != tuttiRemoteError) {
      return wrong(std::string("the call: ") + tuttiGetLastError(nullptr));
    }
    if (!good(stream_->synchronize())) return false;
    const bool judged = plan_.equal ? ok(called) : await_error(comm, called_ns);
    return judged && check_guards() &&
           ok(plan_.equal ? tuttiCommDestroy(comm) : tuttiCommAbort(comm));
  }

  tuttiResult_t call(const Draw& draw, tuttiComm_t comm) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = draw.collective;
    call.send = reinterpret_cast<const void*>(memory_ + kGuard);
    call.recv = reinterpret_cast<void*>(memory_ + kGuard + kPart + kGuard);
    call.count = draw.count;
    call.type = draw.type;
    call.root = draw.root;
    const std::vector<size_t> counts(static_cast<size_t>(member_.ranks()), draw.count);
    call.send_counts = call.recv_counts = counts.data();
    if (draw.collective == tuttiCollSend) return pass_around(call, comm);
    return submit(call, comm);
  }

  tuttiResult_t submit(const tuttiCall_t& call, tuttiComm_t comm) {
    return tuttiSubmit(&call, comm, tuttiStreamCuda(stream_->get()), nullptr, nullptr);
  }

  tuttiResult_t pass_around(tuttiCall_t call, tuttiComm_t comm) {
    const int ranks = member_.ranks();
    if (!ok(tuttiGroupStart())) return tuttiInternalError;
    call.root = (member_.rank() + 1) % ranks;
    if (!ok(submit(call, comm))) return tuttiInternalError;
    call.collective = tuttiCollRecv;
    call.root = (member_.rank() + ranks - 1) % ranks;
    if (!ok(submit(call, comm))) return tuttiInternalError;
    return tuttiGroupEnd();
  }

  bool await_error(tuttiComm_t comm, uint64_t since_ns) {
    tuttiResult_t state = tuttiSuccess;
    while (state == tuttiSuccess) {
      if (!ok(tuttiCommGetAsyncError(comm, &state))) return false;
      if (testing_support::now_ns() > since_ns + 20 * kSecondNs) {
        return wrong("the ranks' calls differ, and this rank did not learn of it");
      }
      testing_support::sleep_ns(100'000);
    }
    const std::string text = tuttiGetLastError(comm);
    if (text.find("differ") == std::string::npos) return wrong("not which calls differ: " + text);
    return true;
  }

  bool fill() {
    const std::vector<unsigned char> bytes(2 * kPart + 3 * kGuard, kUntouched);
    return copy(memory_, reinterpret_cast<driver::CUdeviceptr>(bytes.data()), bytes.size());
  }

  bool copy(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t bytes) {
    const auto copied = cuda_->call.cuMemcpyAsync(target, source, bytes, stream_->get());
    return good(cuda_->check(copied, "cuMemcpyAsync")) && good(stream_->synchronize());
  }

  // The input is guarded, too: nobody writes there.
  bool check_guards() {
    std::vector<unsigned char> bytes(2 * kPart + 3 * kGuard);
    if (!copy(reinterpret_cast<driver::CUdeviceptr>(bytes.data()), memory_, bytes.size())) {
      return false;
    }
    const auto untouched = [&](uint64_t begin, uint64_t end) {
      return std::all_of(bytes.begin() + static_cast<ptrdiff_t>(begin),
                         bytes.begin() + static_cast<ptrdiff_t>(end),
                         [](unsigned char byte) { return byte == kUntouched; });
    };
    const uint64_t output = kGuard + kPart + kGuard;
    if (untouched(0, output) && untouched(output + kPart, bytes.size())) return true;
    return wrong("memory beside the output was written");
  }

  const Plan plan_;
  const driver::Cuda* cuda_ = nullptr;
  driver::CUdeviceptr memory_ = 0;
  const driver::CudaStream* stream_ = nullptr;
};

}  // namespace
}  // namespace tutti::device_test

int main(int argc, char** argv) {
  using namespace tutti;
  device_test::Plan plan;
  testing_support::TeamProgram program;
  program.ranks = 4;
  program.limit_ns = 240'000'000'000;
  program.body = [&](testing_support::Member& member) { device_test::Rank(member, plan).run(); };
  program.name = [](uint64_t step) { return "round " + std::to_string(step); };
  program.own = {{"--rounds", testing_support::into(plan.rounds)},
                 {"--seed", testing_support::into(plan.seed)},
                 {"--equal", testing_support::into(plan.equal)}};
  return program.run(argc, argv);
}
