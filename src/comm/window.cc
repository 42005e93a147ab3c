#include "src/comm/window.h"

#include <fcntl.h>

#include <cstring>
#include <thread>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/words.h"
#include "src/transport/memory_handle.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kPatienceNs = 300'000'000;

// The lines of what a rank tells the others.
enum Line : size_t { kBytes, kOffset, kAddress, kRegion, kSignalsHandle, kMemoryHandle, kLines };

Result<uint64_t> number_in(std::string_view text) {
  const auto number = parse_integer<uint64_t>(text);
  if (number) return *number;
  return Status::internal_error("a window was described as '" + std::string(text) + "'");
}

Status not_registered_by(int peer) {
  return Status::invalid_usage("rank " + std::to_string(peer) +
                               " could not register its part of the window");
}

}  // namespace

const char* name_of(Access::Kind kind) {
  static constexpr const char* kNames[] = {"put", "get", "signal", "wait_signal"};
  return kNames[static_cast<int>(kind)];
}

Window::Window(int rank, int ranks)
    : rank_(static_cast<uint32_t>(rank)),
      parts_(static_cast<size_t>(ranks)),
      waited_(static_cast<size_t>(ranks) * kSignals, 0) {}

Result<std::unique_ptr<Window>> Window::create(const Membership& members, const WindowMemory& mine,
                                               transport::ChannelId region,
                                               const GatherTexts& gather,
                                               const std::function<Status()>& serve) {
  std::unique_ptr<Window> made(new Window(members.rank(), members.ranks()));
  made->region_ = region;
  Status problem = mine.problem;
  Result<std::string> text =
      problem.ok() ? made->open(members, mine) : Result<std::string>(problem);
  if (problem.ok()) problem = text.status();
  // A rank with a problem takes part all the same, or the others would wait for it.
  Result<std::vector<std::string>> texts = gather(problem.ok() ? text.value() : "");
  if (problem.ok()) problem = texts.status();
  for (int peer = 0; problem.ok() && peer < members.ranks(); ++peer) {
    problem = made->connect(members, peer, texts.value()[static_cast<size_t>(peer)]);
  }
  if (problem.ok()) problem = serve();
  // Until every rank has mapped it, none may end its part; and it is used by all or none.
  texts = gather(problem.ok() ? "mapped" : "");
  if (!texts.ok()) problem = texts.status();  // a rank that is gone may be why mapping failed
  for (int peer = 0; problem.ok() && peer < members.ranks(); ++peer) {
    if (texts.value()[static_cast<size_t>(peer)].empty()) problem = not_registered_by(peer);
  }
  if (problem.ok()) return made;
  if (made->signals_.data() != nullptr) made->close();  // no peer has used it
  return problem;
}

// Makes the counters, exposes the memory, and says what the others need to know.
Result<std::string> Window::open(const Membership& members, const WindowMemory& mine) {
  Result<transport::Arena> arena =
      transport::Arena::create("tutti-signals", waited_.size() * sizeof(Counter) + sizeof(Door));
  if (!arena.ok()) return arena.status();
  Result<std::string> handle = transport::describe_memory(arena.value());
  if (!handle.ok()) return handle.status();
  signals_ = std::move(arena).value();
  expose(members, mine);  // before any peer knows of it
  return std::to_string(mine.bytes) + "\n" + std::to_string(mine.offset) + "\n" +
         std::to_string(reinterpret_cast<uint64_t>(mine.base)) + "\n" +
         std::to_string(region_.lane) + "\n" + handle.value() + "\n" + mine.handle;
}

void Window::expose(const Membership& members, const WindowMemory& mine) {
  Part& own = parts_[rank_];
  own.bytes = mine.bytes;
  own.memory = mine.base;
  own.region = region_;
  own.thread = true;
  map_counters(own, signals_.data());
  for (int peer = 0; peer < members.ranks(); ++peer) {
    transport::Link* link = members.link(peer);
    if (link == nullptr || link->mapped() != nullptr || link->one_sided() == nullptr) continue;
    Part& part = parts_[static_cast<size_t>(peer)];
    part.remote = link->one_sided();
    part.stream = link->stream();
    part.remote->expose(region_, {mine.base, mine.bytes,
                                  &counter(rank_, static_cast<uint32_t>(peer), 0), kSignals});
  }
}

void Window::map_counters(Part& part, std::byte* counters) const {
  part.counters = reinterpret_cast<Counter*>(counters);
  part.door = reinterpret_cast<Door*>(part.counters + waited_.size());
}

Status Window::connect(const Membership& members, int peer, const std::string& text) {
  if (text.empty()) return not_registered_by(peer);
  if (peer == members.rank()) return {};
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.size() != kLines) {
    return Status::internal_error("rank " + std::to_string(peer) + " described its window badly");
  }
  Result<uint64_t> bytes = number_in(lines[kBytes]), offset = number_in(lines[kOffset]);
  Result<uint64_t> address = number_in(lines[kAddress]), region = number_in(lines[kRegion]);
  for (const auto* number : {&bytes, &offset, &address, &region}) {
    if (!number->ok()) return number->status();
  }
  Part& part = parts_[static_cast<size_t>(peer)];
  part.bytes = bytes.value();
  part.region = region_;
  part.region.lane = static_cast<uint32_t>(region.value());
  transport::Link* link = members.link(peer);
  if (link == nullptr || link->mapped() == nullptr) return {};
  part.thread = link->capabilities().all_memory;
  Result<std::byte*> counters = part.thread ? map_again(lines[kSignalsHandle])
                                            : link->mapped()->import(lines[kSignalsHandle]);
  if (!counters.ok()) return counters.status();
  map_counters(part, counters.value());
  if (part.thread) {
    part.memory = reinterpret_cast<std::byte*>(address.value());
  } else if (!lines[kMemoryHandle].empty()) {
    Result<std::byte*> arena = link->mapped()->import(lines[kMemoryHandle]);
    if (!arena.ok()) return arena.status();
    part.memory = arena.value() + offset.value();
  }
  return {};
}

// The counters of a thread of this process, which may leave while another looks at them.
Result<std::byte*> Window::map_again(std::string_view handle) {
  const Result<transport::MemoryHandle> memory = transport::parse_memory(handle);
  if (!memory.ok()) return memory.status();
  const int fd = fcntl(memory.value().fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return errno_status("cannot share the counters of a window: fcntl");
  Result<transport::Arena> arena = transport::Arena::adopt(fd, memory.value().bytes);
  if (!arena.ok()) return arena.status();
  counters_of_threads_.push_back(std::move(arena).value());
  return counters_of_threads_.back().data();
}

Status Window::check(const Access& access) const {
  const std::string what = std::string(name_of(access.kind)) + ": ";
  if (access.peer >= parts_.size()) return Status::invalid_argument(what + "peer is not a rank");
  const Part& part = parts_[access.peer];
  const std::string whose = "rank " + std::to_string(access.peer) + "'s";
  if (access.signal >= kSignals) {
    return Status::invalid_argument(what + "signal " + std::to_string(access.signal) +
                                    "; there are " + std::to_string(kSignals));
  }
  if (part.counters == nullptr && part.remote == nullptr) {
    return Status::unsupported(what + "the transport to rank " + std::to_string(access.peer) +
                               " has no one-sided access; send instead");
  }
  const bool waits = access.kind == Access::Kind::kWaitSignal;
  const bool open = part.remote != nullptr ? !part.remote->refused(part.region)
                                           : part.door->closed.load(std::memory_order_acquire) == 0;
  if (!waits && !open) return gone(access);
  const bool moves = access.kind == Access::Kind::kPut || access.kind == Access::Kind::kGet;
  if (!moves) return {};
  if (access.offset > part.bytes || access.bytes > part.bytes - access.offset) {
    return Status::invalid_argument(what + "bytes " + std::to_string(access.offset) + " to " +
                                    std::to_string(access.offset + access.bytes) + " of " + whose +
                                    " " + std::to_string(part.bytes));
  }
  if (part.memory == nullptr && part.remote == nullptr && access.bytes > 0) {
    return Status::unsupported(what + whose +
                               " part of the window is not from tuttiMemAlloc, so "
                               "other processes cannot map it");
  }
  if (access.local == nullptr && access.bytes > 0) {
    return Status::invalid_argument(what + "the local buffer is null");
  }
  return {};
}

Status Window::gone(const Access& access) const {
  return Status::invalid_usage(std::string(name_of(access.kind)) + ": rank " +
                               std::to_string(access.peer) +
                               " has deregistered its part of the window; nothing was moved. "
                               "Ranks deregister when no peer uses their part any more");
}

Status Window::outcome(const Access& access) const {
  return access.refused ? gone(access) : Status();
}

bool Window::advance(Access& access) {
  const Part& part = parts_[access.peer];
  if (access.kind == Access::Kind::kWaitSignal) {
    uint64_t& waited = waited_[access.peer * kSignals + access.signal];
    const Counter& mine = counter(rank_, access.peer, access.signal);
    if (mine.load(std::memory_order_acquire) - waited < access.times) return false;
    waited += access.times;
    return true;
  }
  return part.remote != nullptr ? advance_remote(access, part) : advance_mapped(access, part);
}

// The owner uses its memory for other things once it has closed the door, and waits for those
// inside.
bool Window::advance_mapped(Access& access, const Part& part) {
  auto& inside = part.thread ? part.door->threads_inside : part.door->processes_inside;
  inside.fetch_add(1, std::memory_order_seq_cst);
  access.refused = part.door->closed.load(std::memory_order_seq_cst) != 0;
  if (!access.refused) touch(access, part);
  inside.fetch_sub(1, std::memory_order_release);
  return true;
}

void Window::touch(const Access& access, const Part& part) {
  if (access.kind == Access::Kind::kGet && access.bytes > 0) {
    std::memmove(access.local, part.memory + access.offset, access.bytes);
  }
  if (access.kind == Access::Kind::kPut && access.bytes > 0) {
    std::memmove(part.memory + access.offset, access.local, access.bytes);
  }
  if (access.kind == Access::Kind::kSignal || access.then_signal) {
    Counter& theirs = counter(access.peer, rank_, access.signal);
    theirs.store(theirs.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
}

bool Window::advance_remote(Access& access, const Part& part) {
  const bool gets = access.kind == Access::Kind::kGet;
  if (access.ticket == 0 && gets) {
    access.ticket = part.remote->get(part.region, access.offset, {access.local, access.bytes});
  } else if (access.ticket == 0) {
    const bool signals = access.kind == Access::Kind::kSignal || access.then_signal;
    access.ticket = part.remote->put(part.region, access.offset, {access.local, access.bytes},
                                     signals ? access.signal : transport::OneSided::kNoSignal);
  }
  const bool done = gets ? part.stream->received(access.ticket) : part.stream->sent(access.ticket);
  if (done) access.refused = part.remote->refused(part.region);
  return done;
}

int Window::close() {
  Door& door = *parts_[rank_].door;
  door.closed.store(1, std::memory_order_seq_cst);
  // Each is inside for one copy, without waiting, if it lives.
  while (door.threads_inside.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  for (const uint64_t until_ns = monotonic_ns() + kPatienceNs; monotonic_ns() < until_ns;) {
    if (door.processes_inside.load(std::memory_order_seq_cst) == 0) break;
    std::this_thread::yield();
  }
  int reader = -1;
  for (size_t peer = 0; peer < parts_.size(); ++peer) {
    const Part& part = parts_[peer];
    if (part.remote != nullptr && !part.remote->withdraw(region_)) reader = static_cast<int>(peer);
  }
  return reader;
}

}  // namespace tutti::comm
