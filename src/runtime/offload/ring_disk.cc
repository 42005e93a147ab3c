// io_uring by its three system calls alone: the kernel's header says how its rings lie in memory,
// and a machine without them needs no library to find that out.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "src/runtime/offload/waiting_requests.h"

namespace tutti::runtime::offload {
namespace {

constexpr unsigned kDepth = 16;  // pieces that the kernel has at a time

/// A mapping of the ring's file.
class RingMapping {
 public:
  RingMapping(int fd, size_t bytes, off_t offset)
      : bytes_(bytes),
        memory_(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset)) {}
  ~RingMapping() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  RingMapping(const RingMapping&) = delete;
  RingMapping& operator=(const RingMapping&) = delete;
  bool is_there() const { return memory_ != MAP_FAILED; }
  template <class Type>
  Type* at(size_t offset) const {
    return reinterpret_cast<Type*>(static_cast<char*>(memory_) + offset);
  }

 private:
  size_t bytes_;
  void* memory_;
};

/// Closes the ring's file.
struct RingFile {
  int fd;
  explicit RingFile(int descriptor) : fd(descriptor) {}
  ~RingFile() { close(fd); }
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;
};

class RingDisk : public Disk {
 public:
  RingDisk(int ring, const io_uring_params& given, int fd, const OffloadRates& limit)
      : ring_(ring),
        fd_(fd),
        write_pace_(limit.write),
        read_pace_(limit.read),
        offsets_(given),
        submissions_(ring, given.sq_off.array + given.sq_entries * sizeof(unsigned),
                     IORING_OFF_SQ_RING),
        completions_(ring, given.cq_off.cqes + given.cq_entries * sizeof(io_uring_cqe),
                     IORING_OFF_CQ_RING),
        entries_(ring, given.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES) {}
  ~RingDisk() override {
    requests_.end();
    if (thread_.joinable()) thread_.join();
  }

  bool start() {
    if (!submissions_.is_there() || !completions_.is_there() || !entries_.is_there()) return false;
    thread_ = std::thread([this] { serve(); });
    return true;
  }

  int64_t submit(DiskRequest request) override { return requests_.add(std::move(request)); }
  bool cancel(int64_t number) override { return requests_.cancel(number); }
  void hurry() override { requests_.hurry(); }
  const char* name() const override { return "io_uring"; }

 private:
  /// A request whose pieces are on their way; what comes back short goes out again.
  struct RingFlight {
    DiskRequest request;
    int64_t given = 0;  // bytes handed to the kernel
    int error = 0;
    Pace::Clock::time_point end;
  };
  struct RingPiece {
    int64_t begin = 0;
    int64_t bytes = 0;
  };

  void serve() {
    while (true) {
      // A request at a time: its pieces are in flight together.
      std::optional<DiskRequest> request = requests_.take(true);
      if (!request) return;
      RingFlight flight;
      flight.end = (request->is_write ? write_pace_ : read_pace_).book(request->bytes);
      flight.request = std::move(*request);
      run(flight);
      requests_.pass(flight.end);
      flight.request.done(flight.error);
    }
  }

  void run(RingFlight& flight) {
    std::map<uint64_t, RingPiece> pieces;
    uint64_t next = 0;
    while (true) {
      while (pieces.size() < kDepth && flight.error == 0 && flight.given < flight.request.bytes) {
        const int64_t bytes = std::min(kDiskPiece, flight.request.bytes - flight.given);
        pieces[++next] = {flight.given, bytes};
        enqueue(flight.request, pieces[next], next);
        flight.given += bytes;
      }
      if (pieces.empty()) return;
      const long entered =
          syscall(SYS_io_uring_enter, ring_.fd, to_submit_, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
      if (entered >= 0) to_submit_ -= unsigned(entered);
      // Else it is interrupted or short of memory for a moment; the entries stay in the ring.
      reap(flight, pieces, next);
    }
  }

  void enqueue(const DiskRequest& request, const RingPiece& piece, uint64_t number) {
    auto* tail = submissions_.at<unsigned>(offsets_.sq_off.tail);
    const unsigned mask = *submissions_.at<unsigned>(offsets_.sq_off.ring_mask);
    const unsigned place = *tail & mask;
    io_uring_sqe& entry = entries_.at<io_uring_sqe>(0)[place];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = request.is_write ? IORING_OP_WRITE : IORING_OP_READ;
    entry.fd = fd_;
    entry.off = uint64_t(request.offset + piece.begin);
    entry.addr = reinterpret_cast<uint64_t>(request.data + piece.begin);
    entry.len = unsigned(piece.bytes);
    entry.user_data = number;
    submissions_.at<unsigned>(offsets_.sq_off.array)[place] = place;
    std::atomic_ref(*tail).store(*tail + 1, std::memory_order_release);
    ++to_submit_;
  }

  void reap(RingFlight& flight, std::map<uint64_t, RingPiece>& pieces, uint64_t& next) {
    auto* head = completions_.at<unsigned>(offsets_.cq_off.head);
    auto* tail = completions_.at<unsigned>(offsets_.cq_off.tail);
    const unsigned mask = *completions_.at<unsigned>(offsets_.cq_off.ring_mask);
    while (*head != std::atomic_ref(*tail).load(std::memory_order_acquire)) {
      const io_uring_cqe done = completions_.at<io_uring_cqe>(offsets_.cq_off.cqes)[*head & mask];
      std::atomic_ref(*head).store(*head + 1, std::memory_order_release);
      const RingPiece piece = pieces.at(done.user_data);
      pieces.erase(done.user_data);
      const bool again = done.res == -EINTR || done.res == -EAGAIN;
      if (done.res <= 0 && !again) {
        if (flight.error == 0) flight.error = done.res < 0 ? -done.res : end_of(flight.request);
        continue;
      }
      const int64_t moved = again ? 0 : done.res;
      if (moved == piece.bytes) continue;
      pieces[++next] = {piece.begin + moved, piece.bytes - moved};
      enqueue(flight.request, pieces[next], next);
    }
  }

  static int end_of(const DiskRequest& request) { return request.is_write ? ENOSPC : EIO; }

  RingFile ring_;
  int fd_;
  Pace write_pace_, read_pace_;
  io_uring_params offsets_;
  RingMapping submissions_, completions_, entries_;
  unsigned to_submit_ = 0;
  WaitingRequests requests_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Disk> ring_disk(int fd, const OffloadRates& limit) {
  io_uring_params given{};
  // Twice the depth: what comes back short goes out again beside the others.
  const long ring = syscall(SYS_io_uring_setup, 2 * kDepth, &given);
  if (ring < 0) return nullptr;
  // Kernels before 5.6 have rings without plain reads and writes.
  const bool has_reads = (given.features & IORING_FEAT_RW_CUR_POS) != 0;
  auto disk = std::make_unique<RingDisk>(int(ring), given, fd, limit);
  if (!has_reads || !disk->start()) return nullptr;
  return disk;
}

}  // namespace tutti::runtime::offload
