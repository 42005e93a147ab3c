// far_accesses: one rank of a launched job that sends to every other rank and receives from it,
// puts into its window and gets from it, and compares every byte with what must be there.
//
//   far_accesses [--spoil]     rank 0 changes a byte of what it sends: the others must find it
//
// Says "N messages and M accesses are right, W wrong". Exit status: 2 a byte was wrong, 1 a call
// failed.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/dice.h"

namespace {

using Bytes = std::vector<unsigned char>;

enum Exit : int { kRight = 0, kFailed = 1, kWrong = 2 };
// Below and above what links place in the peer's memory; the last one takes several segments.
constexpr std::array<size_t, 4> kSizes{1, 1000, 20'000, 150'000};
constexpr size_t kPart = 160 * 1024;  // of a window, for each origin
constexpr uint32_t kCome = 1, kTaken = 2;

Bytes bytes_of(int from, int to, size_t size) {
  Bytes bytes(size);
  const auto seed = size * 10'000 + static_cast<uint64_t>(from * 100 + to);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<unsigned char>(tutti::testing_support::mix(seed, i));
  }
  return bytes;
}

class FarRank {
 public:
  explicit FarRank(bool spoils) : spoils_(spoils) {}

  Exit run() {
    if (!ok(tuttiCommInitLaunched(&comm_, nullptr))) return kFailed;
    tuttiCommCount(comm_, &ranks_);
    tuttiCommUserRank(comm_, &rank_);
    if (!messages() || !accesses() || !ok(tuttiCommDestroy(comm_))) return kFailed;
    std::printf("%zu messages and %zu accesses are right, %zu wrong\n", right_, seen_, wrong_);
    return wrong_ == 0 ? kRight : kWrong;
  }

 private:
  bool ok(tuttiResult_t result) {
    if (result != tuttiSuccess) std::printf("failed: %s\n", tuttiGetLastError(comm_));
    return result == tuttiSuccess;
  }
  void check(const unsigned char* found, int from, int to, size_t size, size_t& right) {
    const Bytes wanted = bytes_of(from, to, size);
    ++(std::equal(wanted.begin(), wanted.end(), found) ? right : wrong_);
  }
  std::vector<int> peers() const {
    std::vector<int> others;
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer != rank_) others.push_back(peer);
    }
    return others;
  }
  Bytes own_bytes(int to, size_t size) const {
    Bytes bytes = bytes_of(rank_, to, size);
    if (spoils_ && rank_ == 0) bytes[size / 2] ^= 1;
    return bytes;
  }

  bool messages() {
    for (const size_t size : kSizes) {
      std::vector<Bytes> sent, received;
      for (int peer = 0; peer < ranks_; ++peer) {
        sent.push_back(own_bytes(peer, size));
        received.emplace_back(size);
      }
      tuttiGroupStart();
      for (const int peer : peers()) {
        tuttiSend(sent[peer].data(), size, tuttiUint8, peer, comm_, tuttiBlocking());
        tuttiRecv(received[peer].data(), size, tuttiUint8, peer, comm_, tuttiBlocking());
      }
      if (!ok(tuttiGroupEnd())) return false;
      for (const int peer : peers()) check(received[peer].data(), peer, rank_, size, right_);
    }
    return true;
  }

  bool accesses() {
    void* memory = nullptr;
    const size_t bytes = kPart * static_cast<size_t>(ranks_);
    if (!ok(tuttiMemAlloc(&memory, bytes))) return false;
    part_ = static_cast<unsigned char*>(memory);
    if (!ok(tuttiCommWindowRegister(comm_, memory, bytes, &window_, 0))) return false;
    for (const size_t size : kSizes) {
      if (!put_to_all(size) || !take_from_all(size)) return false;
    }
    return ok(tuttiBarrier(comm_, tuttiBlocking())) &&
           ok(tuttiCommWindowDeregister(comm_, window_)) && ok(tuttiMemFree(memory));
  }

  /// And reads it back from there.
  bool put_to_all(size_t size) {
    const size_t mine = kPart * static_cast<size_t>(rank_);
    for (const int peer : peers()) {
      const Bytes source = own_bytes(peer, size);
      Bytes back(size);
      const bool done =
          ok(tuttiPutSignal(source.data(), size, peer, window_, mine, kCome, tuttiBlocking())) &&
          ok(tuttiGet(back.data(), size, peer, window_, mine, tuttiBlocking()));
      if (!done) return false;
      check(back.data(), rank_, peer, size, seen_);
    }
    return true;
  }

  bool take_from_all(size_t size) {
    for (const int peer : peers()) {
      if (!ok(tuttiWaitSignal(peer, window_, kCome, 1, tuttiBlocking()))) return false;
      check(part_ + kPart * static_cast<size_t>(peer), peer, rank_, size, seen_);
      if (!ok(tuttiSignal(peer, window_, kTaken, tuttiBlocking()))) return false;
    }
    for (const int peer : peers()) {
      if (!ok(tuttiWaitSignal(peer, window_, kTaken, 1, tuttiBlocking()))) return false;
    }
    return true;
  }

  const bool spoils_;
  tuttiComm_t comm_ = nullptr;
  int rank_ = 0, ranks_ = 0;
  unsigned char* part_ = nullptr;
  tuttiWindow_t window_ = nullptr;
  size_t right_ = 0, seen_ = 0, wrong_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  const bool spoils = count > 1 && std::string(arguments[1]) == "--spoil";
  const Exit result = FarRank(spoils).run();
  std::fflush(stdout);
  return result;
}
