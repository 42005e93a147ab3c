// device_edited_memory: three processes with a device each have registered device memory and a
// window of it, and the last of them is removed by an edit in place. Before and behind it the
// others gather out of that memory and put into the window, and every word is checked; what one
// rank had deregistered is kept by none, and its handle is still good for the others' end of it.
//
// Exit status: 0 right, 1 not.
#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/device/newcomers.h"
#include "tests/device/seat.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

constexpr int kRanks = 3;
constexpr size_t kWords = 1 << 17;  // more than a frame of the ring holds

class Rank {
 public:
  Rank(Member& member, Seat& seat)
      : member_(member), seat_(seat), source_(seat.allocate(kWords * 8)) {}

  void run() {
    if (!open() || !call()) return;
    const int last = kRanks - 1;
    if (rank_ == last) return leave(member_, last, seat_.give_comm());
    if (rank_ == 0 && !ok(tuttiCommDeregister(seat_.comm(), loose_), "deregister")) return;
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.removed = &last;
    edit.removed_count = 1;
    tuttiEditReport_t report = {};
    report.size = sizeof report;
    if (!ok(tuttiCommEdit(seat_.comm(), &edit, &report), "tuttiCommEdit")) return;
    go_on(member_);
    ranks_ = report.ranks;
    if (report.registrations_kept != 1 || report.windows_kept != 1) {
      return member_.fail("kept: " + std::to_string(report.registrations_kept) +
                          " registrations, " + std::to_string(report.windows_kept) + " windows");
    }
    if (call()) close();
  }

 private:
  bool ok(tuttiResult_t result, const char* call) {
    return went(member_, result, seat_.comm(), call);
  }

  bool open() {
    for (void** memory : {&kept_, &other_, &part_}) {
      if (!ok(tuttiMemAllocFor(memory, kWords * 8, seat_.stream()), "tuttiMemAllocFor")) {
        return false;
      }
    }
    tuttiComm_t const comm = seat_.comm();
    return ok(tuttiCommRegister(comm, kept_, kWords * 8, &handle_), "register") &&
           ok(tuttiCommRegister(comm, other_, kWords * 8, &loose_), "register") &&
           ok(tuttiCommWindowRegister(comm, part_, kWords * 8, &window_, 0), "window");
  }

  static uint64_t word(uint64_t run, int rank, size_t place) {
    return (run * kRanks + static_cast<uint64_t>(rank)) << 32 | place;
  }

  Words words_of(int rank) const {
    Words words(kWords);
    for (size_t i = 0; i < kWords; ++i) words[i] = word(runs_, rank, i);
    return words;
  }

  /// A gather to all out of registered memory, and a put into the next rank's part.
  bool call() {
    ++runs_;
    const drivers::cuda::DeviceMemory all = seat_.allocate(kWords * 8 * kRanks);
    seat_.fill(source_, words_of(rank_));
    if (!copy(kept_, source_.address())) return false;
    const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
    const tuttiStream_t stream = seat_.stream();
    tuttiComm_t const comm = seat_.comm();
    if (!ok(tuttiAllGather(kept_, pointer(all), kWords, tuttiUint64, comm, stream), "gather") ||
        !ok(tuttiPutSignal(pointer(source_), kWords * 8, next, window_, 0, 1, stream), "put") ||
        !ok(tuttiWaitSignal(before, window_, 1, 1, stream), "wait") || !seat_.synchronize()) {
      return false;
    }
    const Words got = seat_.read(all, kWords * static_cast<size_t>(ranks_));
    for (int from = 0; from < ranks_; ++from) {
      const Words expected = words_of(from);
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(kWords) * from;
      if (!std::equal(expected.begin(), expected.end(), begin)) return wrong("was gathered");
    }
    if (!copy_out(part_) || seat_.read(source_, kWords) != words_of(before)) {
      return wrong("was put");
    }
    return ok(tuttiBarrier(comm, tuttiBlocking()), "barrier");
  }

  bool copy(void* target, drivers::cuda::CUdeviceptr source) {
    const auto to = reinterpret_cast<drivers::cuda::CUdeviceptr>(target);
    return seat_.copy_at(to, source, kWords * 8);
  }
  bool copy_out(void* source) {
    const auto from = reinterpret_cast<drivers::cuda::CUdeviceptr>(source);
    return seat_.copy_at(source_.address(), from, kWords * 8);
  }

  bool wrong(const std::string& what) {
    member_.fail("run " + std::to_string(runs_) + ": what " + what + " is wrong");
    return false;
  }

  void close() {
    tuttiComm_t const comm = seat_.comm();
    void* anew = nullptr;
    if (!ok(tuttiCommRegister(comm, other_, kWords * 8, &anew), "register anew")) return;
    if (anew == handle_ || anew == loose_) return member_.fail("a handle came twice");
    if (rank_ != 0 && !ok(tuttiCommDeregister(comm, loose_), "deregister what was not kept")) {
      return;
    }
    if (!ok(tuttiCommDeregister(comm, handle_), "deregister what was kept") ||
        !ok(tuttiCommDeregister(comm, anew), "deregister") ||
        !ok(tuttiCommWindowDeregister(comm, window_), "end the window")) {
      return;
    }
    if (tuttiCommDeregister(comm, handle_) == tuttiSuccess) {
      return member_.fail("a handle was good twice");
    }
    ok(tuttiCommDestroy(seat_.give_comm()), "tuttiCommDestroy");
  }

  Member& member_;
  Seat& seat_;
  const drivers::cuda::DeviceMemory source_;
  const int rank_ = member_.rank();
  int ranks_ = kRanks;
  uint64_t runs_ = 0;
  void *kept_ = nullptr, *other_ = nullptr, *part_ = nullptr;
  void *handle_ = nullptr, *loose_ = nullptr;
  tuttiWindow_t window_ = nullptr;
};

}  // namespace
}  // namespace tutti::device_programs

int main() {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  const TeamResult result = run_team(
      TeamShape::processes(kRanks),
      [](Member& member) {
        const std::unique_ptr<Seat> seat = Seat::open(member);
        if (seat != nullptr) Rank(member, *seat).run();
      },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
