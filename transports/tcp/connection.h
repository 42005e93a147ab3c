// The connection of two members. All communicators with both of them have a link each, and these
// links share it.
//
// It exists before its socket, as links do: the first message of any link makes it wanted. Both
// members may want it and call each other. Then the member with the lesser id decides, under its
// mutex: it takes the other member's call while it wants no connection itself, and declines it
// while its own call is out. The member with the greater id takes any call. So two calls that cross
// end as one connection, also where they are for different communicators.
//
// A call is made with the key of one communicator, and joins the link of that communicator. Another
// link is joined when both ends have proved its communicator's key over the socket
// (door/lease_frame.h): a link that is wanted proves first, and the other end answers. A proof for
// a communicator that is being made here, but has no link yet, is kept, and answered when it has.
// Frames for a link that is not joined are read and discarded. A link that ends sends OVER, and
// nothing else happens to the others. The socket is closed with the last link that was joined.
//
// Owns:    the socket (Wire); not its links, which enter and leave.
// Threads: any. One mutex guards the connection and its links; functions that need it say so.
// Errors:  a socket that breaks fails the links that are joined; for those that still wait there is
//          another call.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/fork.h"
#include "src/base/member_id.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/transport/door/call_answer.h"
#include "src/transport/door/lease_frame.h"
#include "transports/tcp/wire.h"

namespace tutti::transports::tcp {

class Connection;
class TcpLink;

/// The object that calls peers and lets them in (connector.h).
class Dialer {
 public:
  virtual ~Dialer() = default;
  /// Told when a connection is wanted, or has links that have settled. Never waits; the caller
  /// holds the connection's mutex.
  virtual void look_at(Connection& connection) = 0;
  /// The link ends. Afterwards none of its calls runs.
  virtual void forget(TcpLink& link) = 0;
  /// Says why there is no connection yet.
  virtual Status overdue(const TcpLink& link) = 0;
  /// Whether this communicator is being made here, or is there. From any thread, under any lock.
  virtual bool expects(uint64_t communicator, uint32_t epoch) = 0;
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  /// The most proofs of one peer that are kept for communicators without a link here.
  static constexpr size_t kMostKeptProofs = 64;

  /// Without a dialer it waits for adopt().
  Connection(const MemberId& self, const MemberId& peer, Dialer* dialer = nullptr)
      : self_(self), peer_(peer), dialer_(dialer) {}

  Mutex& mutex() TUTTI_RETURNS_MUTEX(mutex_) { return mutex_; }
  std::condition_variable& changed() { return changed_; }
  Dialer* dialer() const { return dialer_; }
  const MemberId& self() const { return self_; }
  const MemberId& peer() const { return peer_; }

  // For the dialer.
  enum class Taken : uint8_t { kNo, kYes };
  /// Decides on a call of the peer, which has proved on this socket that it is the peer of this
  /// link. `calling`: this member's own call may have reached the peer.
  Taken answer(TcpLink& link, KeptFd call, const transport::door::Binding& binding, bool calling);
  /// The peer has taken this call of the link. The socket is non-blocking and for small messages.
  void adopt(TcpLink& link, KeptFd call, const transport::door::Binding& binding);
  bool is_connected();
  bool is_wanted() { return link_to_call_for() != nullptr; }
  /// A link that waits for a call. Null where none does, and where there is a socket.
  TcpLink* link_to_call_for();
  /// Runs the functions of on_settled() of the links that have settled. On the dialer's thread.
  void announce();
  /// Fails the connection if the peer's host has been silent for so long (is_silent).
  void check_host(uint64_t silence_ns);
  /// Answers the proofs that are kept for this communicator with GONE.
  void decline_kept(uint64_t communicator, uint32_t epoch);

  // For links.
  void enter(TcpLink& link) TUTTI_REQUIRES(mutex_);
  void leave(TcpLink& link) TUTTI_REQUIRES(mutex_);
  /// The link needs to be joined.
  void want(TcpLink& link) TUTTI_REQUIRES(mutex_);
  /// The link has something to send, or may have.
  void after_call(TcpLink& link, bool flush) TUTTI_REQUIRES(mutex_);
  /// The link has something to send, because of a message that has arrived.
  void enlist(TcpLink& link) TUTTI_REQUIRES(mutex_);
  /// Moves what can be moved. Returns whether anything was.
  bool work(Wire& wire) TUTTI_REQUIRES(mutex_);
  const std::shared_ptr<Wire>& wire() const TUTTI_REQUIRES(mutex_) { return wire_; }
  /// The link sends and receives nothing from now on; the connection sends the rest of what the
  /// link has begun.
  void retire(TcpLink& link) TUTTI_REQUIRES(mutex_);
  /// Sends the rest on a wire that no link uses any more. Returns whether everything is sent.
  bool say_rest(Wire& wire) TUTTI_REQUIRES(mutex_);
  /// Reads and discards input. Returns false at its end.
  static bool discard_input(Wire& wire);
  /// Ends the connection: the peer has sent bytes that Tutti never sends, or this rank cannot go
  /// on.
  void give_up(Wire& wire, const std::function<void(TcpLink&)>& tell) TUTTI_REQUIRES(mutex_);

  /// Moves bytes, and fails the connection if there is no memory for it: a message is half read or
  /// half written then, and the stream cannot be used any more.
  template <class Work>
  void guarded(Wire& wire, const Work& move_bytes) TUTTI_REQUIRES(mutex_) {
    try {
      move_bytes();
    } catch (const std::exception& error) {
      fail_after(wire, error);
    }
  }
  /// To be called when a link waits no longer.
  void drop_declined_if_unwanted() TUTTI_REQUIRES(mutex_);

  bool has_output() const { return output_pending_.load(std::memory_order_seq_cst); }
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

 private:
  void fail_after(Wire& wire, const std::exception& error) TUTTI_REQUIRES(mutex_);
  bool write_some(Wire& wire) TUTTI_REQUIRES(mutex_);
  void write_words(Wire& wire, size_t& turn) TUTTI_REQUIRES(mutex_);
  void write_link(Wire& wire, TcpLink& link, bool only_frame, size_t& turn) TUTTI_REQUIRES(mutex_);
  bool has_urgent(const Wire& wire) const TUTTI_REQUIRES(mutex_);
  TcpLink* next_to_write(const Wire& wire) TUTTI_REQUIRES(mutex_);
  void enlist_first(TcpLink& link) TUTTI_REQUIRES(mutex_);
  void fail_buffer(Wire& wire, TcpLink& culprit) TUTTI_REQUIRES(mutex_);
  bool read_some(Wire& wire) TUTTI_REQUIRES(mutex_);
  size_t prepare(Wire& wire, std::span<iovec> out, uint64_t& direct) const TUTTI_REQUIRES(mutex_);
  void commit(Wire& wire, size_t count, uint64_t direct) TUTTI_REQUIRES(mutex_);
  void parse(Wire& wire) TUTTI_REQUIRES(mutex_);
  void feed(Wire& wire, size_t count) TUTTI_REQUIRES(mutex_);
  bool take_lease_frame(Wire& wire) TUTTI_REQUIRES(mutex_);
  void take_proof(Wire& wire, const transport::door::LeaseFrame& frame) TUTTI_REQUIRES(mutex_);
  void keep(const transport::door::LeaseFrame& frame) TUTTI_REQUIRES(mutex_);
  void lose(Wire& wire, const std::string& why) TUTTI_REQUIRES(mutex_);
  void ask(TcpLink& link, bool lacks_proof) TUTTI_REQUIRES(mutex_);
  void answer_proof(Wire& wire, TcpLink& link, const transport::door::LeaseFrame& frame)
      TUTTI_REQUIRES(mutex_);
  void tell(Wire& wire, transport::door::LeaseWord word, uint64_t communicator, uint32_t epoch)
      TUTTI_REQUIRES(mutex_);
  void connect_with(TcpLink& link, KeptFd call, const transport::door::Binding& binding)
      TUTTI_REQUIRES(mutex_);
  void close_if_unused() TUTTI_REQUIRES(mutex_);
  void forget_proofs() TUTTI_REQUIRES(mutex_);
  void note_pending() TUTTI_REQUIRES(mutex_);
  void call_again() TUTTI_REQUIRES(mutex_);
  transport::door::LeaseClaim claim_of(const Wire& wire, const TcpLink& link, bool own) const
      TUTTI_REQUIRES(mutex_);
  TcpLink* find(uint64_t communicator, uint32_t epoch) const TUTTI_REQUIRES(mutex_);
  void use(Wire& wire, TcpLink& link) TUTTI_REQUIRES(mutex_);
  void forget(Wire& wire, const TcpLink& link) TUTTI_REQUIRES(mutex_);
  TcpLink* wanting_link() const TUTTI_REQUIRES(mutex_);

  const MemberId self_;
  const MemberId peer_;
  Dialer* const dialer_;

  Mutex mutex_;
  std::condition_variable changed_;  // a link has settled
  std::shared_ptr<Wire> wire_ TUTTI_GUARDED_BY(mutex_);
  // This socket's end tells the peer that this rank has ended before it called.
  KeptFd declined_ TUTTI_GUARDED_BY(mutex_);
  std::vector<TcpLink*> links_ TUTTI_GUARDED_BY(mutex_);
  std::deque<TcpLink*> ready_ TUTTI_GUARDED_BY(mutex_);
  std::vector<transport::door::LeaseFrame> kept_ TUTTI_GUARDED_BY(mutex_);
  bool has_dropped_proofs_ TUTTI_GUARDED_BY(mutex_) = false;  // more came than are kept
  std::atomic<bool> output_pending_{false};
  std::atomic<uint64_t> moves_{0};
};

}  // namespace tutti::transports::tcp
