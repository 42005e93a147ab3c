// Tutti's own declarations of libibverbs' interface against infiniband/verbs.h, where that is.
#include <gtest/gtest.h>

#include "transports/verbs/functions.h"

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>
#define TUTTI_HAS_VERBS_HEADER
#endif

namespace tutti::transports::verbs::api {
namespace {

#ifdef TUTTI_HAS_VERBS_HEADER

#define TUTTI_SAME_FIELD(type, ours, theirs)                        \
  static_assert(offsetof(type, ours) == offsetof(::type, theirs) && \
                sizeof(type::ours) == sizeof(::type::theirs))
#define TUTTI_SAME_SIZE(type) static_assert(sizeof(type) == sizeof(::type))
#define TUTTI_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<unsigned long>(ours) == static_cast<unsigned long>(::theirs))

TUTTI_SAME_SIZE(ibv_gid);
TUTTI_SAME_SIZE(ibv_context_ops);
TUTTI_SAME_FIELD(ibv_context_ops, poll_cq, poll_cq);
TUTTI_SAME_FIELD(ibv_context_ops, req_notify_cq, req_notify_cq);
TUTTI_SAME_FIELD(ibv_context_ops, post_send, post_send);
TUTTI_SAME_FIELD(ibv_context_ops, post_recv, post_recv);
TUTTI_SAME_FIELD(ibv_context, ops, ops);
TUTTI_SAME_FIELD(ibv_context, async_fd, async_fd);
TUTTI_SAME_SIZE(ibv_mr);
TUTTI_SAME_FIELD(ibv_mr, lkey, lkey);
TUTTI_SAME_FIELD(ibv_mr, rkey, rkey);
TUTTI_SAME_FIELD(ibv_pd, context, context);
TUTTI_SAME_FIELD(ibv_comp_channel, fd, fd);
TUTTI_SAME_FIELD(ibv_cq, context, context);
TUTTI_SAME_FIELD(ibv_qp, context, context);
TUTTI_SAME_FIELD(ibv_qp, qp_num, qp_num);
TUTTI_SAME_SIZE(ibv_port_attr);
TUTTI_SAME_FIELD(ibv_port_attr, state, state);
TUTTI_SAME_FIELD(ibv_port_attr, active_mtu, active_mtu);
TUTTI_SAME_FIELD(ibv_port_attr, lid, lid);
TUTTI_SAME_FIELD(ibv_port_attr, link_layer, link_layer);
TUTTI_SAME_FIELD(ibv_port_attr, active_width, active_width);
TUTTI_SAME_FIELD(ibv_port_attr, active_speed, active_speed);
TUTTI_SAME_SIZE(ibv_qp_init_attr);
TUTTI_SAME_FIELD(ibv_qp_init_attr, cap, cap);
TUTTI_SAME_FIELD(ibv_qp_init_attr, qp_type, qp_type);
TUTTI_SAME_SIZE(ibv_ah_attr);
TUTTI_SAME_FIELD(ibv_ah_attr, dlid, dlid);
TUTTI_SAME_FIELD(ibv_ah_attr, is_global, is_global);
TUTTI_SAME_FIELD(ibv_ah_attr, port_num, port_num);
TUTTI_SAME_FIELD(ibv_global_route, sgid_index, sgid_index);
TUTTI_SAME_FIELD(ibv_global_route, traffic_class, traffic_class);
TUTTI_SAME_SIZE(ibv_qp_attr);
TUTTI_SAME_FIELD(ibv_qp_attr, path_mtu, path_mtu);
TUTTI_SAME_FIELD(ibv_qp_attr, dest_qp_num, dest_qp_num);
TUTTI_SAME_FIELD(ibv_qp_attr, qp_access_flags, qp_access_flags);
TUTTI_SAME_FIELD(ibv_qp_attr, ah_attr, ah_attr);
TUTTI_SAME_FIELD(ibv_qp_attr, min_rnr_timer, min_rnr_timer);
TUTTI_SAME_FIELD(ibv_qp_attr, rnr_retry, rnr_retry);
TUTTI_SAME_SIZE(ibv_sge);
TUTTI_SAME_SIZE(ibv_send_wr);
TUTTI_SAME_FIELD(ibv_send_wr, opcode, opcode);
TUTTI_SAME_FIELD(ibv_send_wr, imm_data, imm_data);
TUTTI_SAME_FIELD(ibv_send_wr, rdma.remote_addr, wr.rdma.remote_addr);
TUTTI_SAME_FIELD(ibv_send_wr, rdma.rkey, wr.rdma.rkey);
TUTTI_SAME_SIZE(ibv_recv_wr);
TUTTI_SAME_SIZE(ibv_wc);
TUTTI_SAME_FIELD(ibv_wc, status, status);
TUTTI_SAME_FIELD(ibv_wc, opcode, opcode);
TUTTI_SAME_FIELD(ibv_wc, byte_len, byte_len);
TUTTI_SAME_FIELD(ibv_wc, imm_data, imm_data);
TUTTI_SAME_FIELD(ibv_wc, qp_num, qp_num);
TUTTI_SAME_FIELD(ibv_wc, wc_flags, wc_flags);
TUTTI_SAME_SIZE(ibv_async_event);
TUTTI_SAME_FIELD(ibv_async_event, event_type, event_type);

TUTTI_SAME_VALUE(kPortActive, IBV_PORT_ACTIVE);
TUTTI_SAME_VALUE(kLinkInfiniband, IBV_LINK_LAYER_INFINIBAND);
TUTTI_SAME_VALUE(kLinkEthernet, IBV_LINK_LAYER_ETHERNET);
TUTTI_SAME_VALUE(kReliableConnection, IBV_QPT_RC);
TUTTI_SAME_VALUE(kInit, IBV_QPS_INIT);
TUTTI_SAME_VALUE(kReadyToReceive, IBV_QPS_RTR);
TUTTI_SAME_VALUE(kReadyToSend, IBV_QPS_RTS);
TUTTI_SAME_VALUE(kError, IBV_QPS_ERR);
TUTTI_SAME_VALUE(kMaskState, IBV_QP_STATE);
TUTTI_SAME_VALUE(kMaskAccess, IBV_QP_ACCESS_FLAGS);
TUTTI_SAME_VALUE(kMaskPkeyIndex, IBV_QP_PKEY_INDEX);
TUTTI_SAME_VALUE(kMaskPort, IBV_QP_PORT);
TUTTI_SAME_VALUE(kMaskAddress, IBV_QP_AV);
TUTTI_SAME_VALUE(kMaskPathMtu, IBV_QP_PATH_MTU);
TUTTI_SAME_VALUE(kMaskTimeout, IBV_QP_TIMEOUT);
TUTTI_SAME_VALUE(kMaskRetries, IBV_QP_RETRY_CNT);
TUTTI_SAME_VALUE(kMaskRnrRetries, IBV_QP_RNR_RETRY);
TUTTI_SAME_VALUE(kMaskReceivePsn, IBV_QP_RQ_PSN);
TUTTI_SAME_VALUE(kMaskMaxReads, IBV_QP_MAX_QP_RD_ATOMIC);
TUTTI_SAME_VALUE(kMaskRnrTimer, IBV_QP_MIN_RNR_TIMER);
TUTTI_SAME_VALUE(kMaskSendPsn, IBV_QP_SQ_PSN);
TUTTI_SAME_VALUE(kMaskMaxPeerReads, IBV_QP_MAX_DEST_RD_ATOMIC);
TUTTI_SAME_VALUE(kMaskPeerNumber, IBV_QP_DEST_QPN);
TUTTI_SAME_VALUE(kAccessLocalWrite, IBV_ACCESS_LOCAL_WRITE);
TUTTI_SAME_VALUE(kAccessRemoteWrite, IBV_ACCESS_REMOTE_WRITE);
TUTTI_SAME_VALUE(kAccessRemoteRead, IBV_ACCESS_REMOTE_READ);
TUTTI_SAME_VALUE(kOpWrite, IBV_WR_RDMA_WRITE);
TUTTI_SAME_VALUE(kOpWriteWithImmediate, IBV_WR_RDMA_WRITE_WITH_IMM);
TUTTI_SAME_VALUE(kOpSend, IBV_WR_SEND);
TUTTI_SAME_VALUE(kOpSendWithImmediate, IBV_WR_SEND_WITH_IMM);
TUTTI_SAME_VALUE(kOpRead, IBV_WR_RDMA_READ);
TUTTI_SAME_VALUE(kSendSignaled, IBV_SEND_SIGNALED);
TUTTI_SAME_VALUE(kSendInline, IBV_SEND_INLINE);
TUTTI_SAME_VALUE(kDone, IBV_WC_SUCCESS);
TUTTI_SAME_VALUE(kFlushed, IBV_WC_WR_FLUSH_ERR);
TUTTI_SAME_VALUE(kRetriesExceeded, IBV_WC_RETRY_EXC_ERR);
TUTTI_SAME_VALUE(kRnrRetriesExceeded, IBV_WC_RNR_RETRY_EXC_ERR);
TUTTI_SAME_VALUE(kDidSend, IBV_WC_SEND);
TUTTI_SAME_VALUE(kDidWrite, IBV_WC_RDMA_WRITE);
TUTTI_SAME_VALUE(kDidRead, IBV_WC_RDMA_READ);
TUTTI_SAME_VALUE(kDidReceive, IBV_WC_RECV);
TUTTI_SAME_VALUE(kDidReceiveWrite, IBV_WC_RECV_RDMA_WITH_IMM);
TUTTI_SAME_VALUE(kHasImmediate, IBV_WC_WITH_IMM);
TUTTI_SAME_VALUE(kEventDeviceFatal, IBV_EVENT_DEVICE_FATAL);
TUTTI_SAME_VALUE(kEventPortActive, IBV_EVENT_PORT_ACTIVE);
TUTTI_SAME_VALUE(kEventPortError, IBV_EVENT_PORT_ERR);
TUTTI_SAME_VALUE(kEventGidChange, IBV_EVENT_GID_CHANGE);

TEST(VerbsInterface, IsTheOneOfTheHeader) { SUCCEED() << "the compiler has compared"; }

#else

TEST(VerbsInterface, IsTheOneOfTheHeader) {
  GTEST_SKIP() << "there is no infiniband/verbs.h: Tutti's own declarations of the interface "
                  "(transports/verbs/api.h) were compared with nothing";
}

#endif

}  // namespace
}  // namespace tutti::transports::verbs::api
