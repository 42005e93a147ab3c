// One communicator's part of the connection of two members: a Link, a Stream and one-sided access.
//
// It exists before its connection: messages wait in the exchange until then, and the first one
// makes the connection wanted. The link is joined once both ends have proved its communicator's key
// on the connection (connection.h). It can fail or end while the connection goes on.
//
// Threads: any; the mutex is the connection's, and progress() only tries it, so that threads that
//          poll links of one connection do not queue up behind each other.
// Errors:  the first one stays in status(). Closing waits, at most a second, until the peer's
//          kernel has what sent() has promised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/transport/member.h"
#include "src/transport/stream/exchange.h"
#include "src/transport/transport.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/wire.h"

namespace tutti::transports::tcp {

class TcpLink final : public transport::Link, public transport::Stream, public transport::OneSided {
 public:
  using Ticket = transport::Stream::Ticket;

  /// One rank's view of the two ends. `where` is the peer's address for messages.
  struct Party {
    int rank = 0;
    int peer = 0;
    std::string where;
    uint64_t communicator = 0;
    uint32_t epoch = 0;
    transport::JobKey key{};
  };
  /// The state that the connection keeps for the link.
  struct Lease {
    std::shared_ptr<Wire> wire;  // that it was joined with; stays
    bool asked = false;          // this end has proved its key over the present wire
    bool retired = false;
    bool is_ready = false;  // in the connection's line
  };

  /// Idle.
  TcpLink(Party party, std::shared_ptr<Connection> connection);
  ~TcpLink() override;

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Stream* stream() override { return this; }
  transport::OneSided* one_sided() override { return this; }
  Status status() const override;
  bool hang_up() override;
  void sever(const std::string& why) override;
  bool linger() override;
  int liveness_fd() const override { return descriptor(); }
  State state() const override;
  void want() override;
  void probe() override;
  Status await(const WaitLimit& wait_limit) override;
  void on_settled(std::function<void()> call) override;
  void on_failed(std::function<void()> hook) override;

  // For the dialer.
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  int rank() const { return party_.rank; }
  int peer_rank() const { return party_.peer; }
  /// There will be no connection; a probe may be tried again.
  void give_up(Status why);
  /// From now on the link is not joined if it is not yet, and no function of on_settled() runs.
  void be_quiet();

  // For the connection, which holds the mutex.
  uint64_t communicator() const { return party_.communicator; }
  uint32_t epoch() const { return party_.epoch; }
  const transport::JobKey& key() const { return party_.key; }
  Lease& lease() { return lease_; }
  transport::stream::ByteExchange& exchange() { return exchange_; }
  bool is_open_on(const Wire& wire) const { return open_ && lease_.wire.get() == &wire; }
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }
  bool has_settled() const { return is_joined() || has_failed(); }
  bool is_quiet() const { return quiet_; }
  bool waits() const { return wanted_ && !quiet_ && !has_settled(); }
  void join(std::shared_ptr<Wire> wire);
  /// So many bytes have arrived at the place that the exchange has chosen.
  void take(size_t count);
  /// Drops what is not on its way yet, and sends nothing but that.
  void stop();
  void wake_for_answers() {
    if (wake_ && exchange_.has_answers()) wake_();
  }
  void take_settled_calls(std::vector<std::function<void()>>& calls);
  void refused(const std::string& why);
  void fail_lost(const std::string& why);
  void fail_here(const Status& why);
  void fail_buffer(const char* call);
  void fail_malformed(const std::string& what);

  Ticket send(transport::ChannelId channel, uint32_t signature,
              std::span<const transport::ConstBuffer> pieces) override;
  Ticket receive(transport::ChannelId channel, uint32_t signature,
                 std::span<const transport::Buffer> pieces) override;
  bool sent(Ticket ticket) const override { return done(exchange_.sent(), ticket); }
  bool received(Ticket ticket) const override { return done(exchange_.received(), ticket); }
  void tell(transport::ChannelId channel, const transport::Note& note) override;
  void tell_with_next(transport::ChannelId channel, const transport::Note& note) override;
  uint64_t heard(transport::ChannelId channel, transport::Note& note) const override;
  void on_note(std::function<void(transport::ChannelId)> hook) override;
  bool progress() override;
  Status epoch_status(transport::EpochId epoch) const override;
  void prioritize(transport::EpochId epoch, transport::Priority priority) override;
  void end_epoch(transport::EpochId epoch) override;
  bool has_let_go(transport::EpochId epoch) override;

  void expose(transport::ChannelId id, const transport::Region& region) override;
  bool withdraw(transport::ChannelId id) override;
  bool cut_off(transport::ChannelId id) override;
  Ticket put(transport::ChannelId region, uint64_t offset, transport::ConstBuffer source,
             uint32_t signal) override;
  Ticket get(transport::ChannelId region, uint64_t offset, transport::Buffer target) override;
  bool refused(transport::ChannelId region) const override;
  /// -1 until it is connected.
  int descriptor() const override { return fd_.load(std::memory_order_acquire); }
  bool has_output() const override { return connection_->has_output(); }
  uint64_t moves() const override { return connection_->moves(); }
  void on_answers(std::function<void()> wake) override;

 private:
  // All below need the mutex.
  bool done(const transport::stream::TicketWindow& window,
            Ticket ticket) const;  // but for this one
  Mutex& mutex() const TUTTI_RETURNS_MUTEX(connection_->mutex()) { return connection_->mutex(); }
  bool is_joined() const { return lease_.wire != nullptr; }
  bool has_current_wire() const {
    mutex().assert_held();
    return lease_.wire == connection_->wire();
  }
  template <class Work>
  void guarded(const Work& work) {
    mutex().assert_held();
    if (!is_joined()) return work();
    connection_->guarded(*lease_.wire, work);
  }
  void after_call(bool flush);
  void after_early_call();
  void want_once();
  void dial_once();
  void note_fault();
  void fail(Status status);
  std::string names() const;

  const Party party_;
  const std::shared_ptr<Connection> connection_;
  transport::Capabilities capabilities_;

  Lease lease_;
  transport::stream::ByteExchange exchange_;
  bool open_ = false;  // joined, and neither failed nor leaving: all that common calls ask
  bool wanted_ = false;
  bool needed_ = false;           // wanted not only by a probe: stays wanted
  bool leaving_ = false;          // hang_up() was called: only what was begun is sent
  bool quiet_ = false;            // be_quiet()
  uint64_t linger_until_ns_ = 0;  // from the first linger() on
  std::atomic<int> fd_{-1};       // the wire's, for those that hold no lock
  std::atomic<bool> failed_{false};
  std::function<void()> wake_;       // of on_answers()
  std::function<void()> on_failed_;  // of on_failed()
  std::vector<std::function<void()>> settled_calls_;
  Status status_;  // constant once failed_ is set
};

}  // namespace tutti::transports::tcp
