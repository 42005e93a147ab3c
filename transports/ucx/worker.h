// A worker of UCX and its endpoint at the peer's: what one link sends messages by, or writes into
// the peer's memory. Two of them make a pipe.
//
// Operations have names; each is told once, when UCX reads its memory no more. UCX calls back from
// within progress() alone, so whoever progresses hears everything.
//
// Owns:    worker, endpoint, keys of the peer, copies of messages. The source of a put is the
//          caller's until told.
// Threads: one at a time.
// Errors:  the first one stays; a peer that is gone is one.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/poll_set.h"
#include "src/base/status.h"
#include "src/transport/stream/frame.h"
#include "transports/ucx/context.h"

namespace tutti::transports::ucx {

class UcxWorker {
 public:
  static constexpr size_t kMostHeaderBytes = 96;

  /// Runs within progress() for every message: what kind it is, header and payload.
  using Take = std::function<void(unsigned kind, std::span<const std::byte> header,
                                  std::span<const std::byte> payload)>;
  /// Kinds of messages are 0 to `kinds` - 1.
  static Result<std::unique_ptr<UcxWorker>> create(std::shared_ptr<UcxContext> context,
                                                   unsigned kinds, Take take);
  ~UcxWorker() { stop(); }
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const std::string& address() const { return address_; }
  /// `peer`: the address of the other end.
  Status connect(const std::string& peer);

  /// Copies both.
  void send(unsigned kind, std::span<const std::byte> header, std::span<const iovec> payload,
            uint64_t name);
  void put(const iovec& source, uint64_t target, const transport::stream::MemoryKey& key,
           uint64_t name);
  /// Told when everything that was put before is in the peer's memory.
  void flush(uint64_t name);

  /// True if anything moved.
  bool progress();
  /// The names of operations that are done, since the last call.
  std::vector<uint64_t> take_done();
  const Status& status() const { return status_; }
  size_t under_way() const { return under_way_; }

  /// Wakes those who sleep on the set, until stop().
  Status watch(const PollSet& set, uint64_t tag);
  /// Something has moved since the last arm(), so the next one would not be told.
  bool needs_arming() const { return needs_arming_; }
  void arm();

  /// When this returns, UCX touches no memory of operations, and no peer writes by this worker.
  void stop();

 private:
  struct UcxOperation {
    UcxWorker* owner = nullptr;
    uint64_t name = 0;
    std::array<std::byte, kMostHeaderBytes> header;
    std::vector<std::byte> payload;
  };
  struct Handler {
    UcxWorker* owner = nullptr;
    unsigned kind = 0;
  };

  UcxWorker(std::shared_ptr<UcxContext> context, Take take)
      : context_(std::move(context)), take_(std::move(take)) {}

  const api::UcxFunctions& functions() const { return context_->functions(); }
  Status open(unsigned kinds);
  UcxOperation& begin(uint64_t name);
  static api::RequestParams params_of(UcxOperation& operation);
  void started(UcxOperation& operation, api::Started request);
  void end(UcxOperation& operation);
  void fail(const char* what, api::Code code);
  api::RemoteKey* key_of(const transport::stream::MemoryKey& key);

  static void on_done(void* request, api::Code code, void* operation);
  static void on_error(void* worker, api::Endpoint* endpoint, api::Code code);
  void on_message(unsigned kind, std::span<const std::byte> header,
                  std::span<const std::byte> payload, const api::ReceivedMessage& message);

  const std::shared_ptr<UcxContext> context_;
  const Take take_;
  api::Worker* handle_ = nullptr;
  api::Endpoint* endpoint_ = nullptr;
  std::string address_;
  std::deque<Handler> handlers_;
  std::deque<UcxOperation> operations_;
  std::vector<UcxOperation*> free_;
  std::vector<uint64_t> done_;
  size_t under_way_ = 0;
  std::map<std::string, api::RemoteKey*> keys_;  // of the peer, by their bytes
  const PollSet* set_ = nullptr;
  int descriptor_ = -1;
  bool needs_arming_ = true;
  std::exception_ptr caught_;  // by on_message()
  Status status_;
};

}  // namespace tutti::transports::ucx
