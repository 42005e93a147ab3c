// One reliable connection of two cards, and the queue in which completions of several are told.
//
// Owns:     the library's objects. A work request's memory is the caller's until its completion.
// Threads:  one at a time.
// Errors:   kSystemError with what the card was asked for.
// Lifetime: pairs end before their completion queue.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "src/base/status.h"
#include "transports/verbs/adapter.h"
#include "transports/verbs/functions.h"

namespace tutti::transports::verbs {

class Completions {
 public:
  static Result<std::unique_ptr<Completions>> create(std::shared_ptr<Domain> domain, int entries);
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  api::ibv_cq* get() const { return queue_; }
  /// The completions that came since; fewer than there is room for: all of them. Nothing when the
  /// queue itself is broken.
  Result<std::span<const api::ibv_wc>> take();
  /// Readable once something has come after the last arm().
  int descriptor() const { return channel_->fd; }
  /// Something has come since the last arm(), so the next one would not be told.
  bool needs_arming() const { return needs_arming_; }
  /// Forgets what the descriptor tells, and asks for the next one. Look once more before sleeping.
  Status arm();

 private:
  static constexpr int kBatch = 32;

  Completions(std::shared_ptr<Domain> domain, api::ibv_comp_channel* channel, api::ibv_cq* queue)
      : domain_(std::move(domain)), channel_(channel), queue_(queue) {}
  const api::VerbsFunctions& functions() const { return domain_->adapter().functions(); }

  const std::shared_ptr<Domain> domain_;
  api::ibv_comp_channel* const channel_;
  api::ibv_cq* const queue_;
  bool needs_arming_ = true;
  unsigned unacknowledged_ = 0;  // events
  std::array<api::ibv_wc, kBatch> found_{};
};

/// A pair has to know this of its other end, and tells it of its own.
struct QueuePairEnd {
  uint32_t number = 0;
  uint32_t sequence = 0;  // the first packet that it sends has this one, of 24 bits
};

/// The same for the card that it is on.
struct PortEnd {
  api::ibv_gid gid{};
  uint16_t lid = 0;
  uint8_t mtu = 0;  // 1: 256 bytes ... 5: 4096
};
PortEnd end_of(const Adapter& adapter);

class QueuePair {
 public:
  struct PairRoom {
    uint32_t sends = 0;
    uint32_t receives = 0;
    uint32_t inline_bytes = 0;  // wished
  };
  /// It may be given receives at once, and nothing else.
  static Result<std::unique_ptr<QueuePair>> create(std::shared_ptr<Domain> domain,
                                                   const Completions& completions,
                                                   const PairRoom& room);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const QueuePairEnd& end() const { return end_; }
  /// That a send may have to be copied at once.
  uint32_t inline_bytes() const { return inline_bytes_; }
  /// Receives from now on, and sends: the other end must be here before anything is sent to it.
  Status connect(const PortEnd& port, const QueuePairEnd& peer);
  /// Takes and sends nothing more; what was asked for comes back as flushed.
  void stop();

  Status send(api::ibv_send_wr& work);
  Status receive(api::ibv_recv_wr& work);

 private:
  QueuePair(std::shared_ptr<Domain> domain, api::ibv_qp* pair)
      : domain_(std::move(domain)), pair_(pair) {}
  Status initialize();
  Status modify(api::ibv_qp_attr& attributes, int mask, const char* what);

  const std::shared_ptr<Domain> domain_;
  api::ibv_qp* const pair_;
  QueuePairEnd end_;
  uint32_t inline_bytes_ = 0;
};

}  // namespace tutti::transports::verbs
