// device_reductions: every type and operation, in random collectives, counts, places and orders, on
// device memory and then on the host's: the results have the same bits. Where the order of a sum
// may differ, values are such that no order rounds. A call launches as many kernels as tuttiExplain
// says, and calls that only move bytes launch none (known on the software device alone, of
// ranks that are processes).
//
//   --rounds N    times that every type and operation is called (default 1)
//   --seed S      what to draw from (default 1)
//   --by-host 1   calls are expected to go through the host, for want of kernels
//   --waits 1     short calls are one kernel that waits, where the plan is no tree: a quarter of
//   those that
//                 are asked about, at least
//   --multicast 1 some of the calls that are asked about are folded by multicast, else none is
//   --plant 1     one rank's result is spoilt: then it is wrong to pass
//   --race 1      at the end a stream reads what a kernel of another one writes: likewise
//   --ranks N (default 4)  --threads 0
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/types/types.h"
#include "tests/software_device/client.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::device_test {
namespace {

namespace driver = drivers::cuda;
using testing_support::Dice;
using testing_support::Member;
using types::DataType;
using types::ReduceOp;
using Bytes = std::vector<unsigned char>;

constexpr uint64_t kRoom = 512 << 10;    // of each buffer
constexpr uint64_t kScalar = 2 * kRoom;  // where the factor of a scaled sum lies
constexpr uint64_t kMostElements = 7'000;

/// A call, the same on all ranks but for the misplacements.
struct Draw {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  tuttiCollective_t collective = tuttiCollAllReduce;
  size_t count = 1;
  int root = 0;
  bool in_place = false;
  bool deterministic = false;
  bool scalar_on_device = false;
  uint64_t contents = 0;
};

std::string text_of(const Draw& draw) {
  const char* const names[] = {"all_reduce", "reduce_scatter", "reduce"};
  const char* const name = draw.collective == tuttiCollAllReduce       ? names[0]
                           : draw.collective == tuttiCollReduceScatter ? names[1]
                                                                       : names[2];
  return std::string(name) + " " + types::name_of(draw.type) + " " + types::name_of(draw.op) + " " +
         std::to_string(draw.count) + (draw.in_place ? " in place" : "") +
         (draw.deterministic ? " deterministic" : "");
}

/// Whether sums of even the small numbers below are rounded, and so depend on the order.
bool rounds_anyway(const Draw& draw, int ranks) {
  const bool is_power = (ranks & (ranks - 1)) == 0;
  if (!types::is_float(draw.type) || draw.op == ReduceOp::kMax || draw.op == ReduceOp::kMin) {
    return false;
  }
  return types::size_of(draw.type) == 1 || (draw.op == ReduceOp::kAvg && !is_power);
}

std::vector<Draw> draw_round(uint64_t seed, uint64_t round, int ranks) {
  Dice dice(testing_support::mix(seed, round));
  std::vector<Draw> draws;
  for (int t = 0; t < types::kDataTypes; ++t) {
    for (int o = 0; o < types::kNamedReduceOps; ++o) {
      Draw draw;
      draw.type = static_cast<DataType>(t);
      draw.op = static_cast<ReduceOp>(o);
      if (!types::can_reduce(draw.type, draw.op)) continue;
      constexpr tuttiCollective_t kCalls[] = {tuttiCollAllReduce, tuttiCollReduceScatter,
                                              tuttiCollReduce};
      draw.collective = kCalls[dice.below(std::size(kCalls))];
      draw.count = dice.log_uniform(kMostElements);
      draw.root = static_cast<int>(dice.below(static_cast<uint64_t>(ranks)));
      draw.in_place = dice.one_in(2);
      draw.deterministic = dice.one_in(3) || rounds_anyway(draw, ranks);
      draw.scalar_on_device = dice.one_in(2);
      draw.contents = dice.next();
      draws.push_back(draw);
    }
  }
  return draws;
}

struct Plan {
  uint64_t rounds = 1;
  uint64_t seed = 1;
  bool by_host = false;
  bool waits = false;
  bool multicast = false;
  bool plant = false;
  bool race = false;
};

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, const Plan& plan) : TeamRank(member), plan_(plan) {}

  void run() {
    const Result<softdev::Client> client = softdev::Client::open();
    const Result<driver::Cuda>& cuda = driver::find();
    if (!good(cuda.status()) || !good(client.status())) return;
    const driver::CUdevice device = member_.rank() % std::max(cuda.value().devices(), 1);
    auto context = driver::PrimaryContext::retain(cuda.value(), device);
    if (!good(context.status())) return;
    const driver::ContextScope scope(cuda.value(), context.value().get());
    auto memory = driver::DeviceMemory::allocate(cuda.value(), device, 2 * kRoom + 64);
    auto stream = driver::CudaStream::create(cuda.value());
    if (!good(memory.status()) || !good(stream.status()) || !join()) return;
    client_ = &client.value();
    memory_ = memory.value().address();
    stream_ = &stream.value();
    for (uint64_t round = 0; round < plan_.rounds; ++round) {
      for (const Draw& draw : draw_round(plan_.seed, round, member_.ranks())) {
        member_.at(calls_++);
        if (!run_call(draw)) return;
      }
    }
    if (check_copies() && check_races()) ok(tuttiCommDestroy(comm_));
  }

 private:
  /// One call's buffers: lengths in bytes, and where they begin in their rooms.
  struct Layout {
    size_t send_bytes = 0, recv_bytes = 0;
    size_t send = 0, recv = 0;
    bool in_one = false;  // the output is (part of) the input
  };

  bool good(const Status& status) {
    if (!status.ok()) member_.fail(std::string(status.message()));
    return status.ok();
  }
  bool wrong(const std::string& what) {
    member_.fail(what);
    return false;
  }

  Layout layout_of(const Draw& draw, Dice& dice) const {
    const size_t element = types::size_of(draw.type);
    const auto ranks = static_cast<size_t>(member_.ranks());
    const bool scatters = draw.collective == tuttiCollReduceScatter;
    Layout layout;
    layout.send_bytes = draw.count * element * (scatters ? ranks : 1);
    layout.recv_bytes = draw.count * element;
    layout.send = element * dice.below(16);
    layout.recv = kRoom + element * dice.below(16);
    layout.in_one = draw.in_place;
    if (draw.in_place) {
      const auto rank = static_cast<size_t>(member_.rank());
      layout.recv = layout.send + (scatters ? rank * layout.recv_bytes : 0);
    }
    return layout;
  }

  bool has_output(const Draw& draw) const {
    return draw.collective != tuttiCollReduce || member_.rank() == draw.root;
  }

  /// Elements of any bits where no order shows, or the order is the same; else small numbers.
  Bytes contents_of(const Draw& draw, Dice& dice) const {
    const bool sums = draw.op == ReduceOp::kSum || draw.op == ReduceOp::kProd ||
                      draw.op == ReduceOp::kAvg || draw.op == ReduceOp::kScaledSum;
    const bool rounds = types::is_float(draw.type) && sums && !draw.deterministic;
    Bytes bytes(2 * kRoom + 64);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const uint64_t word = dice.next();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    if (draw.type == DataType::kBool) {
      for (unsigned char& byte : bytes) byte &= 1;
    }
    if (rounds) {
      for (size_t i = 0; i < bytes.size(); i += types::size_of(draw.type)) {
        std::memcpy(bytes.data() + i, small_number(draw.type, bytes[i]), types::size_of(draw.type));
      }
    }
    return bytes;
  }

  /// One or two, whose sums and products of 8 every format holds.
  static const void* small_number(DataType type, unsigned char chance) {
    static const uint64_t kOnes[types::kDataTypes] = {
        0, 0, 0, 0, 0, 0, 0x3C00, 0x3F800000, 0x3FF0000000000000, 0x3F80, 0x38, 0x3C};
    static const uint64_t kTwos[types::kDataTypes] = {
        0, 0, 0, 0, 0, 0, 0x4000, 0x40000000, 0x4000000000000000, 0x4000, 0x40, 0x40};
    return (chance & 1 ? kOnes : kTwos) + static_cast<size_t>(type);
  }

  bool run_call(const Draw& draw) {
    Dice dice(testing_support::mix(draw.contents, static_cast<uint64_t>(member_.rank())));
    const Layout layout = layout_of(draw, dice);
    const Bytes given = contents_of(draw, dice);
    Bytes by_host = given, by_device(given.size());
    if (!set_options(draw)) return false;
    const tuttiRedOp_t host_op = make_op(draw, by_host.data() + kScalar, tuttiScalarHostImmediate);
    if (!ok(call(draw, layout, host_op, by_host.data(), tuttiBlocking()))) return false;
    if (!copy(memory_, address_of(given.data()), given.size())) return false;
    const SoftdevStatistics before = client_->statistics();
    auto* const device = reinterpret_cast<unsigned char*>(memory_);
    Bytes kept(given.begin() + kScalar, given.begin() + kScalar + 8);
    const tuttiRedOp_t op =
        make_op(draw, draw.scalar_on_device ? device + kScalar : kept.data(), tuttiScalarDevice);
    if (!ok(call(draw, layout, op, device, tuttiStreamCuda(stream_->get())))) return false;
    const SoftdevStatistics after = client_->statistics();
    if (!good(stream_->synchronize())) return false;
    if (!copy(address_of(by_device.data()), memory_, by_device.size())) return false;
    if (plan_.plant && member_.rank() == 1) by_device[layout.recv] ^= 1;
    for (const tuttiRedOp_t made : {host_op, op}) {
      if (draw.op == ReduceOp::kScaledSum && !ok(tuttiRedOpDestroy(made, comm_))) return false;
    }
    return compare(draw, layout, by_host, by_device) &&
           check_kernels(
               draw, {after.kernels - before.kernels, after.thread_blocks - before.thread_blocks});
  }

  bool set_options(const Draw& draw) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.deterministic = draw.deterministic ? 1 : 0;
    return ok(tuttiCommSetOptions(comm_, &options));
  }

  /// The call's operation: made if it is a scaled sum.
  tuttiRedOp_t make_op(const Draw& draw, unsigned char* scalar, tuttiScalarResidence_t residence) {
    auto op = static_cast<tuttiRedOp_t>(draw.op);
    if (draw.op != ReduceOp::kScaledSum) return op;
    const auto type = static_cast<tuttiDataType_t>(draw.type);
    ok(tuttiRedOpCreatePreMulSum(&op, scalar, type, residence, comm_));
    return op;
  }

  tuttiResult_t call(const Draw& draw, const Layout& layout, tuttiRedOp_t op, void* memory,
                     tuttiStream_t stream) {
    auto* const bytes = static_cast<unsigned char*>(memory);
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = draw.collective;
    call.send = bytes + layout.send;
    call.recv = has_output(draw) ? bytes + layout.recv : nullptr;
    call.count = draw.count;
    call.type = static_cast<tuttiDataType_t>(draw.type);
    call.op = op;
    call.root = draw.root;
    return tuttiSubmit(&call, comm_, stream, nullptr, nullptr);
  }

  // Also what lies beside the output, which nobody may write.
  bool compare(const Draw& draw, const Layout& layout, const Bytes& host, const Bytes& device) {
    const auto [one, other] = std::mismatch(host.begin(), host.end(), device.begin());
    if (one == host.end()) return true;
    const auto at = static_cast<size_t>(one - host.begin());
    const bool inside = at >= layout.recv && at < layout.recv + layout.recv_bytes;
    return wrong(text_of(draw) + ": byte " + std::to_string(at) +
                 (inside ? ", in the output at " + std::to_string(layout.recv) : ", outside") +
                 ": host " + std::to_string(*one) + ", device " + std::to_string(*other));
  }

  /// The line of tuttiExplain about a sum of separate buffers on device memory. Empty after an
  /// error.
  std::string explained(const Draw& draw, const char* name) {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    if (!ok(tuttiExplain(comm_, name, draw.count, static_cast<tuttiDataType_t>(draw.type),
                         text.data(), text.size(), &needed))) {
      return {};
    }
    const std::string said = text.data();
    const size_t line = said.find("on device memory: ");
    return line == std::string::npos ? "nothing" : said.substr(line, said.find('\n', line) - line);
  }

  struct Launched {
    uint64_t kernels = 0, blocks = 0;
  };

  /// The device counts those of a process.
  bool knows_kernels() const {
    const testing_support::RankSlot* const slots = member_.board().slots;
    const auto is_here = [](const auto& slot) { return slot.process.load() == getpid(); };
    return client_->on_software_device() &&
           std::count_if(slots, slots + member_.ranks(), is_here) == 1;
  }

  /// "..., 3 kernels of up to 7 thread blocks", or why there is none.
  bool check_kernels(const Draw& draw, const Launched& launched) {
    if (!knows_kernels()) return true;
    const uint64_t kernels = launched.kernels;
    const bool known =
        draw.op == ReduceOp::kSum && !draw.in_place && draw.collective != tuttiCollReduce;
    if (!known)
      return !plan_.by_host || kernels == 0 || wrong("a kernel ran, of which there are none");
    const std::string said =
        explained(draw, draw.collective == tuttiCollAllReduce ? "all_reduce" : "reduce_scatter");
    ++asked_;
    if (said.find(" by multicast)") < said.find(';')) ++shared_;
    const bool waits = said.find("by one kernel that waits, ") < said.find(';');
    if (waits) {
      ++waiting_;
      return kernels == 1 || wrong(text_of(draw) + ": " + std::to_string(kernels) + " kernels ran");
    }
    // A rank without a block of its own may fold nothing.
    const bool has_block = draw.count >= static_cast<size_t>(member_.ranks());
    if (kernels == 0 && !plan_.by_host && !has_block) {
      return said.find(", 0 kernels") < said.find(';') || wrong(text_of(draw) + ": no kernel ran");
    }
    const std::string expected =
        plan_.by_host ? "by the host, since rank 0"
                      : ", " + std::to_string(kernels) +
                            (kernels == 1 ? " kernel of up to " : " kernels of up to ");
    const size_t at = said.find(expected);
    const bool fits = at != std::string::npos && (kernels > 0) != plan_.by_host;
    if (fits && (plan_.by_host || has_most(said.substr(at + expected.size()), launched))) {
      return true;
    }
    return wrong(text_of(draw) + ": " + std::to_string(kernels) + " kernels of " +
                 std::to_string(launched.blocks) + " thread blocks ran, explained is: " + said);
  }

  /// Whether the kernels can have run in so many blocks together if one has what is said.
  static bool has_most(const std::string& said, const Launched& launched) {
    const uint64_t most = std::strtoull(said.c_str(), nullptr, 10);
    return most > 0 && most <= launched.blocks && launched.blocks <= most * launched.kernels;
  }

  /// Calls that only move bytes leave the multiprocessors alone.
  bool check_copies() {
    if (plan_.multicast != (shared_ > 0)) {
      return wrong(std::to_string(shared_) + " calls were folded by multicast");
    }
    if (plan_.waits) return 4 * waiting_ >= asked_ || wrong("few calls were one kernel that waits");
    const uint64_t before = client_->statistics().kernels;
    auto* const send = reinterpret_cast<void*>(memory_);
    auto* const recv = reinterpret_cast<void*>(memory_ + kRoom);
    const tuttiStream_t stream = tuttiStreamCuda(stream_->get());
    const size_t count = kRoom / 16;
    if (!ok(tuttiAllGather(send, recv, count, tuttiInt8, comm_, stream)) ||
        !ok(tuttiAllToAll(send, recv, count, tuttiInt8, comm_, stream)) ||
        !ok(tuttiBroadcast(send, recv, count, tuttiInt8, 0, comm_, stream)) ||
        !good(stream_->synchronize())) {
      return false;
    }
    return !knows_kernels() || client_->statistics().kernels == before ||
           wrong("a call that moves bytes ran a kernel");
  }

  /// Where the software device's checker looks for them (SOFTDEV_CHECKER).
  bool check_races() {
    if (plan_.race && !make_race()) return false;
    const softdev::Hooks& hooks = client_->hooks;
    if (hooks.races == nullptr) return true;
    if (hooks.checker_overflows() > 0) return wrong("the checker's tables are too small");
    return hooks.races() == 0 || wrong("a race");
  }

  /// Another stream reads what a kernel writes, and nothing orders the two.
  bool make_race() {
    const Result<driver::CudaStream> other = driver::CudaStream::create(driver::find().value());
    if (!good(other.status())) return false;
    auto* const send = reinterpret_cast<void*>(memory_);
    auto* const recv = reinterpret_cast<void*>(memory_ + kRoom);
    if (!ok(tuttiAllReduce(send, recv, 100, tuttiInt64, tuttiSum, comm_,
                           tuttiStreamCuda(stream_->get())))) {
      return false;
    }
    Bytes seen(800);
    return copy(address_of(seen.data()), memory_ + kRoom, seen.size(), other.value()) &&
           good(stream_->synchronize());
  }

  static driver::CUdeviceptr address_of(const void* memory) {
    return reinterpret_cast<driver::CUdeviceptr>(memory);
  }
  bool copy(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t bytes) {
    return copy(target, source, bytes, *stream_);
  }
  bool copy(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t bytes,
            const driver::CudaStream& stream) {
    const driver::Cuda& cuda = driver::find().value();
    const auto copied = cuda.call.cuMemcpyAsync(target, source, bytes, stream.get());
    return good(cuda.check(copied, "cuMemcpyAsync")) && good(stream.synchronize());
  }

  const Plan plan_;
  const softdev::Client* client_ = nullptr;
  driver::CUdeviceptr memory_ = 0;
  const driver::CudaStream* stream_ = nullptr;
  uint64_t calls_ = 0, asked_ = 0, waiting_ = 0, shared_ = 0;
};

}  // namespace
}  // namespace tutti::device_test

int main(int argc, char** argv) {
  using namespace tutti;
  setenv("TUTTI_MAILBOX_BYTES", "0", 0);  // else by streams
  device_test::Plan plan;
  testing_support::TeamProgram program;
  program.ranks = 4;
  program.limit_ns = 240'000'000'000;
  program.body = [&](testing_support::Member& member) { device_test::Rank(member, plan).run(); };
  program.name = [](uint64_t step) { return "call " + std::to_string(step); };
  program.own = {{"--rounds", testing_support::into(plan.rounds)},
                 {"--seed", testing_support::into(plan.seed)},
                 {"--by-host", testing_support::into(plan.by_host)},
                 {"--waits", testing_support::into(plan.waits)},
                 {"--multicast", testing_support::into(plan.multicast)},
                 {"--plant", testing_support::into(plan.plant)},
                 {"--race", testing_support::into(plan.race)}};
  return program.run(argc, argv);
}
