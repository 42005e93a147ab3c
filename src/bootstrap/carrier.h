// Messages between members of a group beside its links, some of which may be dead.
//
// Each member keeps a listener for as long as it is a member (comm/roster.h). While a carrier is
// open there, it lets in whoever proves the group's key, and it calls whomever it has something to
// say to: at most one connection for each direction of a pair, which ends with the carrier. A
// listener that nobody serves keeps its callers waiting; one that refuses them is gone, and so is
// its member: its process, or its place in the group.
//
// A guest knows the key of an id instead of the group's. It is told one thing, and leaves.
//
// Wire, behind the handshake (door/handshake.h, purpose "edit"): frames of {bytes 4, kind 1, 0 3}
// and bytes. A caller's first frame, of kind 0, is its member id as text. Integers little endian.
//
// Owns:    a duplicate of the listener, connections. Closed without a word.
// Threads: one.
// Errors:  none of a connection: what was sent over it is lost, and is sent again by who needs it.
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

/// A key, and the number by which callers name it.
struct GroupKey {
  uint64_t group = 0;
  transport::JobKey key{};
};

struct CarriedMessage {
  MemberId from;
  uint8_t kind = 0;  // above 0, the sender's choice
  std::string bytes;
};

class MemberCarrier {
 public:
  struct CarrierOptions {
    MemberId self;
    GroupKey members;
    std::vector<GroupKey> guests;
    /// The words for a guest that has proved the key of this number.
    std::function<std::string(uint64_t group)> welcome;
  };

  /// `listener` stays the caller's, and open.
  static Result<std::unique_ptr<MemberCarrier>> open(int listener, CarrierOptions options);

  /// Where a member listens.
  void know(const MemberId& member, const Address& address, uint16_t port);
  /// Never waits. Lost where there is no connection in the end, and where nobody reads.
  void send(const MemberId& to, uint8_t kind, std::string_view bytes);
  /// The messages that have come; waits for one until then.
  std::vector<CarriedMessage> receive(uint64_t until_ns);
  /// Whether a connection with it stands, whoever called.
  bool is_connected(const MemberId& member) const;
  /// Waits until everything sent is on its way, or until then.
  void flush(uint64_t until_ns);
  /// Whether nothing that was sent to these members over connections that stand waits here. send()
  /// only queues; the rest is done by receive() and flush().
  bool has_sent_all(const std::vector<MemberId>& members) const;
  /// Members whose listeners have refused a connection. They never come back.
  const std::set<MemberId>& gone() const { return gone_; }

 private:
  enum class CarrierPhase : uint8_t { kDialling, kIntroducing, kOpen };

  struct CarrierConnection {
    CarrierPhase phase = CarrierPhase::kDialling;
    KeptFd fd;                                            // kDialling, kOpen
    std::unique_ptr<transport::door::OutgoingCall> call;  // kIntroducing
    bool has_peer = false;
    MemberId peer;
    bool is_guest = false;  // ends when all is said
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
  /// False: it has ended.
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

/// A guest's side: what a member that carries messages says to whoever holds this key. Tries all
/// addresses until one answers, while the wait limit lasts; kRemoteError when all refuse.
Result<std::string> ask_as_guest(std::span<const Address> addresses, uint16_t port,
                                 const GroupKey& key, const WaitLimit& wait_limit);

}  // namespace tutti::bootstrap
