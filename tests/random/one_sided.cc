#include "tests/random/one_sided.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "tests/random/issue.h"
#include "tests/random/pattern.h"

namespace tutti::random_calls {
namespace {

constexpr std::byte kUntouched{0xee};

std::string at_byte(uint64_t index, uint64_t bytes) {
  return " at byte " + std::to_string(index) + " of " + std::to_string(bytes);
}

// Whose parts the calls change.
std::set<int> targets_of(const std::vector<const Call*>& calls) {
  std::set<int> targets;
  for (const Call* call : calls) {
    for (const Access& access : call->accesses) {
      if (!access.is_get) targets.insert(access.target);
    }
  }
  return targets;
}

}  // namespace

OneSided::OneSided(const Job& job, const Place& place, const Library& library,
                   const Verdict& verdict)
    : job_(job),
      communicator_(job.communicators[place.communicator]),
      number_(place.communicator),
      rank_(place.rank),
      comm_(place.comm),
      library_(library),
      verdict_(verdict) {}

OneSided::~OneSided() {
  for (Part& part : parts_) {
    if (part.own == nullptr) tuttiMemFree(part.memory);
  }
}

OneSided::Calls OneSided::calls_of(const Batch& batch) const {
  Calls own;
  for (const Call& call : batch.calls) {
    if (call.kind == Kind::kOneSided && call.communicator == number_) own.push_back(&call);
  }
  return own;
}

bool OneSided::open() {
  const bool used = std::ranges::any_of(
      job_.batches, [&](const Batch& batch) { return !calls_of(batch).empty(); });
  while (used && parts_.size() < communicator_.windows) {
    if (!add_part()) return false;
  }
  return true;
}

bool OneSided::add_part() {
  Part part;
  void* memory = nullptr;
  if (communicator_.ordinary_windows) {
    part.own = std::make_unique_for_overwrite<std::byte[]>(kWindowBytes);
    memory = part.own.get();
  } else if (!verdict_.ok(tuttiMemAlloc(&memory, kWindowBytes), "tuttiMemAlloc", nullptr)) {
    return false;
  }
  part.memory = static_cast<std::byte*>(memory);
  const auto window = static_cast<uint32_t>(parts_.size());
  for (uint64_t i = 0; i < kReadBytes; ++i) part.memory[i] = window_byte(number_, rank_, window, i);
  std::memset(part.memory + kReadBytes, static_cast<int>(kUntouched), kWindowBytes - kReadBytes);
  const tuttiResult_t made = tuttiCommWindowRegister(comm_, memory, kWindowBytes, &part.window, 0);
  parts_.push_back(std::move(part));
  return verdict_.ok(made, "tuttiCommWindowRegister", comm_);
}

// Gets are told to nobody: behind the barrier they are over.
bool OneSided::close() {
  if (!parts_.empty() && !barrier()) return false;
  for (Part& part : parts_) {
    const tuttiResult_t done = tuttiCommWindowDeregister(comm_, part.window);
    if (!verdict_.ok(done, "tuttiCommWindowDeregister", comm_)) return false;
    if (part.own == nullptr) tuttiMemFree(part.memory);
  }
  parts_.clear();
  return true;
}

Block& OneSided::add_buffer(const Call& call, size_t ordinal, bool is_source) {
  const uint64_t bytes = call.accesses[ordinal].bytes;
  buffers_.push_back({&call, ordinal, is_source, Block(bytes, call.seed % 64, nullptr)});
  return buffers_.back().block;
}

bool OneSided::issue(const Call& call, bool blocking, tuttiStream_t stream) {
  for (size_t i = 0; i < call.accesses.size(); ++i) {
    const Access& access = call.accesses[i];
    if (access.origin != rank_) continue;
    if (!access.is_get && !put(call, i, blocking, stream)) return false;
    if (!access.is_get && !access.reads_back) continue;
    if (!get(access, add_buffer(call, i, false), stream)) return false;
  }
  for (const Access& access : call.accesses) {
    if (access.origin != rank_ || access.is_get) continue;
    tuttiResult_t done = tuttiSuccess;
    if (call.arrival == Arrival::kSignal) {
      const tuttiWindow_t window = parts_[window_of_signal(call, access)].window;
      done = library_.signal(access.target, window, call.signal, stream);
    } else if (call.arrival == Arrival::kFlush) {
      done = library_.get(nullptr, 0, access.target, parts_[access.window].window, 0, stream);
    }
    if (!verdict_.ok(done, name_of(call.arrival), comm_)) return false;
  }
  return true;
}

bool OneSided::put(const Call& call, size_t ordinal, bool blocking, tuttiStream_t stream) {
  const Access& a = call.accesses[ordinal];
  Block& source = add_buffer(call, ordinal, true);
  for (uint64_t i = 0; i < a.bytes; ++i) source.data()[i] = put_byte(call, ordinal, i);
  const tuttiWindow_t window = parts_[a.window].window;
  const bool signals = call.arrival == Arrival::kPutSignal;
  const tuttiResult_t done =
      signals ? library_.put_signal(source.data(), a.bytes, a.target, window, a.offset, call.signal,
                                    stream)
              : library_.put(source.data(), a.bytes, a.target, window, a.offset, stream);
  if (blocking) source.overwrite();  // complete: it is this rank's again
  return verdict_.ok(done, signals ? "tuttiPutSignal" : "tuttiPut", comm_);
}

bool OneSided::get(const Access& a, Block& target, tuttiStream_t stream) {
  const tuttiResult_t done =
      library_.get(target.data(), a.bytes, a.target, parts_[a.window].window, a.offset, stream);
  return verdict_.ok(done, "tuttiGet", comm_);
}

// A signal behind a put is behind it in all windows.
uint32_t OneSided::window_of_signal(const Call& call, const Access& access) const {
  return call.arrival == Arrival::kPutSignal ? access.window
                                             : (access.window + 1) % communicator_.windows;
}

bool OneSided::await(const Call& call, tuttiStream_t stream) {
  if (call.arrival == Arrival::kFlush) return true;
  for (const Access& access : call.accesses) {
    if (access.target != rank_ || access.is_get) continue;
    const tuttiWindow_t window = parts_[window_of_signal(call, access)].window;
    const tuttiResult_t done = tuttiWaitSignal(access.origin, window, call.signal, 1, stream);
    if (!verdict_.ok(done, "tuttiWaitSignal", comm_)) return false;
  }
  return true;
}

// It may order two threads of this process by way of another process, which the thread sanitizer
// cannot see; the counter tells it. In jobs of one process it judges the library's own order.
bool OneSided::barrier() {
  // tidy: allow mutable (for what one process's threads know of each other)
  static std::atomic<uint64_t> arrived{0};
  const bool leaves_process = job_.shape.process_count() > 1;
  if (leaves_process) arrived.fetch_add(1, std::memory_order_release);
  const tuttiCall_t barrier = TUTTI_CALL_INITIALIZER;
  const bool done = verdict_.ok(run_plainly(barrier, comm_), "barrier", comm_);
  if (leaves_process) arrived.load(std::memory_order_acquire);
  return done;
}

bool OneSided::finish(const Batch& batch) {
  const Calls calls = calls_of(batch);
  if (calls.empty()) return true;
  const bool flushes =
      std::ranges::any_of(calls, [](const Call* call) { return call->arrival == Arrival::kFlush; });
  if (flushes && !barrier()) return false;
  for (const Call* call : calls) {
    if (!check(*call)) return false;
  }
  for (const Buffer& buffer : buffers_) {
    if (const std::string wrong = damage(buffer); !wrong.empty()) return verdict_.wrong(wrong);
  }
  buffers_.clear();
  return take(calls);
}

// To all ranks, because any of them may be the next to put there.
bool OneSided::take(const Calls& calls) {
  const tuttiStream_t now = tuttiBlocking();
  const tuttiWindow_t window = parts_[0].window;
  const std::set<int> targets = targets_of(calls);
  if (targets.contains(rank_)) {
    for (const Call* call : calls) forget(*call);
    for (int peer = 0; peer < communicator_.ranks(); ++peer) {
      const tuttiResult_t done = tuttiSignal(peer, window, kTakenSignal, now);
      if (!verdict_.ok(done, "tuttiSignal", comm_)) return false;
    }
  }
  return std::ranges::all_of(targets, [&](int target) {
    const tuttiResult_t done = tuttiWaitSignal(target, window, kTakenSignal, 1, now);
    return verdict_.ok(done, "tuttiWaitSignal", comm_);
  });
}

bool OneSided::check(const Call& call) {
  for (size_t i = 0; i < call.accesses.size(); ++i) {
    const Access& access = call.accesses[i];
    if (access.is_get || access.target != rank_) continue;
    const std::string wrong = damage(call, i);
    if (wrong.empty()) continue;
    return verdict_.wrong("put " + std::to_string(i) + " of [" + describe(call) + "]: " + wrong);
  }
  return true;
}

std::string OneSided::damage(const Call& call, size_t ordinal) const {
  const Access& a = call.accesses[ordinal];
  const std::byte* const at = parts_[a.window].memory + a.offset;
  for (uint64_t i = 0; i < a.bytes; ++i) {
    if (at[i] == put_byte(call, ordinal, i)) continue;
    return (at[i] == kUntouched ? "nothing came" : "something else came") + at_byte(i, a.bytes);
  }
  const auto clean = [](std::byte byte) { return byte == kUntouched; };
  if (std::all_of(at - kPutGuardBytes, at, clean) &&
      std::all_of(at + a.bytes, at + a.bytes + kPutGuardBytes, clean)) {
    return "";
  }
  return "it wrote beside its " + std::to_string(a.bytes) + " bytes";
}

std::string OneSided::damage(const Buffer& buffer) const {
  const Access& a = buffer.call->accesses[buffer.ordinal];
  const std::string which =
      "get " + std::to_string(buffer.ordinal) + " of [" + describe(*buffer.call) + "]: ";
  if (std::string wrong = buffer.block.damage(); !wrong.empty()) return which + wrong;
  for (uint64_t i = 0; !buffer.is_source && i < a.bytes; ++i) {
    const std::byte wanted = a.is_get ? window_byte(number_, a.target, a.window, a.offset + i)
                                      : put_byte(*buffer.call, buffer.ordinal, i);
    if (buffer.block.data()[i] != wanted) return which + "wrong" + at_byte(i, a.bytes);
  }
  return "";
}

void OneSided::forget(const Call& call) {
  for (const Access& access : call.accesses) {
    if (access.is_get || access.target != rank_) continue;
    std::byte* const at = parts_[access.window].memory + access.offset;
    std::memset(at, static_cast<int>(kUntouched), access.bytes);
  }
}

}  // namespace tutti::random_calls
