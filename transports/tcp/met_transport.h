// The base of transports that make their links with the communicator. Two ranks prove themselves on
// a socket, exchange on it what their cards or libraries need, and keep it: its end tells each that
// the other has died. The derived class carries the messages.
//
// Owns:    the door.
// Threads: as transport::Transport.
// Errors:  a rank that reaches no other one says why in its card; connect() names both ranks and
//          hosts.
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
  /// The transport of a rank that reaches no other one. `member` outlives it.
  MetTransport(const transport::Member& member, const MetKind& kind, std::string absence);
  MetTransport(const transport::Member& member, const MetKind& kind, MetDoor door);

  /// Called once this rank and `peer` have proved themselves on the socket.
  virtual MadePipe open_pipe(PeerSocket socket, int peer, const WaitLimit& wait_limit) = 0;
  /// For errors: the hardware or library that carries this rank's messages: "RDMA port mlx5_0:1".
  virtual std::string place() const = 0;
  const transport::Member& member() const { return member_; }

 private:
  Status explain(const Status& reason, int peer, const DoorCard& card) const;

  const transport::Member& member_;
  const MetKind kind_;
  DoorCard card_;
  std::optional<transport::door::LinkMeeting> meeting_;  // none: no rank is reached
};

}  // namespace tutti::transports::tcp
