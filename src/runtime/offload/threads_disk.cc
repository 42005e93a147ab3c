#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include "src/runtime/offload/waiting_requests.h"

namespace tutti::runtime::offload {
namespace {

class ThreadsDisk : public Disk {
 public:
  ThreadsDisk(int fd, int threads, const OffloadRates& limit)
      : fd_(fd), write_pace_(limit.write), read_pace_(limit.read) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { serve(); });
  }
  ~ThreadsDisk() override {
    requests_.end();
    for (std::thread& thread : threads_) thread.join();
  }

  int64_t submit(DiskRequest request) override { return requests_.add(std::move(request)); }
  bool cancel(int64_t number) override { return requests_.cancel(number); }
  void hurry() override { requests_.hurry(); }
  const char* name() const override { return "threads"; }

 private:
  void serve() {
    while (std::optional<DiskRequest> request = requests_.take(true)) {
      Pace& pace = request->is_write ? write_pace_ : read_pace_;
      const auto end = pace.book(request->bytes);
      const int error = move(*request);
      requests_.pass(end);
      request->done(error);
    }
  }

  int move(const DiskRequest& request) const {
    for (int64_t moved = 0; moved < request.bytes;) {
      const auto piece = size_t(std::min(request.bytes - moved, kDiskPiece));
      const off_t offset = request.offset + moved;
      char* data = request.data + moved;
      const ssize_t result =
          request.is_write ? pwrite(fd_, data, piece, offset) : pread(fd_, data, piece, offset);
      if (result < 0 && errno == EINTR) continue;
      if (result < 0) return errno;
      if (result == 0) return request.is_write ? ENOSPC : EIO;
      moved += result;
    }
    return 0;
  }

  int fd_;
  Pace write_pace_, read_pace_;
  WaitingRequests requests_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Disk> threads_disk(int fd, int threads, const OffloadRates& limit) {
  return std::make_unique<ThreadsDisk>(fd, threads, limit);
}

}  // namespace tutti::runtime::offload
