// A transport connects pairs of ranks. Everything above this file works with any transport,
// everything below transports/<name>/ with any collective.
//
// A Transport publishes a card; every rank sees all cards and picks, for each peer, the first
// registered transport that reaches it. connect() then gives a Link. A link offers what its
// capabilities() say, which never changes: memory of the peer that is mapped here (Mapped), or
// messages (Stream) and beside them access to memory that is not mapped (OneSided); an accessor of
// what it does not offer is null. comm::Membership makes levels of what transports connect, and the
// ranks with mapped links are one domain. comm::CallBuffers::reach_of() finds what all links of a
// domain can do with a call's buffers, and lowering chooses mechanisms by that. A link knows no
// costs: select::Model does, which ranks agree on by their cards or by measuring.
//
// A link carries the channels of many communicators. A communicator that fails ends its epoch on
// the link, which stays.
//
// Owns:     whoever made a transport owns it; it outlives its links.
// Threads:  connect() from one thread, serve() from any; a Stream, a Mapped and a OneSided from
//           several threads (they lock inside).
// Errors:   a broken link keeps its first error in status(); it never comes back.
// Ordering: per channel, first in, first out. Between channels: those of high priority go first,
//           else nothing is promised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/transport/arena.h"
#include "src/transport/device_range.h"

namespace tutti::transport {

/// The abilities of a link beside messages. A peer that is not mapped is of another domain, and
/// reached by STREAM alone.
struct Capabilities {
  bool mapped = false;       // arena and registered memory are addressable: INLINE, SLOT...
  bool all_memory = false;   // and every other byte, at the peer's own address: one process
  bool single_copy = false;  // read() and write() reach the peer's ordinary memory
};

/// One of the users of a link: a pair of ranks may carry several lanes of several communicators.
struct ChannelId {
  uint64_t communicator = 0;  // equal on all members, unique in the job
  uint32_t epoch = 0;         // messages of another epoch are refused
  uint32_t lane = 0;
  auto operator<=>(const ChannelId&) const = default;
};

/// All channels of a communicator while its group stays as it is.
struct EpochId {
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  bool has(const ChannelId& id) const {
    return id.communicator == communicator && id.epoch == epoch;
  }
};

/// Two classes of frames on a link.
enum class Priority : uint8_t { kNormal = 0, kHigh = 1 };
inline constexpr size_t kPriorities = 2;

struct ConstBuffer {
  const std::byte* data = nullptr;
  size_t bytes = 0;
};
struct Buffer {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

/// A few words between two ranks beside their messages, for what is rare; who sends them says what
/// they mean.
struct Note {
  uint32_t small[2] = {0, 0};
  uint64_t large[2] = {0, 0};
  bool operator==(const Note&) const = default;
};

/// Shared memory with one peer. The arena stays as long as the link.
class Mapped {
 public:
  virtual ~Mapped() = default;
  /// The peer's arena as it lies here.
  virtual Buffer arena() const = 0;
  /// Maps memory the peer registered (its handle travelled by any way) until it is released as
  /// often as it was imported: transport::Import does that.
  virtual Result<Buffer> import(std::string_view handle) = 0;
  virtual void release(const std::byte* memory) = 0;
  /// Gives the peer a descriptor of its own for what is open here as `descriptor`, which stays open
  /// until the peer has taken it. Never waits. A descriptor that was given is taken, also by a peer
  /// that has no use for it any more.
  virtual Status give_descriptor(int descriptor) = 0;
  /// The oldest one that the peer gave and this rank has not taken. The peer has said by another
  /// way that it was given, and its number there. Never waits: where there is none, it is an error.
  virtual Result<Fd> take_descriptor(int descriptor) = 0;
  /// Capability single_copy: reads, or writes, at an address as the peer sees it. Complete when it
  /// returns. kRemoteError: the peer, or at least its memory, is gone; kInvalidUsage: there is no
  /// such memory there, or here; kUnsupported: it is permitted no more.
  virtual Status read(Buffer target, uint64_t source) = 0;
  virtual Status write(uint64_t target, ConstBuffer source) = 0;
  /// Ends the peer's process, for a peer that does not let go of this rank's memory; status() of
  /// the link tells when it is gone. kUnsupported: it is this process, another user's, or cannot be
  /// named from here.
  virtual Status kill_peer() { return Status::unsupported("it is a thread of this process"); }
};

/// Messages to and from one peer. A message is a gather list on one side and a scatter list of the
/// same total on the other. No byte goes on the wire for which the receiver has not granted the
/// channel credit, so no channel ever blocks another one.
class Stream {
 public:
  using Ticket = uint64_t;  // rising from 1

  virtual ~Stream() = default;
  /// Queues one message; the memory must stay untouched until sent(). `signature` must equal the
  /// receiver's, else both sides get an error that names the two.
  virtual Ticket send(ChannelId channel, uint32_t signature,
                      std::span<const ConstBuffer> pieces) = 0;
  virtual Ticket receive(ChannelId channel, uint32_t signature, std::span<const Buffer> pieces) = 0;
  /// Whether hardware reads and writes this memory of this rank by itself, as it has to for
  /// messages that are only placed. It stays so until the memory's announcement ends.
  virtual bool can_place(ConstBuffer memory) const {
    (void)memory;
    return false;
  }
  /// A message whose bytes no processor touches, since it cannot, as with memory of a device: the
  /// hardware of the sender writes them into the target. Both ends say so of the same message; what
  /// comes otherwise for such a receive ends the link. Only where can_place() says yes to every
  /// piece: elsewhere the link ends, or the ticket is never done.
  virtual Ticket send_placed(ChannelId channel, uint32_t signature,
                             std::span<const ConstBuffer> pieces) {
    (void)channel, (void)signature, (void)pieces;
    return 0;
  }
  virtual Ticket receive_placed(ChannelId channel, uint32_t signature,
                                std::span<const Buffer> pieces) {
    (void)channel, (void)signature, (void)pieces;
    return 0;
  }
  /// The source may be overwritten. Nothing is said about the peer.
  virtual bool sent(Ticket ticket) const = 0;
  /// The bytes are in the target.
  virtual bool received(Ticket ticket) const = 0;
  /// Sends a note as soon as there is room, without waiting; it replaces one that is not sent yet.
  /// A channel for notes carries nothing else.
  virtual void tell(ChannelId channel, const Note& note) = 0;
  /// The same with what is sent next, before it: for what is of interest only then.
  virtual void tell_with_next(ChannelId channel, const Note& note) { tell(channel, note); }
  /// The last note that came; returns how many came, 0: none.
  virtual uint64_t heard(ChannelId channel, Note& note) const = 0;
  /// `hook` runs for every note that comes, in the thread that reads it, and calls nothing of the
  /// link. Empty: none, and then it runs no more.
  virtual void on_note(std::function<void(ChannelId channel)> hook) = 0;
  /// Moves what can be moved without waiting. True if anything moved.
  virtual bool progress() = 0;

  // A link carries the channels of many communicators. A call that fails ends the epoch of its
  // communicator and leaves the link to the others.
  /// OK, or why this epoch cannot go on over this link, though the link can: a message was not what
  /// its receiver expects. Both ends say the same.
  virtual Status epoch_status(EpochId epoch) const = 0;
  /// From now on messages of this epoch go before those of epochs of lower priority, behind at most
  /// one frame of these that has begun. Both ends say it for what they send. kNormal at first.
  virtual void prioritize(EpochId epoch, Priority priority) = 0;
  /// This rank uses the epoch no more: tickets that are not done stay so, and what still comes is
  /// discarded. Notes told before still arrive, later ones are not sent. Frames that have begun are
  /// finished from copies, so the peer reads on behind them.
  virtual void end_epoch(EpochId epoch) = 0;
  /// After end_epoch(): neither this link nor the peer touches memory of the epoch's messages any
  /// more; regions have withdraw(). Where only this rank's processor moves bytes, at once; where a
  /// transport writes into memory by itself, when the peer has said so: progress(), and ask again.
  virtual bool has_let_go(EpochId epoch) = 0;
};

/// Memory of this rank that the peer may put to and get from, and the counters that it may raise.
struct Region {
  std::byte* memory = nullptr;
  uint64_t bytes = 0;
  std::atomic<uint64_t>* signals = nullptr;
  uint32_t signal_count = 0;
};

/// One-sided access to a peer's memory that is not mapped here. The peer calls nothing: whoever
/// moves its end of the link, by Stream::progress(), stores and answers. Puts and gets take effect
/// in order. The peer checks what it is asked: beyond a region's end it gives the link up.
class OneSided {
 public:
  using Ticket = Stream::Ticket;
  static constexpr uint32_t kNoSignal = ~uint32_t{0};
  static constexpr size_t kMaxGets = 1024;  // without an answer; a peer with more is no Tutti

  virtual ~OneSided() = default;
  /// From now on the peer may name this memory `id`, which is this rank's choice.
  virtual void expose(ChannelId id, const Region& region) = 0;
  /// Refuses what comes for it from now on, and writes to it no more. False while an answer to the
  /// peer still reads it: progress(), and ask again.
  virtual bool withdraw(ChannelId id) = 0;
  /// As withdraw(), and answers that read it are cut off: the peer's gets end as refused. False:
  /// the peer may still write to it.
  virtual bool cut_off(ChannelId id) = 0;
  /// Writes to the peer's region, then raises the signal. Stream::sent() says when `source` may be
  /// overwritten.
  virtual Ticket put(ChannelId region, uint64_t offset, ConstBuffer source, uint32_t signal) = 0;
  /// Stream::received() says when `target` is filled, or the get refused.
  virtual Ticket get(ChannelId region, uint64_t offset, Buffer target) = 0;
  /// The peer has refused something that named this region of it: it is withdrawn.
  virtual bool refused(ChannelId region) const = 0;

  // For a thread that moves links which nobody waits for.
  /// To sleep on: progress() has something to do when it is readable, or writable and has_output().
  virtual int descriptor() const = 0;
  virtual bool has_output() const = 0;
  /// How many calls of progress(), whoever made them, have moved something.
  virtual uint64_t moves() const = 0;
  /// `wake` runs after progress(), in its thread, while answers to the peer are left to be sent; it
  /// calls nothing of the link but descriptor(). Empty: none; then it runs no more.
  virtual void on_answers(std::function<void()> wake) = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual const Capabilities& capabilities() const = 0;
  virtual Mapped* mapped() { return nullptr; }
  virtual Stream* stream() { return nullptr; }
  /// Only where there is a stream.
  virtual OneSided* one_sided() { return nullptr; }
  /// Ends the link, with all communicators that use it. Both ends are dead afterwards, and the
  /// memory of unfinished messages is not touched again. Notes told before still arrive: false
  /// while there is no room for them, then progress() or a further call tries again. Nothing to do
  /// where the peer sees the failure in the arena.
  virtual bool hang_up() { return true; }
  /// Ends the link at once and says nothing: when this returns, neither end touches memory of the
  /// other. `why` follows "because" in status(). Nothing to do where peers see all in the arena.
  virtual void sever(const std::string& /*why*/) {}
  /// No call will use this link any more. Sends what is left to say; true while the peer's kernel
  /// may lack some of it, for at most a second from the first call on. The destructor waits for
  /// that; who ends many links calls this for each before.
  virtual bool linger() { return false; }
  /// OK, or why this link is dead. Cheap: polled in slow paths.
  virtual Status status() const = 0;
  /// Tells the control thread (bootstrap/watch.h) that the peer's process is gone, or its end
  /// closed: a socket by hanging up (it carries the data of a stream, and is readable when
  /// progress() may have something to do), any other descriptor by becoming readable. Without a
  /// stream, status() says which: OK while the peer left in good order. -1 if there is none (yet),
  /// or the transport needs none (threads share their fate).
  virtual int liveness_fd() const { return -1; }

  /// A link may have no connection until its first use: a message, a get or a put of either side.
  /// Notes are kept until then. Requests that come meanwhile are served in order afterwards.
  enum class State : uint8_t { kIdle, kWanted, kConnected, kFailed };
  virtual State state() const { return status().ok() ? State::kConnected : State::kFailed; }
  /// Connects though there is nothing to send. Never waits.
  virtual void want() {}
  /// The same to ask the peer something: where there can be no connection the link is as it was
  /// before, unless it has been wanted meanwhile.
  virtual void probe() { want(); }
  /// want(), and waits for it: OK, or why there is no connection.
  virtual Status await(const WaitLimit& wait_limit) {
    (void)wait_limit;
    return status();
  }
  /// Runs `call` once, when the link has left kIdle and kWanted and its descriptors are what they
  /// will be: at once if it has, otherwise from within Transport::serve(). It may not call the
  /// transport, nor end the link.
  virtual void on_settled(std::function<void()> call) { call(); }
  /// `hook` runs once when the link fails after it was connected, also where its connection goes
  /// on for others and so does not hang up; at once if it has. It runs in any thread, under locks
  /// of the link, and calls nothing of it. Empty: none, and then it runs no more.
  virtual void on_failed(std::function<void()> hook) { (void)hook; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  /// The text that peers need to reach this rank: at most kMaxCardBytes bytes, no secrets.
  virtual std::string card() const = 0;
  /// Decided by the two cards alone and symmetric, so that both sides agree without talking.
  virtual bool reaches(std::string_view peer_card) const = 0;
  /// A text that the cards of two ranks have in common if they reach each other, so that every rank
  /// knows which ranks this transport connects. Empty: it connects that rank with nobody.
  virtual std::string neighborhood(std::string_view card) const {
    return reaches(card) ? "all" : std::string();
  }
  /// Why the rank of that card reaches nobody by this transport, in one sentence: it has no card of
  /// hardware, or may not use it. Empty: it may reach others.
  virtual std::string absence(std::string_view card) const {
    (void)card;
    return {};
  }
  /// Whether its links are mapped: all of them or none.
  virtual bool maps_memory() const { return false; }
  /// The name of the level of ranks that this transport connects: "process", "host", "network",
  /// "rdma".
  virtual std::string_view level() const = 0;
  /// The most that a link holds: room for them is made before links are.
  virtual size_t descriptors_per_link() const = 0;
  /// Both ends call this for each other; bounded by `wait_limit` (base/wait_limit.h). Where links
  /// connect at their first use, it only makes one. A rank goes through its peers in rising order,
  /// whatever transport reaches each. The least pair that has not met is next on both sides, so
  /// nobody waits in a circle.
  virtual Result<std::unique_ptr<Link>> connect(int peer, std::string_view peer_card,
                                                const WaitLimit& wait_limit) = 0;

  /// Tells the hardware of memory that calls will often use, so that peers write to it, and it is
  /// read, without a copy. It stays so for as long as what this returns lives, which goes before
  /// the memory does, and after every call that may use it. Null: there is nothing to tell.
  virtual Result<std::shared_ptr<const void>> announce(Buffer memory) {
    (void)memory;
    return std::shared_ptr<const void>();
  }

  /// Tells the hardware of memory of a device, for messages that are only placed
  /// (Stream::send_placed()). kUnsupported, with the reason: it cannot use such memory, or there is
  /// no hardware.
  virtual Result<std::shared_ptr<DeviceAnnouncement>> announce_device(const DeviceRange& memory) {
    (void)memory;
    return Status::unsupported("transport " + std::string(name()) +
                               " has no hardware that uses memory of devices");
  }

  /// Of the payloads that this rank has sent, put or got since the transport was made.
  struct MovedBytes {
    uint64_t by_hardware = 0;   // all that it wrote or read, from and to memory here
    uint64_t by_processor = 0;  // copied by this process between that and the caller's memory
  };
  /// Nothing: no hardware moves bytes by itself.
  virtual std::optional<MovedBytes> moved() const { return std::nullopt; }

  /// Where links connect at their first use, somebody must let peers in and call them: serve(),
  /// which never waits, whenever this descriptor is readable (bootstrap/watch.h). -1: nobody must,
  /// or the process's endpoint does.
  virtual int service_fd() const { return -1; }
  virtual void serve() {}
  /// Nobody is called or let in any more, and nothing that Link::on_settled() was given runs.
  virtual void stop_serving() {}

  static constexpr size_t kMaxCardBytes = 512;
};

}  // namespace tutti::transport
