// A transport whose links are made with their communicator: the two ranks prove themselves on a
// socket, agree there on how they go on, and keep the socket, by which each learns that the other
// has died. The derived class says what they talk by.
//
// Owns:    the door.
// Threads: as transport::Transport.
// Errors:  a rank that reaches nobody says why in its card; connect() names both ranks and hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/transport/door/meeting.h"
#include "src/transport/member.h"
#include "src/transport/stream/message_link.h"
#include "src/transport/transport.h"
#include "transports/tcp/door_card.h"
#include "transports/tcp/peer_socket.h"

namespace tutti::transports::tcp {

class MetTransport : public transport::Transport {
 public:
  using MadeLink = Result<std::unique_ptr<transport::Link>>;
  using MadePipe = Result<std::unique_ptr<transport::stream::MessagePipe>>;

  /// The words by which a derived class is known.
  struct MetKind {
    std::string_view name;  // of the transport
    std::string_view tag;   // of its cards
    std::string_view noun;  // "RDMA", in errors
  };
  /// A door, and the card that leads to it.
  struct MetDoor {
    KeptFd listener;
    DoorCard card;
  };
  /// On the member's address. `kind`: DoorCard::kind.
  static Result<MetDoor> open_door(const transport::Member& member, std::string kind);

  std::string_view name() const override { return kind_.name; }
  std::string card() const override { return card_.write(kind_.tag); }
  bool reaches(std::string_view peer_card) const override;
  std::string neighborhood(std::string_view card) const override;
  std::string absence(std::string_view card) const override;
  std::string_view level() const override { return "rdma"; }
  MadeLink connect(int peer, std::string_view peer_card, const WaitLimit& wait_limit) override;

 protected:
  /// Of a rank that reaches nobody. `member` outlives the transport.
  MetTransport(const transport::Member& member, const MetKind& kind, std::string absence);
  MetTransport(const transport::Member& member, const MetKind& kind, MetDoor door);

  /// Both ends, this rank's and that of `peer`, have proved themselves on the socket.
  virtual MadePipe open_pipe(PeerSocket socket, int peer, const WaitLimit& wait_limit) = 0;
  /// The name in errors of what this rank talks by: "RDMA port mlx5_0:1".
  virtual std::string place() const = 0;
  const transport::Member& member() const { return member_; }

 private:
  Status explain(const Status& reason, int peer, const DoorCard& card) const;

  const transport::Member& member_;
  const MetKind kind_;
  DoorCard card_;
  std::optional<transport::door::LinkMeeting> meeting_;  // none: nobody is reached
};

}  // namespace tutti::transports::tcp
