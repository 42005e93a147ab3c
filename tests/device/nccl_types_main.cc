// nccl_types: reductions of all types by all operations, and calls with a root, on device memory of
// three processes, each with a device of its own. The values are so small that every result is
// exact in every type, so all engines must get the same bits.
//
// Rank 0 prints how many reductions there were. Exit status: 0 right, 1 not, 2 the command line.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "src/types/narrow_float.h"
#include "src/types/types.h"
#include "tests/device/seat.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using types::DataType;
using types::ReduceOp;

constexpr int kRanks = 3;
constexpr size_t kElements = 1000;  // of a call
constexpr size_t kWords = kElements * kRanks;
constexpr double kFactor = 2;

template <class Value>
std::vector<std::byte> bytes_of(Value value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// One element.
std::vector<std::byte> encoded(DataType type, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case DataType::kFloat64:
      return bytes_of(value);
    case DataType::kFloat32:
      return bytes_of(narrow);
    case DataType::kFloat16:
      return bytes_of(static_cast<uint16_t>(types::encoded(types::kHalfFormat, narrow)));
    case DataType::kBfloat16:
      return bytes_of(static_cast<uint16_t>(types::encoded_bfloat16(narrow)));
    case DataType::kFloat8E4M3:
      return bytes_of(static_cast<uint8_t>(types::encoded(types::kE4M3Format, narrow)));
    case DataType::kFloat8E5M2:
      return bytes_of(static_cast<uint8_t>(types::encoded(types::kE5M2Format, narrow)));
    default:
      break;
  }
  std::vector<std::byte> bytes = bytes_of(static_cast<uint64_t>(value));
  bytes.resize(types::size_of(type));
  return bytes;
}

Words many(DataType type, double value) {
  const std::vector<std::byte> one = encoded(type, value);
  Words words(kWords);
  auto* const bytes = reinterpret_cast<std::byte*>(words.data());
  for (size_t i = 0; i < kElements; ++i) {
    std::memcpy(bytes + i * one.size(), one.data(), one.size());
  }
  return words;
}

/// Of 1, 2 and 3.
double result_of(ReduceOp op) {
  constexpr double kResults[] = {6, 6, 3, 1, 2, 0, 3, 0, 6 * kFactor};
  return kResults[static_cast<size_t>(op)];
}

class Rank {
 public:
  Rank(Member& member, Seat& seat)
      : member_(member),
        seat_(seat),
        send_(seat.allocate(kWords * 8)),
        recv_(seat.allocate(kWords * 8)) {}

  void run() {
    for (int type = 0; type < types::kDataTypes; ++type) {
      const auto of = static_cast<DataType>(type);
      for (int op = 0; op < types::kNamedReduceOps && of != DataType::kBool; ++op) {
        if (types::can_reduce(of, static_cast<ReduceOp>(op))) reduce(of, static_cast<ReduceOp>(op));
      }
    }
    for (int root = 0; root < kRanks; ++root) run_rooted(root);
    if (member_.rank() == 0) std::printf("%d reductions\n", reductions_);
    std::fflush(stdout);
  }

 private:
  /// The first all_reduce, reduce or reduce_scatter, in turns.
  void reduce(DataType type, ReduceOp op) {
    const auto t = static_cast<tuttiDataType_t>(type);
    auto o = static_cast<tuttiRedOp_t>(op);
    double ours = member_.rank() + 1;
    std::vector<std::byte> factor = encoded(type, kFactor);
    factor.resize(8);
    if (op == ReduceOp::kScaledSum &&
        !went(
            member_,
            tuttiRedOpCreatePreMulSum(&o, factor.data(), t, tuttiScalarHostImmediate, seat_.comm()),
            seat_.comm(), "tuttiRedOpCreatePreMulSum")) {
      return;
    }
    seat_.fill(send_, many(type, ours));
    seat_.fill(recv_, Words(kWords, 0));
    const int root = ++reductions_ % kRanks;
    const bool to_all = reductions_ % 2 == 0;
    const tuttiResult_t called = to_all ? tuttiAllReduce(pointer(send_), pointer(recv_), kElements,
                                                         t, o, seat_.comm(), seat_.stream())
                                        : tuttiReduce(pointer(send_), pointer(recv_), kElements, t,
                                                      o, root, seat_.comm(), seat_.stream());
    if (!went(member_, called, seat_.comm(), "a reduction")) return;
    if (!to_all && member_.rank() != root) return;
    expect(many(type, result_of(op)), std::string(types::name_of(type)) + " " + types::name_of(op));
  }

  void run_rooted(int root) {
    const auto rank = static_cast<size_t>(member_.rank());
    Words own(kWords, 0), all(kWords, 0), part(kWords, 0);
    for (size_t i = 0; i < kWords; ++i) {
      all[i] = word_of(static_cast<int>(i / kElements), root, i % kElements);
      if (i / kElements == rank) own[i % kElements] = all[i];
    }
    seat_.fill(send_, own);
    seat_.fill(recv_, Words(kWords, 0));
    if (!went(member_,
              tuttiGather(pointer(send_), pointer(recv_), kElements, tuttiUint64, root,
                          seat_.comm(), seat_.stream()),
              seat_.comm(), "tuttiGather")) {
      return;
    }
    expect(member_.rank() == root ? all : Words(kWords, 0), "gather");
    seat_.fill(send_, all);
    seat_.fill(recv_, Words(kWords, 0));
    if (!went(member_,
              tuttiScatter(pointer(send_), pointer(recv_), kElements, tuttiUint64, root,
                           seat_.comm(), seat_.stream()),
              seat_.comm(), "tuttiScatter")) {
      return;
    }
    expect(own, "scatter");
  }

  void expect(const Words& wanted, const std::string& what) {
    if (!seat_.synchronize()) return member_.fail("its stream failed");
    if (seat_.read(recv_, kWords) != wanted) member_.fail(what + " is wrong");
  }

  Member& member_;
  Seat& seat_;
  const drivers::cuda::DeviceMemory send_, recv_;
  int reductions_ = 0;
};

void run_rank(Member& member) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Rank(member, *seat).run();
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  if (!read_options(argc, argv, {})) return 2;
  const TeamResult result = run_team(
      TeamShape::processes(tutti::device_programs::kRanks),
      [](Member& member) { tutti::device_programs::run_rank(member); },
      [](uint64_t) { return std::string("its calls"); }, 60'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
