// One TCP connection to one peer, as a Link, a Stream and one-sided access.
//
// Owns: the socket. Threads: any; one mutex, which progress() only tries, so that threads that
// poll the same link do not queue up behind each other. Errors: the first one stays in status().
// Closing waits, at most a second, until the peer's kernel has what sent() has promised.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "src/base/fork.h"
#include "src/base/io.h"
#include "src/transport/transport.h"
#include "transports/tcp/exchange.h"

namespace tutti::transports::tcp {

class TcpLink final : public transport::Link, public transport::Stream, public transport::OneSided {
 public:
  using Ticket = transport::Stream::Ticket;

  /// `socket` is authenticated and non-blocking; `where` is the peer's address for messages.
  TcpLink(Fd socket, int rank, int peer, std::string where);
  ~TcpLink() override;

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Stream* stream() override { return this; }
  transport::OneSided* one_sided() override { return this; }
  Status status() const override;
  bool hang_up() override;
  int liveness_fd() const override { return socket_.get(); }

  Ticket send(transport::ChannelId channel, uint32_t signature,
              std::span<const transport::ConstBuffer> pieces) override;
  Ticket receive(transport::ChannelId channel, uint32_t signature,
                 std::span<const transport::Buffer> pieces) override;
  bool sent(Ticket ticket) const override { return done(exchange_.sent(), ticket); }
  bool received(Ticket ticket) const override { return done(exchange_.received(), ticket); }
  void tell(transport::ChannelId channel, const transport::Note& note) override;
  uint64_t heard(transport::ChannelId channel, transport::Note& note) const override;
  void on_note(std::function<void(transport::ChannelId)> hook) override;
  bool progress() override;
  void wait(uint64_t timeout_ns) override;

  void expose(transport::ChannelId id, const transport::Region& region) override;
  bool withdraw(transport::ChannelId id) override;
  Ticket put(transport::ChannelId region, uint64_t offset, transport::ConstBuffer source,
             uint32_t signal) override;
  Ticket get(transport::ChannelId region, uint64_t offset, transport::Buffer target) override;
  bool refused(transport::ChannelId region) const override;
  int descriptor() const override { return socket_.get(); }
  bool has_output() const override { return output_pending_.load(std::memory_order_seq_cst); }
  void on_answers(std::function<void()> wake) override;

 private:
  // All below need mutex_.
  bool done(const TicketWindow& window, Ticket ticket) const;  // but for this one
  bool say_last_words();
  bool discard_input();
  bool write_some();
  bool read_some();
  bool work();
  void after_call(bool flush);
  void note_fault();
  void fail(Status status);
  void fail_lost(const std::string& why);
  void close_gently();

  const Fd socket_;
  const KeptFromForks private_socket_;
  const int rank_;
  const int peer_;
  const std::string where_;
  transport::Capabilities capabilities_;

  mutable std::mutex mutex_;
  Exchange exchange_;
  bool leaving_ = false;      // hang_up() was called: nothing but last words
  bool output_full_ = false;  // the kernel takes no more for now
  bool output_dead_ = false;  // why is found by reading what the peer said last
  std::atomic<bool> failed_{false};
  std::atomic<bool> output_pending_{false};  // for those that hold no lock while they sleep
  std::function<void()> wake_;               // of on_answers()
  Status status_;                            // constant once failed_ is set
};

}  // namespace tutti::transports::tcp
