#include "transports/ucx/worker.h"

#include <cstring>

#include "src/base/io.h"

namespace tutti::transports::ucx {
namespace {

// The peer's registrations come and go; those of its windows are far fewer.
constexpr size_t kMostKeys = 256;

std::span<const std::byte> bytes_at(const void* data, size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::create(std::shared_ptr<UcxContext> context,
                                                     unsigned kinds, Take take) {
  std::unique_ptr<UcxWorker> made(new UcxWorker(std::move(context), std::move(take)));
  if (Status status = made->open(kinds); !status.ok()) return status;
  return made;
}

Status UcxWorker::open(unsigned kinds) {
  api::WorkerParams params;
  params.field_mask = api::WorkerParams::kThreadMode;
  params.thread_mode = api::kThreadsSerialized;
  api::Code code = functions().ucp_worker_create(context_->get(), &params, &handle_);
  if (code != api::kOk) {
    handle_ = nullptr;
    return context_->refused("make a worker", code);
  }
  for (unsigned kind = 0; kind < kinds; ++kind) {
    handlers_.push_back({this, kind});
    api::MessageHandlerParams handler;
    handler.field_mask = api::MessageHandlerParams::kId | api::MessageHandlerParams::kFlags |
                         api::MessageHandlerParams::kHandler | api::MessageHandlerParams::kArgument;
    handler.id = kind;
    handler.flags = api::kWholeMessages;
    handler.handler = [](void* argument, const void* header, size_t header_bytes, void* data,
                         size_t bytes, const api::ReceivedMessage* message) {
      const Handler& handler = *static_cast<const Handler*>(argument);
      handler.owner->on_message(handler.kind, bytes_at(header, header_bytes), bytes_at(data, bytes),
                                *message);
      return api::kOk;
    };
    handler.argument = &handlers_.back();
    code = functions().ucp_worker_set_am_recv_handler(handle_, &handler);
    if (code != api::kOk) return context_->refused("receive messages", code);
  }
  code = functions().ucp_worker_get_efd(handle_, &descriptor_);
  if (code != api::kOk) return context_->refused("wake those who sleep", code);
  api::WorkerAddress* address = nullptr;
  size_t bytes = 0;
  code = functions().ucp_worker_get_address(handle_, &address, &bytes);
  if (code != api::kOk) return context_->refused("tell a worker's address", code);
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  functions().ucp_worker_release_address(handle_, address);
  return {};
}

Status UcxWorker::connect(const std::string& peer) {
  api::EndpointParams params;
  params.field_mask = api::EndpointParams::kAddress | api::EndpointParams::kErrorMode |
                      api::EndpointParams::kErrorHandler;
  params.address = reinterpret_cast<const api::WorkerAddress*>(peer.data());
  params.error_mode = api::kErrorsOfPeers;
  params.handler = &on_error;
  params.argument = this;
  const api::Code code = functions().ucp_ep_create(handle_, &params, &endpoint_);
  if (code == api::kOk) return {};
  endpoint_ = nullptr;
  return context_->refused("reach the peer", code);
}

// ---- operations ---------------------------------------------------------------------------------

UcxWorker::UcxOperation& UcxWorker::begin(uint64_t name) {
  if (free_.empty()) {
    // Whatever ends an operation must find room.
    done_.reserve(operations_.size() + 1);
    free_.reserve(operations_.size() + 1);
    operations_.emplace_back().owner = this;
    free_.push_back(&operations_.back());
  }
  UcxOperation& operation = *free_.back();
  free_.pop_back();
  operation.name = name;
  ++under_way_;
  return operation;
}

api::RequestParams UcxWorker::params_of(UcxOperation& operation) {
  api::RequestParams params;
  params.field_mask = api::RequestParams::kCallback | api::RequestParams::kUserData;
  params.done = &on_done;
  params.user_data = &operation;
  return params;
}

void UcxWorker::started(UcxOperation& operation, api::Started request) {
  needs_arming_ = true;
  if (api::is_error(request)) fail("UCX refused to send", api::error_of(request));
  if (request == nullptr || api::is_error(request)) end(operation);
}

void UcxWorker::end(UcxOperation& operation) {
  --under_way_;
  done_.push_back(operation.name);
  free_.push_back(&operation);
}

void UcxWorker::on_done(void* request, api::Code code, void* user_data) {
  auto& operation = *static_cast<UcxOperation*>(user_data);
  UcxWorker& worker = *operation.owner;
  if (code != api::kOk) worker.fail("what was sent did not arrive", code);
  worker.end(operation);
  worker.functions().ucp_request_free(request);
}

void UcxWorker::send(unsigned kind, std::span<const std::byte> header,
                     std::span<const iovec> payload, uint64_t name) {
  UcxOperation& operation = begin(name);
  std::memcpy(operation.header.data(), header.data(), header.size());
  api::RequestParams params = params_of(operation);
  params.field_mask |= api::RequestParams::kFlags;
  params.flags = api::kEager;
  operation.payload.clear();
  for (const iovec& piece : payload) {
    const auto bytes = bytes_at(piece.iov_base, piece.iov_len);
    operation.payload.insert(operation.payload.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte>& copy = operation.payload;
  started(operation, functions().ucp_am_send_nbx(endpoint_, kind, operation.header.data(),
                                                 header.size(), copy.data(), copy.size(), &params));
}

void UcxWorker::put(const iovec& source, uint64_t target, const transport::stream::MemoryKey& key,
                    uint64_t name) {
  UcxOperation& operation = begin(name);
  api::RemoteKey* const remote = key_of(key);
  if (remote == nullptr) return end(operation);
  const api::RequestParams params = params_of(operation);
  started(operation, functions().ucp_put_nbx(endpoint_, source.iov_base, source.iov_len, target,
                                             remote, &params));
}

void UcxWorker::flush(uint64_t name) {
  UcxOperation& operation = begin(name);
  const api::RequestParams params = params_of(operation);
  started(operation, functions().ucp_ep_flush_nbx(endpoint_, &params));
}

/// Null: it is none; see status().
api::RemoteKey* UcxWorker::key_of(const transport::stream::MemoryKey& key) {
  const std::string bytes(reinterpret_cast<const char*>(key.data.data()), key.bytes);
  const auto known = keys_.find(bytes);
  if (known != keys_.end()) return known->second;
  if (keys_.size() >= kMostKeys && under_way_ == 1) {  // the one that asks
    for (const auto& [old, remote] : keys_) functions().ucp_rkey_destroy(remote);
    keys_.clear();
  }
  api::RemoteKey* remote = nullptr;
  const api::Code code = functions().ucp_ep_rkey_unpack(endpoint_, bytes.data(), &remote);
  if (code != api::kOk) {
    fail("its key for memory is none", code);
    return nullptr;
  }
  return keys_[bytes] = remote;
}

std::vector<uint64_t> UcxWorker::take_done() {
  std::vector<uint64_t> taken;
  taken.reserve(operations_.size());
  return std::exchange(done_, std::move(taken));
}

// ---- what UCX says ------------------------------------------------------------------------------

bool UcxWorker::progress() {
  if (handle_ == nullptr) return false;
  const bool moved = functions().ucp_worker_progress(handle_) > 0;
  needs_arming_ = needs_arming_ || moved;
  if (caught_) std::rethrow_exception(std::exchange(caught_, nullptr));
  return moved;
}

// Nothing may be thrown through UCX.
void UcxWorker::on_message(unsigned kind, std::span<const std::byte> header,
                           std::span<const std::byte> payload,
                           const api::ReceivedMessage& message) {
  if (caught_ || !status_.ok()) return;
  if ((message.attributes & api::ReceivedMessage::kOnlyAnnounced) != 0) {
    status_ = Status::remote_error("it sent what no Tutti sends");
    return;
  }
  try {
    take_(kind, header, payload);
  } catch (...) {
    caught_ = std::current_exception();
  }
}

void UcxWorker::on_error(void* argument, api::Endpoint*, api::Code code) {
  static_cast<UcxWorker*>(argument)->fail("UCX has lost the peer", code);
}

void UcxWorker::fail(const char* what, api::Code code) {
  if (!status_.ok()) return;
  status_ = Status::remote_error(std::string(what) + ": " + functions().ucs_status_string(code));
}

Status UcxWorker::watch(const PollSet& set, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (epoll_ctl(set.fd(), EPOLL_CTL_ADD, descriptor_, &event) < 0) return errno_status("epoll_ctl");
  set_ = &set;
  return {};
}

// Where something is there already, the descriptor stays readable.
void UcxWorker::arm() {
  if (handle_ == nullptr) return;
  needs_arming_ = functions().ucp_worker_arm(handle_) != api::kOk;
}

// ---- the end ------------------------------------------------------------------------------------

// Operations under way are cut off, and told by the way; a message that still comes is nobody's.
void UcxWorker::stop() {
  if (handle_ == nullptr) return;
  if (!context_->is_own()) {  // a forked child has nothing of UCX
    handle_ = nullptr;
    return;
  }
  if (set_ != nullptr) epoll_ctl(set_->fd(), EPOLL_CTL_DEL, descriptor_, nullptr);
  if (status_.ok()) status_ = Status::remote_error("this end is over");
  if (endpoint_ != nullptr) {
    api::RequestParams params;
    params.field_mask = api::RequestParams::kFlags;
    params.flags = api::kForce;
    api::Started const closing = functions().ucp_ep_close_nbx(endpoint_, &params);
    if (closing != nullptr && !api::is_error(closing)) {
      while (functions().ucp_request_check_status(closing) == api::kInProgress) {
        functions().ucp_worker_progress(handle_);
      }
      functions().ucp_request_free(closing);
    }
  }
  for (const auto& [bytes, remote] : keys_) functions().ucp_rkey_destroy(remote);
  keys_.clear();
  functions().ucp_worker_destroy(handle_);
  handle_ = nullptr;
  caught_ = nullptr;
}

}  // namespace tutti::transports::ucx
