// Messages between members of a group beside its links, some of which may be dead.
//
// Each member keeps a listener for as long as it is a member (comm/roster.h). While a carrier is
// open there, it lets in every caller that proves the group's key, and it calls each member that it
// has a message for. A pair has at most one connection for each direction, which ends with the
// carrier. A listener that nobody serves keeps its callers waiting. One that refuses them is
// closed, so its member has left the group, or its process has ended.
//
// A guest knows the key of an id instead of the group's. The member that it calls sends it one
// message and closes the connection.
//
// Wire, behind the handshake (door/handshake.h, purpose "edit"): frames of {bytes 4, kind 1, 0 3}
// and bytes. A caller's first frame, of kind 0, is its member id as text. Integers little endian.
//
// Owns:    a duplicate of the listener, and connections, which it closes without a message.
// Threads: one.
// Errors:  a connection that fails is no error: its messages are lost, and the layer above sends
//          them again.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/base/member_id.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/address.h"
#include "src/transport/door/call.h"
#include "src/transport/door/gate.h"
#include "src/transport/member.h"

namespace tutti::bootstrap {

/// A key, and the number by which a caller names it in its hello.
struct GroupKey {
  uint64_t group = 0;
  transport::JobKey key{};
};

struct CarriedMessage {
  MemberId from;
  uint8_t kind = 0;  // above 0; the sender chooses it
  std::string bytes;
};

class MemberCarrier {
 public:
  struct CarrierOptions {
    MemberId self;
    GroupKey members;
    std::vector<GroupKey> guests;
    /// Returns the message for a guest that has proved the key of this number.
    std::function<std::string(uint64_t group)> welcome;
  };

  /// The caller keeps `listener`, and keeps it open.
  static Result<std::unique_ptr<MemberCarrier>> open(int listener, CarrierOptions options);

  /// Tells the carrier where a member listens.
  void know(const MemberId& member, const Address& address, uint16_t port);
  /// Queues a message and never waits. The message is lost where no connection can be made, or
  /// where the receiver does not read.
  void send(const MemberId& to, uint8_t kind, std::string_view bytes);
  /// Returns the messages that have arrived. Waits for one until `until_ns`.
  std::vector<CarriedMessage> receive(uint64_t until_ns);
  /// Whether there is a connection with this member, in either direction.
  bool is_connected(const MemberId& member) const;
  /// Waits until all queued messages are sent, or until `until_ns`.
  void flush(uint64_t until_ns);
  /// Whether no message for these members waits here on an open connection. send() only queues a
  /// message; receive() and flush() move it.
  bool has_sent_all(const std::vector<MemberId>& members) const;
  /// The members that have refused a connection. They never come back.
  const std::set<MemberId>& gone() const { return gone_; }

 private:
  enum class CarrierPhase : uint8_t { kDialling, kIntroducing, kOpen };

  struct CarrierConnection {
    CarrierPhase phase = CarrierPhase::kDialling;
    KeptFd fd;                                            // kDialling, kOpen
    std::unique_ptr<transport::door::OutgoingCall> call;  // kIntroducing
    bool has_peer = false;
    MemberId peer;
    bool is_guest = false;  // ends once its message is sent
    std::string in, out;

    int descriptor() const { return phase == CarrierPhase::kIntroducing ? call->fd() : fd.get(); }
    short events() const;
  };

  struct MemberPlace {
    Address address;
    uint16_t port = 0;
  };

  explicit MemberCarrier(CarrierOptions options) : options_(std::move(options)) {}

  bool is_quiet() const;
  void serve(std::vector<CarriedMessage>& messages);
  void admit();
  CarrierConnection* connection_to(const MemberId& member);
  /// Returns false once the connection has ended.
  bool advance(CarrierConnection& connection, std::vector<CarriedMessage>& messages);
  bool advance_call(CarrierConnection& connection);
  bool read(CarrierConnection& connection, std::vector<CarriedMessage>& messages);
  bool take_frames(CarrierConnection& connection, std::vector<CarriedMessage>& messages);

  const CarrierOptions options_;
  std::unique_ptr<transport::door::Gate> gate_;
  std::map<MemberId, MemberPlace> places_;
  std::set<MemberId> gone_;
  std::list<CarrierConnection> connections_;
};

/// The guest's side: returns the message that a member has for a holder of this key. Tries all
/// addresses until one answers or the wait limit is over; kRemoteError when all of them refuse.
Result<std::string> ask_as_guest(std::span<const Address> addresses, uint16_t port,
                                 const GroupKey& key, const WaitLimit& wait_limit);

}  // namespace tutti::bootstrap
