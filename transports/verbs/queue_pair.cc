#include "transports/verbs/queue_pair.h"

#include <fcntl.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "src/base/io.h"

namespace tutti::transports::verbs {
namespace {

constexpr unsigned kMostUnacknowledged = 64;  // each acknowledgement takes a lock
constexpr uint32_t kSequences = 1u << 24;

Status refused(const Adapter& adapter, const char* what, int error) {
  return Status::system_error("RDMA port " + adapter.port().text() + " " + what + ": " +
                              errno_text(error));
}

}  // namespace

// ---- completions --------------------------------------------------------------------------------

Result<std::unique_ptr<Completions>> Completions::create(std::shared_ptr<Domain> domain,
                                                         int entries) {
  const Adapter& adapter = domain->adapter();
  const api::VerbsFunctions& functions = adapter.functions();
  errno = 0;
  api::ibv_comp_channel* const channel = functions.ibv_create_comp_channel(adapter.context());
  if (channel == nullptr) return refused(adapter, "gives no completion channel", errno);
  errno = 0;
  api::ibv_cq* const queue =
      functions.ibv_create_cq(adapter.context(), entries, nullptr, channel, 0);
  if (queue == nullptr) {
    const Status status = refused(adapter, "gives no completion queue", errno);
    functions.ibv_destroy_comp_channel(channel);
    return status;
  }
  std::unique_ptr<Completions> made(new Completions(std::move(domain), channel, queue));
  const int flags = fcntl(channel->fd, F_GETFL);
  if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
    return errno_status("fcntl");
  if (Status status = made->arm(); !status.ok()) return status;
  return made;
}

Completions::~Completions() {
  if (unacknowledged_ > 0) functions().ibv_ack_cq_events(queue_, unacknowledged_);
  functions().ibv_destroy_cq(queue_);
  functions().ibv_destroy_comp_channel(channel_);
}

Result<std::span<const api::ibv_wc>> Completions::take() {
  const int count = api::poll_cq(queue_, kBatch, found_.data());
  if (count < 0) {
    return Status::system_error("the completion queue of RDMA port " +
                                domain_->adapter().port().text() + " is broken");
  }
  if (count > 0) needs_arming_ = true;
  return std::span<const api::ibv_wc>(found_.data(), static_cast<size_t>(count));
}

Status Completions::arm() {
  api::ibv_cq* queue = nullptr;
  void* with = nullptr;
  while (functions().ibv_get_cq_event(channel_, &queue, &with) == 0) ++unacknowledged_;
  if (unacknowledged_ >= kMostUnacknowledged) {
    functions().ibv_ack_cq_events(queue_, std::exchange(unacknowledged_, 0));
  }
  if (const int error = api::req_notify_cq(queue_); error != 0) {
    return refused(domain_->adapter(), "tells of no completions", error);
  }
  needs_arming_ = false;
  return {};
}

// ---- queue pairs --------------------------------------------------------------------------------

PortEnd end_of(const Adapter& adapter) {
  const api::ibv_port_attr& attributes = adapter.attributes();
  return {adapter.gid(), attributes.lid, static_cast<uint8_t>(attributes.active_mtu)};
}

Result<std::unique_ptr<QueuePair>> QueuePair::create(std::shared_ptr<Domain> domain,
                                                     const Completions& completions,
                                                     const PairRoom& room) {
  const Adapter& adapter = domain->adapter();
  api::ibv_qp_init_attr wish{};
  wish.send_cq = wish.recv_cq = completions.get();
  wish.qp_type = api::kReliableConnection;
  wish.cap = {room.sends, room.receives, 1, 1, room.inline_bytes};
  errno = 0;
  api::ibv_qp* const pair = adapter.functions().ibv_create_qp(domain->get(), &wish);
  if (pair == nullptr) return refused(adapter, "gives no queue pair", errno);
  std::unique_ptr<QueuePair> made(new QueuePair(std::move(domain), pair));
  made->end_ = {pair->qp_num, randombytes_uniform(kSequences)};
  made->inline_bytes_ = std::min(room.inline_bytes, wish.cap.max_inline_data);
  if (Status status = made->initialize(); !status.ok()) return status;
  return made;
}

QueuePair::~QueuePair() { domain_->adapter().functions().ibv_destroy_qp(pair_); }

Status QueuePair::modify(api::ibv_qp_attr& attributes, int mask, const char* what) {
  const Adapter& adapter = domain_->adapter();
  const int error = adapter.functions().ibv_modify_qp(pair_, &attributes, mask);
  if (error == 0) return {};
  return refused(adapter, what, error > 0 ? error : errno);
}

Status QueuePair::initialize() {
  api::ibv_qp_attr wish{};
  wish.qp_state = api::kInit;
  wish.port_num = static_cast<uint8_t>(domain_->adapter().port().port);
  wish.qp_access_flags = api::kAccessRemoteWrite | api::kAccessRemoteRead;
  return modify(wish, api::kMaskState | api::kMaskPkeyIndex | api::kMaskPort | api::kMaskAccess,
                "does not initialize a queue pair");
}

Status QueuePair::connect(const PortEnd& port, const QueuePairEnd& peer) {
  constexpr uint8_t kHops = 64;
  constexpr uint8_t kRnrTimer = 12;          // 0.64 ms
  constexpr uint8_t kRnrRetriesForEver = 7;  // credits make them rare
  const Adapter& adapter = domain_->adapter();
  const RdmaSettings& settings = adapter.settings();
  const bool routed = adapter.attributes().link_layer == api::kLinkEthernet;
  api::ibv_qp_attr wish{};
  wish.qp_state = api::kReadyToReceive;
  wish.path_mtu = std::min<int>(port.mtu, adapter.attributes().active_mtu);
  wish.dest_qp_num = peer.number;
  wish.rq_psn = peer.sequence;
  wish.max_dest_rd_atomic = 1;
  wish.min_rnr_timer = kRnrTimer;
  wish.ah_attr.dlid = port.lid;
  wish.ah_attr.port_num = static_cast<uint8_t>(adapter.port().port);
  wish.ah_attr.is_global = routed || port.gid.words[0] != adapter.gid().words[0] ? 1 : 0;
  wish.ah_attr.grh.dgid = port.gid;
  wish.ah_attr.grh.sgid_index = static_cast<uint8_t>(adapter.gid_index());
  wish.ah_attr.grh.hop_limit = kHops;
  wish.ah_attr.grh.traffic_class = static_cast<uint8_t>(settings.traffic_class);
  const int to_receive = api::kMaskState | api::kMaskAddress | api::kMaskPathMtu |
                         api::kMaskPeerNumber | api::kMaskReceivePsn | api::kMaskMaxPeerReads |
                         api::kMaskRnrTimer;
  if (Status status = modify(wish, to_receive, "has no route to the peer's port"); !status.ok()) {
    return status;
  }
  wish.qp_state = api::kReadyToSend;
  wish.sq_psn = end_.sequence;
  wish.timeout = static_cast<uint8_t>(settings.timeout);
  wish.retry_cnt = static_cast<uint8_t>(settings.retries);
  wish.rnr_retry = kRnrRetriesForEver;
  wish.max_rd_atomic = 1;
  const int to_send = api::kMaskState | api::kMaskSendPsn | api::kMaskTimeout | api::kMaskRetries |
                      api::kMaskRnrRetries | api::kMaskMaxReads;
  return modify(wish, to_send, "does not let a queue pair send");
}

void QueuePair::stop() {
  api::ibv_qp_attr wish{};
  wish.qp_state = api::kError;
  (void)modify(wish, api::kMaskState, "does not stop a queue pair");
}

Status QueuePair::send(api::ibv_send_wr& work) {
  api::ibv_send_wr* bad = nullptr;
  const int error = api::post_send(pair_, &work, &bad);
  return error == 0 ? Status() : refused(domain_->adapter(), "takes nothing to send", error);
}

Status QueuePair::receive(api::ibv_recv_wr& work) {
  api::ibv_recv_wr* bad = nullptr;
  const int error = api::post_recv(pair_, &work, &bad);
  return error == 0 ? Status() : refused(domain_->adapter(), "takes no receive request", error);
}

}  // namespace tutti::transports::verbs
