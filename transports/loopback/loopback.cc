#include "transports/loopback/loopback.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/io.h"
#include "src/base/words.h"
#include "src/transport/import.h"
#include "src/transport/memory_handle.h"

namespace tutti::transports::loopback {
namespace {

constexpr std::string_view kTag = "tutti-loopback-1";
constexpr size_t kMaxHostIdBytes = 256;

/// "tutti-loopback-1 TOKEN PROCESS FD BYTES HOST-ID". The process id is there because a forked
/// child inherits its parent's token. The descriptor is mapped once more by every peer, because a
/// thread may leave while another still reads its last message.
struct Card {
  uint64_t token = 0;
  int64_t process = 0;
  int arena_fd = -1;
  uint64_t arena_bytes = 0;
  std::string_view host_id;

  /// Equal on the ranks of one process.
  std::string neighborhood() const {
    return std::to_string(token) + " " + std::to_string(process) + " " + std::string(host_id);
  }
};

std::string write_card(const transport::Member& member) {
  char text[96];
  const int bytes =
      std::snprintf(text, sizeof text, "%s %" PRIx64 " %d %d %zu ", kTag.data(),
                    member.process_token, getpid(), member.arena->fd(), member.arena->bytes());
  return std::string(text, static_cast<size_t>(bytes)) + member.host_id;
}

std::optional<Card> read_card(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() < 6 || words[0] != kTag) return std::nullopt;
  const auto token = parse_integer<uint64_t>(words[1], 16);
  const auto process = parse_integer<int32_t>(words[2]);
  const auto fd = parse_integer<int32_t>(words[3]);
  const auto bytes = parse_integer<uint64_t>(words[4]);
  if (!token || !process || !fd || !bytes || *fd < 0) return std::nullopt;
  const size_t host_at = static_cast<size_t>(words[5].data() - text.data());
  return Card{*token, *process, *fd, *bytes, text.substr(host_at)};
}

class LoopbackLink final : public transport::Link, public transport::Mapped {
 public:
  explicit LoopbackLink(transport::Arena arena) : arena_(std::move(arena)) {
    capabilities_.mapped = true;
    capabilities_.all_memory = true;
    capabilities_.single_copy = true;
    capabilities_.latency_ns = 100;
    capabilities_.bytes_per_ns = 10;
  }

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Mapped* mapped() override { return this; }
  Status status() const override { return {}; }

  std::byte* arena() const override { return arena_.data(); }

  Result<std::byte*> import(std::string_view handle) override {
    const Result<transport::MemoryHandle> memory = transport::parse_memory(handle);
    if (!memory.ok()) return memory.status();
    if (memory.value().process != getpid()) {
      return Status::invalid_argument("the handle names memory of another process");
    }
    const transport::MemoryHandle& named = memory.value();
    return imports_.import(named, [&]() -> Result<Fd> {
      Fd fd(fcntl(named.fd, F_DUPFD_CLOEXEC, 0));
      if (!fd.valid() && errno != EBADF) return errno_status("cannot share memory of a thread");
      if (!transport::names_file(named, fd.get())) {
        return Status::remote_error("the registered memory of another thread is gone");
      }
      return fd;
    });
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
  transport::ImportCache imports_;  // mapped once more as well
};

class Loopback final : public transport::Transport {
 public:
  explicit Loopback(const transport::Member& member) : card_(write_card(member)) {}

  std::string_view name() const override { return "loopback"; }
  std::string card() const override { return card_; }

  bool reaches(std::string_view peer_card) const override {
    const std::optional<Card> mine = read_card(card_);
    const std::optional<Card> peer = read_card(peer_card);
    return mine && peer && mine->neighborhood() == peer->neighborhood();
  }

  std::string neighborhood(std::string_view card) const override {
    const std::optional<Card> read = read_card(card);
    return read ? read->neighborhood() : std::string();
  }

  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   uint64_t) override {
    if (!reaches(peer_card)) {
      return Status::invalid_argument("rank " + std::to_string(peer) +
                                      " is not a thread of this process");
    }
    const std::optional<Card> card = read_card(peer_card);
    const int fd = fcntl(card->arena_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      return Status::remote_error("rank " + std::to_string(peer) +
                                  ", a thread of this process, has left already");
    }
    Result<transport::Arena> arena = transport::Arena::adopt(fd, card->arena_bytes);
    if (!arena.ok()) return arena.status();
    return std::unique_ptr<transport::Link>(
        std::make_unique<LoopbackLink>(std::move(arena).value()));
  }

 private:
  const std::string card_;
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
  return std::unique_ptr<transport::Transport>(std::make_unique<Loopback>(member));
}

}  // namespace tutti::transports::loopback
