// One thread has all ranks of a communicator, on a device each (tuttiCommInitAll), and makes their
// calls one after the other, in no group: rank 0's, then rank 1's, and so on, in an order of ranks
// that changes. Every call returns although the peers have not called, and none goes through the
// host: tuttiExplain says so, and on the software device no eager one has a function of the host.
//
//   --ranks N       (default 3)
//   --rounds N      each of all kinds of call, eager and in a graph of its own (default 4)
//   --words N       of a block, at most (default 6000)
//   --waits 1       it waits for rank 0's stream before it calls for the others: that deadlocks,
//   and
//                   ends with the error of a deadline
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "src/drivers/cuda/context.h"
#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;
using testing_support::Dice;

struct Options {
  int ranks = 3, rounds = 4, words = 6000, waits = 0;
};

void require(bool good, const std::string& what, tuttiComm_t comm = nullptr) {
  if (good) return;
  std::printf("%s: %s\n", what.c_str(), tuttiGetLastError(comm));
  std::exit(1);
}

/// A rank's device, and what is there.
struct RankSeat {
  RankSeat(const driver::Cuda& cuda, int number, size_t bytes)
      : context(must(driver::PrimaryContext::retain(cuda, number))),
        scope(cuda, context.get()),
        stream(must(driver::CudaStream::create(cuda))),
        send(must(driver::DeviceMemory::allocate(cuda, number, bytes))),
        recv(must(driver::DeviceMemory::allocate(cuda, number, bytes))) {}

  const driver::PrimaryContext context;
  const driver::ContextScope scope;
  const driver::CudaStream stream;
  const driver::DeviceMemory send, recv;
};

class OneThread {
 public:
  OneThread(const softdev::Client& client, const Options& options)
      : client_(client), options_(options), comms_(static_cast<size_t>(options.ranks)) {
    require(tuttiCommInitAll(comms_.data(), options.ranks, nullptr) == tuttiSuccess, "InitAll");
    const auto words = static_cast<size_t>(options.words * options.ranks + 1);
    for (int rank = 0; rank < options.ranks; ++rank) {
      seats_.push_back(std::make_unique<RankSeat>(client.cuda(), rank, words * 8));
    }
  }
  ~OneThread() {
    tuttiGroupStart();
    for (tuttiComm_t comm : comms_) tuttiCommDestroy(comm);
    tuttiGroupEnd();
    while (!seats_.empty()) seats_.pop_back();  // contexts are current in turn
  }

  void run() {
    for (const char* const name : {"all_reduce", "all_gather", "broadcast", "reduce_scatter",
                                   "all_to_all", "send", "recv"}) {
      require_streams(name);
    }
    Dice dice(7);
    for (int round = 0; round < options_.rounds; ++round) {
      for (int kind = 0; kind < CallSpec::kKinds; ++kind) {
        CallSpec spec{kind, 1 + dice.below(static_cast<uint64_t>(options_.words))};
        spec.root = static_cast<int>(dice.below(static_cast<uint64_t>(options_.ranks)));
        spec.number = ++number_;
        call_for_all(spec, dice);
        replay_for_all(spec, dice);
      }
    }
    std::printf("%d calls of %d ranks by one thread\n", static_cast<int>(number_), options_.ranks);
  }

  /// Nobody can help a thread that waits for what it has itself to call.
  void wait_too_early() {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = 300'000'000;
    require(tuttiCommSetOptions(comms_[0], &options) == tuttiSuccess, "its options");
    put(CallSpec{CallSpec::kAllGather, 10}, 0);
    require(seats_[0]->stream.synchronize().ok(), "its stream");
    tuttiResult_t state = tuttiSuccess;
    tuttiCommGetAsyncError(comms_[0], &state);
    require(state == tuttiSuccess, "a rank that was not called for is late", comms_[0]);
  }

 private:
  size_t count() const { return comms_.size(); }

  std::vector<size_t> ranks_in_any_order(Dice& dice) const {
    std::vector<size_t> ranks(count());
    std::iota(ranks.begin(), ranks.end(), size_t{0});
    for (size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[dice.below(i)]);
    return ranks;
  }

  void put(const CallSpec& spec, size_t rank) {
    const RankSeat& seat = *seats_[rank];
    const driver::ContextScope scope(client_.cuda(), seat.context.get());
    const CallBuffers at{seat.send.address(), seat.recv.address()};
    require(put_call(spec, at, comms_[rank], tuttiStreamCuda(seat.stream.get())) == tuttiSuccess,
            "a call", comms_[rank]);
  }

  void require_streams(const char* name) const {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    require(tuttiExplain(comms_[0], name, 100, tuttiUint64, text.data(), text.size(), &needed) ==
                tuttiSuccess,
            "tuttiExplain");
    const std::string all = text.data();
    const size_t at = all.find("on device memory: ");
    require(at != std::string::npos && all.find("by the host", at) == std::string::npos,
            std::string(name) + " goes through the host");
  }

  uint64_t host_functions() const {
    SoftdevStatistics all{};
    if (client_.hooks.statistics != nullptr) client_.hooks.statistics(&all);
    return all.host_functions;
  }

  void call_for_all(const CallSpec& spec, Dice& dice) {
    fill(spec, 0);
    const uint64_t before = host_functions();
    for (const size_t rank : ranks_in_any_order(dice)) put(spec, rank);
    check(spec, 0);
    require(host_functions() == before, "a call has had the host's help");
  }

  // Captures come one after the other, too, and so do launches.
  void replay_for_all(const CallSpec& spec, Dice& dice) {
    std::vector<std::unique_ptr<Graph>> graphs(count());
    for (const size_t rank : ranks_in_any_order(dice)) {
      const driver::ContextScope scope(client_.cuda(), seats_[rank]->context.get());
      graphs[rank] =
          std::make_unique<Graph>(client_, seats_[rank]->stream.get(), [&] { put(spec, rank); });
    }
    for (const uint64_t run : {1, 2}) {
      fill(spec, run);
      for (const size_t rank : ranks_in_any_order(dice)) {
        const driver::ContextScope scope(client_.cuda(), seats_[rank]->context.get());
        graphs[rank]->launch(seats_[rank]->stream.get());
      }
      check(spec, run);
    }
  }

  void copy(const RankSeat& at, driver::CUdeviceptr target, driver::CUdeviceptr source,
            size_t words) {
    const driver::ContextScope scope(client_.cuda(), at.context.get());
    const auto done = client_.call().cuMemcpyAsync(target, source, words * 8, at.stream.get());
    require(done == driver::kSuccess && at.stream.synchronize().ok(), "a copy");
  }

  void fill(const CallSpec& spec, uint64_t run) {
    for (size_t rank = 0; rank < count(); ++rank) {
      std::vector<uint64_t> words(spec.send_words(options_.ranks));
      for (size_t i = 0; i < words.size(); ++i) {
        words[i] = sent_word(spec, run, static_cast<int>(rank), i);
      }
      copy(*seats_[rank], seats_[rank]->send.address(),
           reinterpret_cast<driver::CUdeviceptr>(words.data()), words.size());
    }
  }

  void check(const CallSpec& spec, uint64_t run) {
    for (size_t rank = 0; rank < count(); ++rank) {
      std::vector<uint64_t> words(spec.recv_words(options_.ranks));
      copy(*seats_[rank], reinterpret_cast<driver::CUdeviceptr>(words.data()),
           seats_[rank]->recv.address(), words.size());
      for (size_t i = 0; i < words.size(); ++i) {
        const int self = static_cast<int>(rank);
        require(words[i] == got_word(spec, run, self, options_.ranks, i),
                "kind " + std::to_string(spec.kind) + ", run " + std::to_string(run) + ", rank " +
                    std::to_string(rank) + ": a wrong word",
                comms_[rank]);
      }
    }
  }

  const softdev::Client& client_;
  const Options options_;
  std::vector<tuttiComm_t> comms_;
  std::vector<std::unique_ptr<RankSeat>> seats_;
  uint64_t number_ = 0;
};

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 1, 16)},
                     {"--rounds", into(options.rounds, 1)},
                     {"--words", into(options.words, 1)},
                     {"--waits", into(options.waits, 0, 1)}})) {
    return 2;
  }
  const auto client = softdev::Client::open();
  if (!client.ok()) {
    std::printf("%s\n", std::string(client.status().message()).c_str());
    return 1;
  }
  OneThread program(client.value(), options);
  if (options.waits != 0) {
    program.wait_too_early();
  } else {
    program.run();
  }
  return 0;
}
