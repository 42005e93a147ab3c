#include "src/comm/host_survey.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "src/base/clock.h"
#include "src/base/wait.h"
#include "src/comm/joining.h"
#include "src/exec/populate.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostFrame = 512 << 10;  // as Tuning::frame_bytes
constexpr uint64_t kFrames = 2;             // the others read one while the next is written
constexpr uint64_t kReadBytes = 256 << 10;  // as Tuning::read_bytes
constexpr uint32_t kSums = 64;
constexpr int kTimes = 3;  // the best of them counts, since whatever disturbs makes it slower
constexpr int kCalls = 3;  // of a time, in a row: ranks wait for each other as in a loop
constexpr int kSteps = 64;
constexpr double kMostSpread = 3;  // the middle one of such times by the shortest
constexpr int kMessages = 32, kMessageBytes = 64;

/// Private pages as an allocator gets them, since the system reads large ones of a peer faster.
/// They take memory when they are touched.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(made);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  const size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace

/// The words of a rank for the others. All rise from 0.
struct HostSurvey::Words {
  alignas(exec::kLineBytes) std::atomic<uint64_t> met;
  alignas(exec::kLineBytes) std::atomic<uint64_t> written;  // slices in its frames
  alignas(exec::kLineBytes) std::atomic<uint64_t> taken;    // slices out of the others'
  alignas(exec::kLineBytes) std::atomic<uint64_t> send;     // the address of its buffer
  std::array<std::atomic<double>, kSums> numbers;           // each is written once
  std::array<std::atomic<uint8_t>, kMostRanks> left;        // by the others: they look here no more
  struct alignas(exec::kLineBytes) ShortMessage {
    std::atomic<uint64_t> number;
    std::array<std::byte, kMessageBytes> bytes;
  };
};

HostSurvey::HostSurvey(const SurveyedRanks& ranks, const WaitLimit& wait_limit)
    : all_(ranks), wait_limit_(wait_limit) {
  static_assert(sizeof(Words) <= kPage);
  // Frames lie behind the page of words; the messages of a row in their place.
  frame_bytes_ = std::min(kMostFrame, (ranks.ring_bytes - kPage) / kFrames / kPage * kPage);
  static_assert(kMessages * sizeof(Words::ShortMessage) <= kPage * kFrames);
}

HostSurvey::Words& HostSurvey::words_of(int rank) const {
  return *reinterpret_cast<Words*>(all_.peers[static_cast<size_t>(rank)].arena.rings());
}

std::byte* HostSurvey::frame_of(int rank, uint64_t slice) const {
  return all_.peers[static_cast<size_t>(rank)].arena.rings() + kPage +
         slice % kFrames * frame_bytes_;
}

Status HostSurvey::wait(int peer, const std::function<bool(const Words&)>& has_come) {
  const Words& theirs = words_of(peer);
  if (has_come(theirs)) return {};
  const exec::Peer& other = all_.peers[static_cast<size_t>(peer)];
  wait_limit_.waits_for(all_.name_of(peer) + " has not measured yet");
  for (Backoff backoff(all_.spins); !has_come(theirs);) {
    if (!backoff.pause()) continue;
    Status absent = why_absent(other, [&] { return all_.name_of(peer); });
    if (!absent.ok()) return has_come(theirs) ? Status() : absent;
    wait_limit_.tell_if_due();
    wait_limit_.ask_if_due();
    if (wait_limit_.over()) {
      return wait_limit_.reason(all_.name_of(peer) + " has not measured this host in time");
    }
  }
  return {};
}

Status HostSurvey::meet() {
  ++met_;
  words_of(all_.rank).met.store(met_, std::memory_order_release);
  for (int i = 0; i + 1 < ranks(); ++i) {
    Status status = wait(other(i), [this](const Words& theirs) {
      return theirs.met.load(std::memory_order_acquire) >= met_;
    });
    if (!status.ok()) return status;
  }
  return {};
}

// The first call of whoever goes on overwrites its words, which the others may still wait for.
Status HostSurvey::leave() {
  const auto self = static_cast<size_t>(all_.rank);
  for (int i = 0; i + 1 < ranks(); ++i) {
    words_of(other(i)).left[self].store(1, std::memory_order_release);
  }
  const Words& mine = words_of(all_.rank);
  for (int i = 0; i + 1 < ranks(); ++i) {
    const auto peer = static_cast<size_t>(other(i));
    Status status = wait(other(i), [&](const Words&) {
      return mine.left[peer].load(std::memory_order_acquire) != 0;
    });
    if (!status.ok()) return status;
  }
  return {};
}

// In the order of ranks, so that it is the same number everywhere.
Result<double> HostSurvey::add_up(double mine) {
  if (sums_ == kSums) return Status::internal_error("a survey of a host adds up too often");
  const uint32_t index = sums_++;
  words_of(all_.rank).numbers[index].store(mine, std::memory_order_relaxed);
  if (Status status = meet(); !status.ok()) return status;
  double sum = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    sum += words_of(rank).numbers[index].load(std::memory_order_relaxed);
  }
  return sum;
}

// The median: a step is so short that one in which the ranks of a core happen to come in the best
// order says little, and one in which something else ran says nothing.
Status HostSurvey::steps(double& median_ns) {
  std::array<uint64_t, kSteps> times{};
  for (int i = -kSteps / 4; i < kSteps; ++i) {  // ranks come from elsewhere at first
    naps_left = 0;
    const uint64_t start_ns = monotonic_ns();
    if (Status status = meet(); !status.ok()) return status;
    if (i >= 0) times[static_cast<size_t>(i)] = monotonic_ns() - start_ns;
  }
  const auto middle = times.begin() + kSteps / 2;
  std::nth_element(times.begin(), middle, times.end());
  median_ns = static_cast<double>(*middle);
  return {};
}

// From rank 0 to all others, each message in a place of its own, as cells are.
Status HostSurvey::row(double& best_ns) {
  auto* const messages = reinterpret_cast<Words::ShortMessage*>(frame_of(0, 0));
  std::array<std::byte, kMessageBytes> bytes{};
  for (int time = 0; time <= kTimes; ++time) {
    naps_left = 0;  // as learnt from who came late, which says nothing of calls
    if (Status status = meet(); !status.ok()) return status;
    const uint64_t start_ns = monotonic_ns();
    for (int i = 0; i < kMessages; ++i) {
      ++told_;
      Words::ShortMessage& message = messages[i];
      if (all_.rank == 0) {
        message.bytes = bytes;
        message.number.store(told_, std::memory_order_release);
        continue;
      }
      Status status = wait(
          0, [&](const Words&) { return message.number.load(std::memory_order_acquire) == told_; });
      if (!status.ok()) return status;
      bytes = message.bytes;
    }
    if (Status status = meet(); !status.ok()) return status;
    const double each_ns = static_cast<double>(monotonic_ns() - start_ns) / kMessages;
    if (time > 0) best_ns = std::min(best_ns, each_ns);
  }
  return {};
}

Status HostSurvey::staged(uint64_t bytes) {
  const uint64_t block = bytes / static_cast<uint64_t>(ranks());
  const uint64_t most = frame_bytes_ / static_cast<uint64_t>(ranks()) / 64 * 64;
  const auto at = [&](std::byte* buffer, int rank) {
    return buffer + static_cast<uint64_t>(rank) * block;
  };
  std::memcpy(at(recv_, all_.rank), at(send_, all_.rank), block);
  for (uint64_t begin = 0; begin < block; begin += most) {
    const uint64_t length = std::min(most, block - begin);
    ++slices_;
    const auto has_room = [this](const Words& theirs) {
      return theirs.taken.load(std::memory_order_acquire) + kFrames >= slices_;
    };
    for (int i = 0; i + 1 < ranks(); ++i) {
      if (Status status = wait(other(i), has_room); !status.ok()) return status;
    }
    std::byte* const mine = frame_of(all_.rank, slices_);
    for (int i = 0; i + 1 < ranks(); ++i) {
      const int peer = other(i);
      std::memcpy(mine + static_cast<uint64_t>(peer) * most, at(send_, peer) + begin, length);
    }
    words_of(all_.rank).written.store(slices_, std::memory_order_release);
    for (int i = 0; i + 1 < ranks(); ++i) {
      const int peer = other(i);
      Status status = wait(peer, [this](const Words& theirs) {
        return theirs.written.load(std::memory_order_acquire) >= slices_;
      });
      if (!status.ok()) return status;
      const std::byte* const theirs =
          frame_of(peer, slices_) + static_cast<uint64_t>(all_.rank) * most;
      std::memcpy(at(recv_, peer) + begin, theirs, length);
    }
    words_of(all_.rank).taken.store(slices_, std::memory_order_release);
  }
  return {};
}

Status HostSurvey::single(uint64_t bytes) {
  const uint64_t block = bytes / static_cast<uint64_t>(ranks());
  const uint64_t own = static_cast<uint64_t>(all_.rank) * block;
  if (Status status = meet(); !status.ok()) return status;
  std::memcpy(recv_ + own, send_ + own, block);
  for (int i = 0; i + 1 < ranks(); ++i) {
    const int peer = other(i);
    const uint64_t source = words_of(peer).send.load(std::memory_order_relaxed) + own;
    std::byte* const target = recv_ + static_cast<uint64_t>(peer) * block;
    for (uint64_t begin = 0; begin < block; begin += kReadBytes) {
      const uint64_t length = std::min(kReadBytes, block - begin);
      Status status = all_.peers[static_cast<size_t>(peer)].mapped->read({target + begin, length},
                                                                         source + begin);
      if (!status.ok()) return status;
    }
  }
  return meet();
}

Status HostSurvey::time_of(Way way, uint64_t bytes, double& best_ns) {
  if (Status status = (this->*way)(bytes); !status.ok()) return status;  // touches all pages
  const int calls = bytes > kLeastBytes ? kCalls - 1 : kCalls;  // long ones average by themselves
  std::array<double, kTimes> times{};
  for (double& time : times) {
    naps_left = 0;
    if (Status status = meet(); !status.ok()) return status;
    const uint64_t start_ns = monotonic_ns();
    for (int call = 0; call < calls; ++call) {
      if (Status status = (this->*way)(bytes); !status.ok()) return status;
    }
    // A rank that shares a core begins late, and by that ends early beside the others.
    if (Status status = meet(); !status.ok()) return status;
    time = static_cast<double>(monotonic_ns() - start_ns) / calls;
  }
  std::sort(times.begin(), times.end());
  best_ns = times.front();
  // One of them may have met an interrupt, which takes longer than a short call.
  is_disturbed_ = is_disturbed_ || times[kTimes / 2] > kMostSpread * best_ns;
  return {};
}

Status HostSurvey::copies(select::CrowdTimes& found) {
  constexpr double kNever = std::numeric_limits<double>::max();
  const auto mean = [this](double sum) { return std::round(sum / ranks()); };
  const Pages pages(2 * kMostBytes);
  if (pages.data() == nullptr) return Status::system_error("no memory to measure this host with");
  send_ = pages.data();
  recv_ = send_ + kMostBytes;
  words_of(all_.rank).send.store(reinterpret_cast<uintptr_t>(send_), std::memory_order_relaxed);
  double used_ns = 0;
  for (uint64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 4) {
    const uint64_t start_ns = monotonic_ns();
    for (uint64_t frame = 0; frame < kFrames; ++frame) {
      exec::populate(frame_of(all_.rank, frame), std::min(bytes, frame_bytes_));
    }
    exec::populate(send_, bytes);
    exec::populate(recv_, bytes);
    const auto populated_ns = static_cast<double>(monotonic_ns() - start_ns);
    double staged_ns = kNever, single_ns = kNever;
    Status status = time_of(&HostSurvey::staged, bytes, staged_ns);
    if (status.ok() && all_.reads) status = time_of(&HostSurvey::single, bytes, single_ns);
    if (!status.ok()) return status;
    std::array<double, 4> sums{staged_ns, all_.reads ? single_ns : 0, populated_ns,
                               static_cast<double>(monotonic_ns() - start_ns)};
    for (double& sum : sums) {
      const Result<double> added = add_up(sum);
      if (!added.ok()) return added.status();
      sum = mean(added.value());
    }
    found.copies.push_back({static_cast<double>(bytes), sums[0], sums[1]});
    used_ns += sums[3];
    // Messages four times as long take at most four times as long.
    const double next_ns = 4 * ((kTimes * (kCalls - 1) + 1) * (sums[0] + sums[1]) + sums[2]);
    if (used_ns + next_ns > static_cast<double>(kTimeNs)) break;
  }
  return {};
}

Result<select::CrowdTimes> HostSurvey::measure() {
  select::CrowdTimes found{.ranks = ranks(), .cores = all_.cores, .copies = {}};
  for (const auto& [part, number] : {std::pair{&HostSurvey::steps, &found.step_ns},
                                     std::pair{&HostSurvey::row, &found.one_way_ns}}) {
    double best_ns = std::numeric_limits<double>::max();
    if (Status status = (this->*part)(best_ns); !status.ok()) return status;
    const Result<double> sum = add_up(best_ns);
    if (!sum.ok()) return sum.status();
    *number = std::round(sum.value() / ranks());
  }
  if (Status status = copies(found); !status.ok()) return status;
  const Result<double> disturbed = add_up(is_disturbed_ ? 1 : 0);
  if (!disturbed.ok()) return disturbed.status();
  was_disturbed_ = disturbed.value() > 0;
  for (select::CopyTimes& times : found.copies) {
    if (was_disturbed_) times.single_ns = 0;
  }
  if (Status status = leave(); !status.ok()) return status;
  madvise(frame_of(all_.rank, 0), kFrames * frame_bytes_, MADV_REMOVE);
  return found;
}

}  // namespace tutti::comm
