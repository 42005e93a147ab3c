#include "transports/shm/shm.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/transport/door/handshake.h"
#include "src/transport/door/meeting.h"
#include "src/transport/endpoint.h"
#include "transports/shm/card.h"
#include "transports/shm/link.h"
#include "transports/shm/local_socket.h"

namespace tutti::transports::shm {
namespace {

class Shm final : public transport::Transport {
 public:
  Shm(const transport::Member& member, const ShmCard& card, KeptFd listener)
      : member_(member),
        card_(card),
        imports_(transport::imports_of(member)),
        meeting_(std::move(listener), member, transport::door::purpose_of("shm"), check_user) {}

  std::string_view name() const override { return "shm"; }
  std::string card() const override { return card_.write(); }

  bool reaches(std::string_view peer_card) const override {
    const std::optional<ShmCard> peer = ShmCard::read(peer_card);
    return peer && card_.shares_with(*peer);
  }

  bool maps_memory() const override { return true; }
  std::string_view level() const override { return "host"; }
  std::string neighborhood(std::string_view card) const override {
    const std::optional<ShmCard> read = ShmCard::read(card);
    return read ? read->neighborhood() : std::string();
  }

  /// The socket, the peer's process, a set of both, and its arena.
  size_t descriptors_per_link() const override { return 4; }

  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   const WaitLimit& wait_limit) override {
    const std::optional<ShmCard> card = ShmCard::read(peer_card);
    if (!card || !card_.shares_with(*card) || peer == member_.rank) {
      return Status::invalid_argument("rank " + std::to_string(peer) +
                                      " has no shared memory with rank " +
                                      std::to_string(member_.rank));
    }
    const auto dial = [&]() -> Result<KeptFd> {
      Result<KeptFd> fd = dial_locally(card->socket, wait_limit);
      if (!fd.ok()) return fd;
      // The listener's user: nobody else may stand in for the peer, not even to see a hello.
      if (Status status = check_user(fd.value().get()); !status.ok()) return status;
      return fd;
    };
    const auto introduce = [&](KeptFd fd, int rank) -> Result<std::unique_ptr<transport::Link>> {
      PeerProcess process;
      process.rank = rank;
      process.host_id = card_.host_id;
      auto link =
          ShmLink::introduce(std::move(fd), process, {*member_.arena, imports_}, wait_limit);
      if (!link.ok()) return link.status();
      return std::unique_ptr<transport::Link>(std::move(link).value());
    };
    auto link = meeting_.meet(peer, dial, introduce, wait_limit);
    if (!link.ok()) return explain(link.status(), peer, *card);
    return link;
  }

 private:
  Status explain(const Status& reason, int peer, const ShmCard& card) const {
    std::string text = "rank " + std::to_string(member_.rank) + " has no shared memory with rank " +
                       std::to_string(peer) + " (process " + std::to_string(card.process) +
                       " on host " + card.host_id + "): " + std::string(reason.message());
    const Code code = reason.code();
    if (code == Code::kSystemError || code == Code::kTimeout || code == Code::kRemoteError) {
      text +=
          "; check that this process still runs, or set TUTTI_TRANSPORTS=tcp to go without "
          "shared memory";
    }
    return Status(reason.code(), text);
  }

  const transport::Member& member_;
  const ShmCard card_;
  const std::shared_ptr<transport::ImportCache> imports_;
  transport::door::LinkMeeting meeting_;
};

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  if (member.arena == nullptr || member.arena->fd() < 0) {
    return Status::invalid_argument("shm needs the member's arena");
  }
  Result<ShmCard> card = ShmCard::of_this_process(member.host_id);
  if (!card.ok()) return card.status();
  Result<LocalListener> listener = listen_locally();
  if (!listener.ok()) return listener.status();
  card.value().socket = listener.value().name;
  return std::unique_ptr<transport::Transport>(
      std::make_unique<Shm>(member, card.value(), std::move(listener.value().fd)));
}

}  // namespace tutti::transports::shm
