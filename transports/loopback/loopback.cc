#include "transports/loopback/loopback.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/io.h"
#include "src/base/words.h"
#include "src/transport/endpoint.h"
#include "src/transport/import.h"
#include "src/transport/link_imports.h"
#include "src/transport/memory_handle.h"

namespace tutti::transports::loopback {
namespace {

constexpr std::string_view kTag = "tutti-loopback-1";
constexpr size_t kMaxHostIdBytes = 256;

/// "tutti-loopback-1 PROCESS MEMORY-HANDLE HOST-ID". The arena is mapped once more by every peer,
/// because a thread may leave while another still reads its last message.
struct LoopbackCard {
  ProcessId process;
  transport::MemoryHandle arena;
  std::string_view host_id;

  /// Equal on the ranks of one process.
  std::string neighborhood() const {
    return to_text(process) + " " + std::to_string(arena.process) + " " + std::string(host_id);
  }
};

Result<std::string> write_card(const transport::Member& member) {
  const Result<std::string> arena = transport::describe_memory(*member.arena);
  if (!arena.ok()) return arena.status();
  return std::string(kTag) + " " + to_text(member.id.process) + " " + arena.value() + " " +
         member.host_id;
}

std::optional<LoopbackCard> read_card(std::string_view text) {
  constexpr size_t kHandleAt = 2, kHostAt = 9;
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() <= kHostAt || words[0] != kTag) return std::nullopt;
  const auto process = read_process_id(words[1]);
  const auto place = [&](size_t word) {
    return static_cast<size_t>(words[word].data() - text.data());
  };
  const size_t handle_at = place(kHandleAt), host_at = place(kHostAt);
  const auto arena = transport::parse_memory(text.substr(handle_at, host_at - 1 - handle_at));
  if (!process || !arena.ok()) return std::nullopt;
  return LoopbackCard{*process, arena.value(), text.substr(host_at)};
}

/// A descriptor of one's own for memory of another thread.
Result<Fd> share(const transport::MemoryHandle& memory) {
  Fd fd(fcntl(static_cast<int>(memory.fd), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid() && errno != EBADF) return errno_status("cannot share memory of a thread");
  // Its number may be another file's by now.
  if (transport::names_file(memory, fd.get())) return fd;
  return Status::remote_error("the memory of another thread is gone");
}

class LoopbackLink final : public transport::Link, public transport::Mapped {
 public:
  LoopbackLink(transport::Arena arena, std::shared_ptr<transport::ImportCache> imports)
      : arena_(std::move(arena)), imports_(std::move(imports)) {
    capabilities_.mapped = true;
    capabilities_.all_memory = true;
    capabilities_.single_copy = true;
  }

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Mapped* mapped() override { return this; }
  Status status() const override { return {}; }

  transport::Buffer arena() const override { return {arena_.data(), arena_.bytes()}; }

  /// The peer finds it by its number.
  Status give_descriptor(int /*descriptor*/) override { return {}; }
  Result<Fd> take_descriptor(int descriptor) override {
    Fd fd(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return errno_status("cannot share a descriptor of another thread");
    return fd;
  }
  Result<transport::Buffer> import(std::string_view handle) override {
    const Result<transport::MemoryHandle> memory = transport::parse_memory(handle);
    if (!memory.ok()) return memory.status();
    if (memory.value().process != getpid()) {
      return Status::invalid_argument("the handle names memory of another process");
    }
    const transport::MemoryHandle& named = memory.value();
    return imports_.import(getpid(), named, [&] { return share(named); });
  }
  void release(const std::byte* memory) override { imports_.release(memory); }

  Status read(transport::Buffer target, uint64_t source) override {
    if (target.bytes > 0) {
      std::memmove(target.data, reinterpret_cast<const std::byte*>(source), target.bytes);
    }
    return {};
  }
  Status write(uint64_t target, transport::ConstBuffer source) override {
    if (source.bytes > 0) {
      std::memmove(reinterpret_cast<std::byte*>(target), source.data, source.bytes);
    }
    return {};
  }

 private:
  transport::Capabilities capabilities_;
  const transport::Arena arena_;    // the peer's, mapped once more
  transport::LinkImports imports_;  // mapped once more as well
};

class Loopback final : public transport::Transport {
 public:
  Loopback(std::string card, std::shared_ptr<transport::ImportCache> imports)
      : card_(std::move(card)), imports_(std::move(imports)) {}

  std::string_view name() const override { return "loopback"; }
  std::string card() const override { return card_; }

  bool reaches(std::string_view peer_card) const override {
    const std::optional<LoopbackCard> mine = read_card(card_);
    const std::optional<LoopbackCard> peer = read_card(peer_card);
    return mine && peer && mine->neighborhood() == peer->neighborhood();
  }

  bool maps_memory() const override { return true; }
  std::string_view level() const override { return "process"; }
  std::string neighborhood(std::string_view card) const override {
    const std::optional<LoopbackCard> read = read_card(card);
    return read ? read->neighborhood() : std::string();
  }

  /// The peer's arena.
  size_t descriptors_per_link() const override { return 1; }

  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   const WaitLimit&) override {
    if (!reaches(peer_card)) {
      return Status::invalid_argument("rank " + std::to_string(peer) +
                                      " is not a thread of this process");
    }
    const std::optional<LoopbackCard> card = read_card(peer_card);
    Result<Fd> fd = share(card->arena);
    if (!fd.ok()) {
      return Status(fd.status().code(), "rank " + std::to_string(peer) +
                                            ", a thread of this process, has left already: " +
                                            std::string(fd.status().message()));
    }
    Result<transport::Arena> arena =
        transport::Arena::adopt(fd.value().release(), card->arena.bytes);
    if (!arena.ok()) return arena.status();
    return std::unique_ptr<transport::Link>(
        std::make_unique<LoopbackLink>(std::move(arena).value(), imports_));
  }

 private:
  const std::string card_;
  const std::shared_ptr<transport::ImportCache> imports_;
};

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  if (member.arena == nullptr || member.arena->data() == nullptr) {
    return Status::invalid_argument("loopback needs the member's arena");
  }
  if (member.host_id.size() > kMaxHostIdBytes) {
    return Status::invalid_argument("the host id has " + std::to_string(member.host_id.size()) +
                                    " bytes; at most " + std::to_string(kMaxHostIdBytes) +
                                    " are allowed (TUTTI_HOST_ID)");
  }
  Result<std::string> card = write_card(member);
  if (!card.ok()) return card.status();
  return std::unique_ptr<transport::Transport>(
      std::make_unique<Loopback>(std::move(card).value(), transport::imports_of(member)));
}

}  // namespace tutti::transports::loopback
