// One TCP connection to one peer, as a Link, a Stream and one-sided access.
//
// It exists before its connection: what is queued until then waits in the exchange, and the first
// message makes it wanted. Both ranks may want it and call each other. The lower rank decides,
// under its link's mutex: idle, it takes the call of the higher one; wanted, it declines, since its
// own call is out. The higher rank takes any call until it is connected. So two calls that cross
// end as one connection, and neither side sends a message before that is settled.
//
// Owns:    the socket.
// Threads: any; one mutex, which progress() only tries, so that threads that poll the same link do
//          not queue up behind each other.
// Errors:  the first one stays in status(). Closing waits, at most a second, until the peer's
//          kernel has what sent() has promised.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/fork.h"
#include "src/transport/door/dialer.h"
#include "src/transport/stream/exchange.h"
#include "src/transport/transport.h"

namespace tutti::transports::tcp {

class TcpLink final : public transport::Link, public transport::Stream, public transport::OneSided {
 public:
  using Ticket = transport::Stream::Ticket;

  /// Idle. `where` is the peer's address for messages. Without a dialer it waits for adopt().
  TcpLink(int rank, int peer, std::string where, transport::door::Dialer* dialer = nullptr);
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
  Status await(const Patience& patience) override;
  void on_settled(std::function<void()> call) override;

  // For the dialer.
  /// The peer, proved to be it, calls by this socket. True: it is the connection now. `calling`:
  /// this rank's own call, if it is wanted, may have reached the peer.
  bool answer(KeptFd call, bool calling);
  /// The peer has taken this call of ours. The socket is non-blocking and for small messages.
  void adopt(KeptFd call);
  /// There will be no connection; of a probe, not this time.
  void give_up(Status why);
  /// Runs what on_settled() left, if it is time to. The dialer's thread.
  void announce();
  /// Fails if the peer's host has been silent for so long (is_silent).
  void check_host(uint64_t silence_ns);

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
  bool has_output() const override { return output_pending_.load(std::memory_order_seq_cst); }
  uint64_t moves() const override { return moves_.load(std::memory_order_relaxed); }
  void on_answers(std::function<void()> wake) override;

 private:
  // All below need mutex_.
  bool done(const transport::stream::TicketWindow& window,
            Ticket ticket) const;  // but for this one
  bool say_last_words();
  bool discard_input();
  bool write_some();
  bool read_some();
  bool work();
  template <class Work>
  void move_bytes(const Work& work);
  void after_call(bool flush);
  void after_early_call();
  void want_once();
  void dial_once();
  void connect_with(KeptFd call);
  bool connected() const { return socket_.valid(); }
  bool settled() const;
  void note_fault();
  void fail(Status status);
  void fail_lost(const std::string& why);
  void fail_here(const Status& why);
  void fail_buffer(const char* call);

  const int rank_;
  const int peer_;
  const std::string where_;
  transport::door::Dialer* const dialer_;
  transport::Capabilities capabilities_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // settled() became true
  KeptFd socket_;
  KeptFd declined_;  // tells the peer by its end that this rank went away before it called
  transport::stream::ByteExchange exchange_;
  bool open_ = false;  // connected, and neither failed nor leaving: all that common calls ask
  bool wanted_ = false;
  bool needed_ = false;           // wanted not only by a probe: stays wanted
  uint64_t linger_until_ns_ = 0;  // from the first linger() on
  bool leaving_ = false;          // hang_up() was called: nothing but last words
  bool output_full_ = false;      // the kernel takes no more for now
  bool output_dead_ = false;      // why is found by reading what the peer said last
  std::atomic<int> fd_{-1};       // socket_, for those that hold no lock
  std::atomic<bool> failed_{false};
  std::atomic<bool> output_pending_{false};  // for those that hold no lock while they sleep
  std::atomic<uint64_t> moves_{0};           // written under mutex_
  std::function<void()> wake_;               // of on_answers()
  std::vector<std::function<void()>> settled_calls_;
  Status status_;  // constant once failed_ is set
};

}  // namespace tutti::transports::tcp
