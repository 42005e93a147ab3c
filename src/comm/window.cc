#include "src/comm/window.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/transport/memory_handle.h"

namespace tutti::comm {
namespace {

// Of a copy on one host, so that whoever ends its part does not wait for long.
constexpr uint64_t kPieceBytes = 4 << 20;
// So much in a row before the caller looks at deadlines and aborts.
constexpr uint64_t kStretchBytes = 16 * kPieceBytes;
// A process that ends loses its memory before it can be seen to end.
constexpr uint64_t kEndingNs = 1'000'000'000;

// The lines of what a rank tells the others.
enum PartLine : size_t {
  kBytes,
  kOffset,
  kAddress,
  kRegion,
  kPlace,
  kBoardHandle,
  kMemoryHandle,
  kLines
};
constexpr std::string_view kInHost = "host", kOnDevice = "device";

bool lies_on_device(const std::string& text) {
  const std::vector<std::string_view> lines = split(text, '\n');
  return lines.size() == kLines && lines[kPlace] == kOnDevice;
}

/// All ranks or none take part, since it follows from what each has said.
Result<DeviceParts> share_devices(const WindowMemory& mine, const WindowSteps& steps,
                                  const std::vector<std::string>& texts) {
  const auto is_refused = [](const std::string& text) { return text.empty(); };
  if (std::any_of(texts.begin(), texts.end(), is_refused)) return DeviceParts{};
  if (std::none_of(texts.begin(), texts.end(), lies_on_device)) return DeviceParts{};
  return steps.share(mine);
}

Result<uint64_t> number_in(std::string_view text) {
  const auto number = parse_integer<uint64_t>(text);
  if (number) return *number;
  return Status::internal_error("a window was described as '" + std::string(text) + "'");
}

Status not_registered_by(const std::string& rank) {
  return Status::invalid_usage(rank + " could not register its part of the window");
}

constexpr const char* kDone = "done";
constexpr const char* kAbsent = "absent";

Status described_badly(const std::string& rank) {
  return Status::remote_error(rank + " described its part of the window badly");
}

}  // namespace

std::string outcome_of(const Status& status) {
  constexpr size_t kMostBytes = 400;
  if (status.ok()) return kDone;
  if (status.code() != Code::kRemoteError) return "";
  return "because of " + std::string(status.message().substr(0, kMostBytes));
}

Status problem_of(const std::string& outcome, const Status& problem) {
  if (outcome == kDone) return {};
  if (outcome.empty()) return problem;
  return Status::remote_error(std::string(problem.message()) + " " + outcome);
}

const char* name_of(Access::Kind kind) {
  static constexpr const char* kNames[] = {"put", "get", "signal", "wait_signal"};
  return kNames[static_cast<int>(kind)];
}

Window::Window(const Membership& members)
    : members_(members),
      rank_(static_cast<uint32_t>(members.rank())),
      parts_(static_cast<size_t>(members.ranks())),
      waited_(parts_.size() * kSignals, 0),
      holders_(make_holders()),
      captured_(make_captured_puts()) {}

Result<std::unique_ptr<Window>> Window::create(const Membership& members, const WindowMemory& mine,
                                               transport::ChannelId region,
                                               const WindowSteps& steps) {
  std::unique_ptr<Window> made(new Window(members));
  made->region_ = region;
  made->mine_ = mine;
  made->mine_.before = nullptr;
  Status problem = mine.problem;
  Result<std::string> text = problem;
  if (problem.ok()) text = mine.is_absent ? Result<std::string>(kAbsent) : made->open(mine);
  if (problem.ok()) problem = text.status();
  // A rank with a problem takes part all the same, or the others would wait for it.
  Result<std::vector<std::string>> texts = steps.gather(problem.ok() ? text.value() : "");
  if (problem.ok()) problem = texts.status();
  DeviceParts device;
  if (texts.ok()) {
    const Result<DeviceParts> shared = share_devices(made->mine_, steps, texts.value());
    if (shared.ok()) device = shared.value();
    if (problem.ok()) problem = shared.status();
  }
  for (int peer = 0; problem.ok() && peer < members.ranks(); ++peer) {
    problem = made->connect(peer, texts.value()[static_cast<size_t>(peer)], device);
  }
  if (problem.ok() && mine.before != nullptr) made->take_captured_puts(*mine.before);
  if (problem.ok()) problem = steps.serve();
  // Until every rank has mapped it, none may end its part; and it is used by all or none.
  texts = steps.gather(outcome_of(problem));
  if (!texts.ok()) problem = texts.status();  // a rank that is gone may be why mapping failed
  for (int peer = 0; problem.ok() && peer < members.ranks(); ++peer) {
    problem = problem_of(texts.value()[static_cast<size_t>(peer)],
                         not_registered_by(members.name_of(peer)));
  }
  if (problem.ok()) return made;
  if (made->memory_of_board_.data() == nullptr) return problem;
  return made->discard(problem, texts.ok());
}

// A part that this rank does not get. If it was `refused`, no rank got its own. Else peers may have
// heard from all ranks when this one did not, and be inside already.
Status Window::discard(const Status& problem, bool refused) {
  if (!refused) shut();
  if (close() < 0) return problem;
  cut_off();
  return left_alone(problem, problem, kStretchPatienceNs);
}

// Makes the board, exposes the memory, and says what the others need to know.
Result<std::string> Window::open(const WindowMemory& mine) {
  Result<transport::Arena> arena =
      transport::Arena::create("tutti-signals", SharedPartState::bytes_for(parts_.size()));
  if (!arena.ok()) return arena.status();
  Result<std::string> handle = transport::describe_memory(arena.value());
  if (!handle.ok()) return handle.status();
  memory_of_board_ = std::move(arena).value();
  parts_[rank_].board = SharedPartState(memory_of_board_.data());
  if (mine.before != nullptr) take_signals(*mine.before);
  expose(mine);  // before any peer knows of it
  return std::to_string(mine.bytes) + "\n" + std::to_string(mine.offset) + "\n" +
         std::to_string(reinterpret_cast<uint64_t>(mine.base)) + "\n" +
         std::to_string(region_.lane) + "\n" + std::string(mine.on_device ? kOnDevice : kInHost) +
         "\n" + handle.value() + "\n" + mine.handle;
}

void Window::expose(const WindowMemory& mine) {
  WindowPart& own = parts_[rank_];
  own.bytes = mine.bytes;
  own.is_on_device = mine.on_device;
  // No host and no transport touches device memory: of such a part they have the signals.
  const transport::Buffer memory{mine.on_device ? nullptr : mine.base,
                                 mine.on_device ? 0 : mine.bytes};
  own.memory = memory.data;
  own.owner = members_.announce(memory, mine.owner);  // before it is exposed
  own.region = region_;
  own.thread = true;
  for (uint32_t peer = 0; peer < parts_.size(); ++peer) {
    transport::Link* link = members_.link(static_cast<int>(peer));
    if (link == nullptr || link->mapped() != nullptr || link->one_sided() == nullptr) continue;
    WindowPart& part = parts_[peer];
    part.remote = link->one_sided();
    part.stream = link->stream();
    part.remote->expose(region_, {memory.data, memory.bytes, own.board.signals(peer), kSignals});
  }
}

Status Window::connect(int peer, const std::string& text, const DeviceParts& devices) {
  if (text.empty()) return not_registered_by(members_.name_of(peer));
  if (mine_.is_absent) return {};
  if (!devices.begins.empty()) {
    parts_[static_cast<size_t>(peer)].device = devices.begins[static_cast<size_t>(peer)];
    device_memory_ = devices.memory;
  }
  if (peer == members_.rank()) return {};
  if (text == kAbsent) {
    parts_[static_cast<size_t>(peer)].is_absent = true;
    return {};
  }
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.size() != kLines) return described_badly(members_.name_of(peer));
  Result<uint64_t> bytes = number_in(lines[kBytes]), offset = number_in(lines[kOffset]);
  Result<uint64_t> address = number_in(lines[kAddress]), region = number_in(lines[kRegion]);
  for (const auto* number : {&bytes, &offset, &address, &region}) {
    if (!number->ok()) return number->status();
  }
  WindowPart& part = parts_[static_cast<size_t>(peer)];
  part.bytes = bytes.value();
  part.region = region_;
  part.region.lane = static_cast<uint32_t>(region.value());
  part.address = address.value();
  part.is_on_device = lines[kPlace] == kOnDevice;
  part.link = members_.link(peer);
  if (part.link == nullptr || part.link->mapped() == nullptr) return {};
  part.thread = part.link->capabilities().all_memory;
  Result<transport::Import> board =
      transport::Import::of(*part.link->mapped(), lines[kBoardHandle]);
  if (!board.ok()) return board.status();
  part.memory_of_board = std::move(board).value();
  if (!part.memory_of_board.holds(0, SharedPartState::bytes_for(parts_.size()))) {
    return described_badly(members_.name_of(peer));
  }
  part.board = SharedPartState(part.memory_of_board.data());
  return find_memory(peer, lines[kMemoryHandle], offset.value());
}

Status Window::find_memory(int peer, std::string_view handle, uint64_t offset) {
  WindowPart& part = parts_[static_cast<size_t>(peer)];
  if (part.is_on_device) return {};
  if (part.thread) {
    part.memory = reinterpret_cast<std::byte*>(part.address);
  } else if (!handle.empty()) {
    Result<transport::Import> arena = transport::Import::of(*part.link->mapped(), handle);
    if (!arena.ok()) return arena.status();
    part.arena = std::move(arena).value();
    if (!part.arena.holds(offset, part.bytes)) return described_badly(members_.name_of(peer));
    part.memory = part.arena.data() + offset;
  } else if (part.link->capabilities().single_copy) {
    part.copies = part.link->mapped();
  }
  return {};
}

Status Window::check(const Access& access) const {
  const std::string what = std::string(name_of(access.kind)) + ": ";
  if (access.peer >= parts_.size()) return Status::invalid_argument(what + "peer is not a rank");
  const WindowPart& part = parts_[access.peer];
  const auto peer = [&] { return members_.name_of(static_cast<int>(access.peer)); };
  if (access.signal >= kSignals) {
    return Status::invalid_argument(what + "signal " + std::to_string(access.signal) +
                                    "; there are " + std::to_string(kSignals));
  }
  const bool waits = access.kind == Access::Kind::kWaitSignal;
  if (part.is_absent) return waits ? Status() : gone(access);
  if (!part.board.valid() && part.remote == nullptr) {
    return Status::unsupported(what + "the transport to " + peer() +
                               " has no one-sided access; send instead");
  }
  const bool ended = part.remote != nullptr ? part.remote->refused(part.region)
                                            : part.board.access_flag() == AccessFlag::kClosed;
  if (!waits && ended) return gone(access);
  const bool moves = access.kind == Access::Kind::kPut || access.kind == Access::Kind::kGet;
  if (!moves) return {};
  if (access.offset > part.bytes || access.bytes > part.bytes - access.offset) {
    return Status::invalid_argument(what + "bytes " + std::to_string(access.offset) + " to " +
                                    std::to_string(access.offset + access.bytes) + " of the " +
                                    std::to_string(part.bytes) + " of " + peer());
  }
  if (part.is_on_device && access.bytes > 0) {
    if (Status status = check_device_part(access); !status.ok()) return status;
  }
  const bool reached = part.memory != nullptr || part.copies != nullptr || part.remote != nullptr ||
                       part.device != nullptr;
  if (!reached && access.bytes > 0) return out_of_reach(access);
  if (access.local == nullptr && access.bytes > 0) {
    return Status::invalid_argument(what + "the local buffer is null");
  }
  return {};
}

Status Window::gone(const Access& access) const {
  return Status::invalid_usage(std::string(name_of(access.kind)) + ": " +
                               members_.name_of(static_cast<int>(access.peer)) +
                               " has deregistered its part of the window; what was not there by "
                               "then is not moved. Ranks deregister when no peer uses their part "
                               "any more");
}

Status Window::out_of_reach(const Access& access) const {
  return Status::unsupported(
      std::string(name_of(access.kind)) + ": the part of " +
      members_.name_of(static_cast<int>(access.peer)) +
      " is ordinary memory, and this process and that one may not read and write each other's "
      "(process_vm_writev is refused: by Yama's ptrace_scope, a container or a PID namespace of "
      "its own). Register memory from tuttiMemAlloc there, or permit it: "
      "sysctl kernel.yama.ptrace_scope=0, or for a container --cap-add=SYS_PTRACE");
}

exec::Progress Window::advance(Access& access) {
  const WindowPart& part = parts_[access.peer];
  if (access.kind == Access::Kind::kWaitSignal) {
    uint64_t& waited = waited_[access.peer * kSignals + access.signal];
    const SharedPartState::Word& mine = parts_[rank_].board.signals(access.peer)[access.signal];
    if (mine.load(std::memory_order_acquire) - waited < access.times) {
      return exec::Progress::kBlocked;
    }
    waited += access.times;
    return exec::Progress::kDone;
  }
  if (part.remote == nullptr) return advance_here(access, part);
  return advance_remote(access, part) ? exec::Progress::kDone : exec::Progress::kBlocked;
}

// The owner uses its memory for other things once it has changed the access flag, and waits for
// those inside.
exec::Progress Window::advance_here(Access& access, const WindowPart& part) const {
  if (access.by_stream) return finish_by_stream(access, part);
  SharedPartState::Word& inside = part.board.inside(rank_);
  const uint64_t rest = access.bytes - access.moved;
  const uint64_t until = access.moved + std::min(rest, kStretchBytes);
  bool touched = true;
  do {
    AccessFlag access_flag;
    {
      const ScopedFlag flag(inside);
      access_flag = part.board.access_flag();
      touched = access_flag == AccessFlag::kOpen && !part.board.bars(rank_) && touch(access, part);
    }
    if (access_flag == AccessFlag::kClosed) access.problem = gone(access);
  } while (touched && access.moved < until);
  if (!access.problem.ok()) return exec::Progress::kDone;
  if (!touched) return exec::Progress::kBlocked;
  return access.moved == access.bytes ? exec::Progress::kDone : exec::Progress::kMoved;
}

// One piece, and behind the last one the signal. False if it failed: Access::problem says why, or
// the peer is dead.
bool Window::touch(Access& access, const WindowPart& part) const {
  const uint64_t bytes = std::min(access.bytes - access.moved, kPieceBytes);
  std::byte* const here = access.local + access.moved;
  const uint64_t there = access.offset + access.moved;
  const bool gets = access.kind == Access::Kind::kGet;
  if (bytes > 0 && part.memory != nullptr) {
    std::byte* const theirs = part.memory + there;
    std::memmove(gets ? here : theirs, gets ? theirs : here, bytes);
  } else if (bytes > 0) {
    const Status copied = gets ? part.copies->read({here, bytes}, part.address + there)
                               : part.copies->write(part.address + there, {here, bytes});
    if (!copied.ok()) {
      note_failed_copy(access, part, copied);
      return false;
    }
  }
  access.moved += bytes;
  if (access.moved == access.bytes) raise_signal(access, part);
  return true;
}

void Window::raise_signal(const Access& access, const WindowPart& part) const {
  if (access.kind != Access::Kind::kSignal && !access.then_signal) return;
  SharedPartState::Word& theirs = part.board.signals(rank_)[access.signal];
  theirs.store(theirs.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// The caller finds a dead rank where it looks at failures. But a process can also live on without
// the memory, when its main thread has ended before the others: nobody would ever find a failure.
void Window::note_failed_copy(Access& access, const WindowPart& part, const Status& problem) const {
  if (problem.code() != Code::kRemoteError) {
    access.problem = problem.code() == Code::kUnsupported ? out_of_reach(access) : problem;
    return;
  }
  const uint64_t now_ns = monotonic_ns();
  if (access.lost_ns == 0) access.lost_ns = now_ns;
  if (now_ns - access.lost_ns < kEndingNs) return;
  if (part.link->status().ok()) access.problem = problem;
}

bool Window::advance_remote(Access& access, const WindowPart& part) const {
  const bool gets = access.kind == Access::Kind::kGet;
  if (access.ticket == 0 && gets) {
    access.ticket = part.remote->get(part.region, access.offset, {access.local, access.bytes});
  } else if (access.ticket == 0) {
    const bool signals = access.kind == Access::Kind::kSignal || access.then_signal;
    access.ticket = part.remote->put(part.region, access.offset, {access.local, access.bytes},
                                     signals ? access.signal : transport::OneSided::kNoSignal);
  }
  const bool done = gets ? part.stream->received(access.ticket) : part.stream->sent(access.ticket);
  if (done && part.remote->refused(part.region)) access.problem = gone(access);
  return done;
}

int Window::close() {
  // A rank that comes to the part of a failed communicator shall learn of the failure.
  if (parts_[rank_].board.access_flag() == AccessFlag::kOpen)
    parts_[rank_].board.set(AccessFlag::kClosed);
  int busy = who_is_inside();
  for (size_t peer = 0; peer < parts_.size(); ++peer) {
    const WindowPart& part = parts_[peer];
    if (part.remote == nullptr || part.remote->withdraw(region_)) continue;
    part.stream->progress();  // the call that would move it may be long in coming
    busy = static_cast<int>(peer);
  }
  return busy;
}

void Window::cut_off() {
  for (const WindowPart& part : parts_) {
    if (part.remote == nullptr || part.remote->cut_off(region_)) continue;
    part.link->sever("a window has ended, and the peer may still write to its memory");
  }
}

void Window::shut() {
  if (parts_[rank_].board.access_flag() == AccessFlag::kOpen)
    parts_[rank_].board.set(AccessFlag::kFailed);
}

Status Window::left_alone(const Status& failure, const Status& outcome,
                          uint64_t patience_ns) const {
  // A peer that comes to a shut window is inside until it has seen that.
  const uint64_t until_ns = monotonic_ns() + patience_ns;
  int peer = who_is_inside();
  while (peer >= 0 && monotonic_ns() < until_ns) {
    std::this_thread::yield();
    peer = who_is_inside();
  }
  if (peer < 0) return outcome;
  return Status(failure.code(), std::string(failure.message()) + "; " + members_.name_of(peer) +
                                    " is still inside rank " + std::to_string(rank_) +
                                    "'s part of a window: keep that memory until it ends");
}

// Threads are waited for: each is inside for one piece and waits for nobody. A thread that comes
// again finds the access flag shut, and need not be waited for. A dead rank stays inside. Streams,
// also this rank's own, may hold a copy for as long as what is before it waits for.
int Window::who_is_inside() const {
  const SharedPartState& own = parts_[rank_].board;
  for (uint32_t peer = 0; peer < parts_.size(); ++peer) {
    const WindowPart& part = parts_[peer];
    if (!part.board.valid()) continue;
    if (peer == rank_) {
      if (own.held(peer).load(std::memory_order_seq_cst) != 0) return static_cast<int>(peer);
      continue;
    }
    const auto inside = [&] { return own.inside(peer).load(std::memory_order_seq_cst) != 0; };
    const bool held = own.held(peer).load(std::memory_order_seq_cst) != 0;
    while (part.thread && inside()) std::this_thread::yield();
    const bool busy = held || (!part.thread && inside());
    if (busy && part.link->status().ok()) return static_cast<int>(peer);
  }
  return -1;
}

}  // namespace tutti::comm
