#include "src/comm/window.h"

#include <cstring>

#include "src/base/words.h"
#include "src/transport/memory_handle.h"

namespace tutti::comm {
namespace {

// The lines of what a rank tells the others.
enum Line : size_t { kBytes, kOffset, kAddress, kSignalsHandle, kMemoryHandle, kLines };

Result<uint64_t> number_in(std::string_view text) {
  const auto number = parse_integer<uint64_t>(text);
  if (number) return *number;
  return Status::internal_error("a window was described as '" + std::string(text) + "'");
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
                                               const GatherTexts& gather) {
  std::unique_ptr<Window> made(new Window(members.rank(), members.ranks()));
  Status problem = mine.problem;
  std::string text;
  if (problem.ok()) {
    Result<transport::Arena> arena =
        transport::Arena::create("tutti-signals", made->waited_.size() * sizeof(Counter));
    Result<std::string> handle = arena.ok() ? transport::describe_memory(arena.value())
                                            : Result<std::string>(arena.status());
    problem = handle.status();
    if (handle.ok()) {
      made->signals_ = std::move(arena).value();
      text = std::to_string(mine.bytes) + "\n" + std::to_string(mine.offset) + "\n" +
             std::to_string(reinterpret_cast<uint64_t>(mine.base)) + "\n" + handle.value() + "\n" +
             mine.handle;
    }
  }
  // A rank with a problem takes part all the same, or the others would wait for it.
  Result<std::vector<std::string>> texts = gather(text);
  if (!problem.ok()) return problem;
  if (!texts.ok()) return texts.status();
  Part& own = made->parts_[made->rank_];
  own = {mine.bytes, mine.base, reinterpret_cast<Counter*>(made->signals_.data())};
  for (int peer = 0; peer < members.ranks(); ++peer) {
    const std::string& theirs = texts.value()[static_cast<size_t>(peer)];
    if (theirs.empty()) {
      return Status::invalid_usage("rank " + std::to_string(peer) +
                                   " could not register its part of the window");
    }
    if (peer == members.rank()) continue;
    if (Status status = made->connect(members, peer, theirs); !status.ok()) return status;
  }
  return made;
}

Status Window::connect(const Membership& members, int peer, const std::string& text) {
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.size() != kLines) {
    return Status::internal_error("rank " + std::to_string(peer) + " described its window badly");
  }
  Result<uint64_t> bytes = number_in(lines[kBytes]), offset = number_in(lines[kOffset]);
  Result<uint64_t> address = number_in(lines[kAddress]);
  for (const auto* number : {&bytes, &offset, &address}) {
    if (!number->ok()) return number->status();
  }
  Part& part = parts_[static_cast<size_t>(peer)];
  part.bytes = bytes.value();
  transport::Link* link = members.link(peer);
  if (link == nullptr || link->mapped() == nullptr) return {};
  Result<std::byte*> counters = link->mapped()->import(lines[kSignalsHandle]);
  if (!counters.ok()) return counters.status();
  part.counters = reinterpret_cast<Counter*>(counters.value());
  if (link->capabilities().all_memory) {
    part.memory = reinterpret_cast<std::byte*>(address.value());
  } else if (!lines[kMemoryHandle].empty()) {
    Result<std::byte*> arena = link->mapped()->import(lines[kMemoryHandle]);
    if (!arena.ok()) return arena.status();
    part.memory = arena.value() + offset.value();
  }
  return {};
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
  if (part.counters == nullptr) {
    return Status::unsupported(what + "windows reach ranks of one host, and rank " +
                               std::to_string(access.peer) + " is not on this one; send instead");
  }
  const bool moves = access.kind == Access::Kind::kPut || access.kind == Access::Kind::kGet;
  if (!moves) return {};
  if (access.offset > part.bytes || access.bytes > part.bytes - access.offset) {
    return Status::invalid_argument(what + "bytes " + std::to_string(access.offset) + " to " +
                                    std::to_string(access.offset + access.bytes) + " of " + whose +
                                    " " + std::to_string(part.bytes));
  }
  if (part.memory == nullptr && access.bytes > 0) {
    return Status::unsupported(what + whose +
                               " part of the window is not from tuttiMemAlloc, so "
                               "other processes cannot map it");
  }
  if (access.local == nullptr && access.bytes > 0) {
    return Status::invalid_argument(what + "the local buffer is null");
  }
  return {};
}

bool Window::advance(const Access& access) {
  const Part& part = parts_[access.peer];
  if (access.kind == Access::Kind::kWaitSignal) {
    uint64_t& waited = waited_[access.peer * kSignals + access.signal];
    const Counter& mine = counter(rank_, access.peer, access.signal);
    if (mine.load(std::memory_order_acquire) - waited < access.times) return false;
    waited += access.times;
    return true;
  }
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
  return true;
}

}  // namespace tutti::comm
