#include "transports/tcp/met_transport.h"

#include <utility>

namespace tutti::transports::tcp {

MetTransport::MetTransport(const transport::Member& member, const MetKind& kind,
                           std::string absence)
    : member_(member), kind_(kind) {
  card_.absence = std::move(absence);
}

MetTransport::MetTransport(const transport::Member& member, const MetKind& kind, MetDoor door)
    : member_(member), kind_(kind), card_(std::move(door.card)) {
  meeting_.emplace(std::move(door.listener), member, transport::door::purpose_of(kind.name));
}

Result<MetTransport::MetDoor> MetTransport::open_door(const transport::Member& member,
                                                      std::string kind) {
  const Result<IpEndpoint> wanted = parse_endpoint(member.bind_address, 0);
  if (!wanted.ok()) return wanted.status();
  MetDoor door;
  Result<KeptFd> listener = listen_on(wanted.value());
  if (!listener.ok()) return listener.status();
  door.listener = std::move(listener).value();
  const Result<IpEndpoint> place = local_endpoint(door.listener.get());
  if (!place.ok()) return place.status();
  door.card.endpoint = place.value();
  door.card.kind = std::move(kind);
  door.card.fabric = member.rdma.fabric;
  door.card.host_id = member.host_id;
  return door;
}

bool MetTransport::reaches(std::string_view peer_card) const {
  const std::optional<DoorCard> peer = DoorCard::read(kind_.tag, peer_card);
  return peer && card_.reaches(*peer);
}

std::string MetTransport::neighborhood(std::string_view card) const {
  const std::optional<DoorCard> read = DoorCard::read(kind_.tag, card);
  return read ? read->neighborhood() : std::string();
}

std::string MetTransport::absence(std::string_view card) const {
  const std::optional<DoorCard> read = DoorCard::read(kind_.tag, card);
  return read ? read->absence : std::string();
}

MetTransport::MadeLink MetTransport::connect(int peer, std::string_view peer_card,
                                             const WaitLimit& wait_limit) {
  const std::optional<DoorCard> card = DoorCard::read(kind_.tag, peer_card);
  if (!card || !card_.reaches(*card) || peer == member_.rank) {
    return Status::invalid_argument("rank " + std::to_string(peer) + " is not reached by " +
                                    std::string(kind_.noun));
  }
  const auto dial_peer = [&] { return dial(card->endpoint); };
  const auto introduce = [&](KeptFd socket, int rank) -> MadeLink {
    (void)make_fast(socket.get());
    MadePipe pipe =
        open_pipe(PeerSocket(std::move(socket), member_.keepalive_ns), rank, wait_limit);
    if (!pipe.ok()) return pipe.status();
    return std::unique_ptr<transport::Link>(std::make_unique<transport::stream::MessageLink>(
        member_.rank, rank, place(), std::move(pipe).value()));
  };
  MadeLink link = meeting_->meet(peer, dial_peer, introduce, wait_limit);
  if (!link.ok()) return explain(link.status(), peer, *card);
  return link;
}

Status MetTransport::explain(const Status& reason, int peer, const DoorCard& card) const {
  const bool here = reason.code() == Code::kSystemError;
  std::string text = "rank " + std::to_string(member_.rank) + " has no " + std::string(kind_.noun) +
                     " connection with rank " + std::to_string(peer) + " at " +
                     card.endpoint.text() + " (host " + card.host_id +
                     "): " + std::string(reason.message());
  if (here || reason.code() == Code::kTimeout) {
    text += "; check that its process runs and that its port is reached (docs/rdma.md), or leave " +
            std::string(kind_.name) + " out of TUTTI_TRANSPORTS";
  }
  return {here ? Code::kRemoteError : reason.code(), text};
}

}  // namespace tutti::transports::tcp
