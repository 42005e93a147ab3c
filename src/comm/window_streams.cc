// The part of Window about parts in device memory, which streams copy to and from.
#include <map>
#include <string>

#include "src/base/mutex.h"
#include "src/comm/window.h"

namespace tutti::comm {

/// Streams may hold copies for longer than the communicator lives. Then nobody asks any more
/// whether they do, and the boards are not mapped.
struct Window::Holders {
  Mutex mutex;
  bool is_over TUTTI_GUARDED_BY(mutex) = false;
};

/// That a stream holds copies to or from a part. The owner, when it ends the part, waits as long as
/// this is there.
class Window::Holding {
 public:
  Holding(std::shared_ptr<Holders> holders, SharedPartState::Word& held,
          std::shared_ptr<const exec::PeerMemory> memory)
      : holders_(std::move(holders)), held_(held), memory_(std::move(memory)) {
    held_.fetch_add(1, std::memory_order_seq_cst);
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() {
    const MutexLock lock(holders_->mutex);
    if (!holders_->is_over) held_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  const std::shared_ptr<Holders> holders_;
  SharedPartState::Word& held_;
  const std::shared_ptr<const exec::PeerMemory> memory_;
};

/// How many puts of this rank's graphs there are to each member's part, which the board of the
/// latest epoch says. Graphs live through edits, and longer than windows.
class Window::CapturedPuts {
 public:
  void add(const MemberId& member, SharedPartState::Word& word) {
    const MutexLock lock(mutex_);
    Puts& puts = puts_[member];
    puts.word = &word;
    word.store(++puts.count, std::memory_order_seq_cst);
  }
  void remove(const MemberId& member) {
    const MutexLock lock(mutex_);
    Puts& puts = puts_[member];
    --puts.count;
    if (puts.word != nullptr) puts.word->store(puts.count, std::memory_order_seq_cst);
  }
  /// `find`: the word of a member in the boards of `window`; null: it has none.
  template <class Find>
  void move_to(const Window& window, const Find& find) {
    const MutexLock lock(mutex_);
    window_ = &window;
    for (auto& [member, puts] : puts_) {
      puts.word = find(member);
      if (puts.word != nullptr) puts.word->store(puts.count, std::memory_order_seq_cst);
    }
  }
  /// The boards of the window go, if they are those that are written.
  void leave(const Window& window) {
    const MutexLock lock(mutex_);
    if (window_ != nullptr && window_ != &window) return;
    for (auto& [member, puts] : puts_) puts.word = nullptr;
  }

 private:
  struct Puts {
    uint64_t count = 0;
    SharedPartState::Word* word = nullptr;
  };
  Mutex mutex_;
  const Window* window_ TUTTI_GUARDED_BY(mutex_) = nullptr;  // null: the first
  std::map<MemberId, Puts> puts_ TUTTI_GUARDED_BY(mutex_);
};

/// One that a graph keeps, with the memory.
class Window::CapturedPut {
 public:
  CapturedPut(std::shared_ptr<CapturedPuts> all, const MemberId& to, SharedPartState::Word& word,
              std::shared_ptr<const exec::PeerMemory> memory)
      : all_(std::move(all)), to_(to), memory_(std::move(memory)) {
    all_->add(to_, word);
  }
  CapturedPut(const CapturedPut&) = delete;
  CapturedPut& operator=(const CapturedPut&) = delete;
  ~CapturedPut() { all_->remove(to_); }

 private:
  const std::shared_ptr<CapturedPuts> all_;
  const MemberId to_;
  const std::shared_ptr<const exec::PeerMemory> memory_;
};

std::shared_ptr<Window::Holders> Window::make_holders() { return std::make_shared<Holders>(); }

std::shared_ptr<Window::CapturedPuts> Window::make_captured_puts() {
  return std::make_shared<CapturedPuts>();
}

void Window::take_captured_puts(const Window& before) {
  captured_ = before.captured_;
  const std::vector<MemberId>& members = members_.group()->members();
  captured_->move_to(*this, [&](const MemberId& member) -> SharedPartState::Word* {
    for (size_t rank = 0; rank < members.size(); ++rank) {
      if (members[rank] != member || !parts_[rank].board.valid()) continue;
      return &parts_[rank].board.captured(rank_);
    }
    return nullptr;
  });
}

Window::~Window() {
  captured_->leave(*this);
  const MutexLock lock(holders_->mutex);
  holders_->is_over = true;
}

Status Window::check_device_part(const Access& access) const {
  const WindowPart& part = parts_[access.peer];
  const std::string what = std::string(name_of(access.kind)) + ": the part of " +
                           members_.name_of(static_cast<int>(access.peer)) +
                           " lies in the memory of a device, ";
  if (part.remote != nullptr) {
    return Status::unsupported(what +
                               "which is on another host: no stream there takes what comes. Use a "
                               "part in host memory (tuttiMemAlloc), or send and receive");
  }
  if (part.device == nullptr) {
    return Status::unsupported(what + "and " + members_.name_of(members_.rank()) +
                               " had no current device when it made the communicator");
  }
  return {};
}

Result<exec::DeviceCopies> Window::copies_of(Access& access, bool captured) const {
  const WindowPart& part = parts_[access.peer];
  const std::vector<Profile>& profiles = members_.profiles();
  const bool gets = access.kind == Access::Kind::kGet;
  std::byte* const theirs = part.device + access.offset;
  const exec::DeviceCopy copy{.target = gets ? access.local : theirs,
                              .source = gets ? theirs : access.local,
                              .bytes = access.bytes,
                              .crosses = profiles[access.peer].device != profiles[rank_].device};
  if (captured && gets) return exec::DeviceCopies{{copy}, device_memory_};
  if (captured) {
    const MemberId& to = members_.group()->members()[access.peer];
    return exec::DeviceCopies{
        {copy},
        std::make_shared<CapturedPut>(captured_, to, part.board.captured(rank_), device_memory_)};
  }
  auto holding = std::make_shared<Holding>(holders_, part.board.held(rank_), device_memory_);
  if (part.board.access_flag() == AccessFlag::kClosed) return gone(access);
  if (part.board.bars(rank_)) {
    return Status::invalid_usage(std::string(name_of(access.kind)) + ": " +
                                 members_.name_of(static_cast<int>(access.peer)) +
                                 " takes part in an edit that is to remove this rank");
  }
  access.was_open = true;
  return exec::DeviceCopies{{copy}, std::move(holding)};
}

// The bytes are there: the stream has come. In a graph nobody has looked before whether they may.
exec::Progress Window::finish_by_stream(Access& access, const WindowPart& part) const {
  if (!access.was_open) {
    const AccessFlag access_flag = part.board.access_flag();
    if (access_flag == AccessFlag::kClosed) {
      access.problem = gone(access);
      return exec::Progress::kDone;
    }
    if (access_flag != AccessFlag::kOpen || part.board.bars(rank_)) return exec::Progress::kBlocked;
  }
  access.moved = access.bytes;
  raise_signal(access, part);
  return exec::Progress::kDone;
}

}  // namespace tutti::comm
