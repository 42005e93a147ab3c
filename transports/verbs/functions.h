// The functions of libibverbs that Tutti calls, as a table: a new one is one row. Tests have a
// table of their own (tests/software_verbs).
#pragma once

#include "transports/verbs/api.h"

/// X(result, name, version, parameters): the version is that of the symbol, which never changes
/// once it is released. Two functions exist in version 1.0 only.
#define TUTTI_VERBS_FUNCTIONS(X)                                                               \
  X(ibv_device**, ibv_get_device_list, "IBVERBS_1.1", (int*))                                  \
  X(void, ibv_free_device_list, "IBVERBS_1.1", (ibv_device**))                                 \
  X(const char*, ibv_get_device_name, "IBVERBS_1.1", (ibv_device*))                            \
  X(ibv_context*, ibv_open_device, "IBVERBS_1.1", (ibv_device*))                               \
  X(int, ibv_close_device, "IBVERBS_1.1", (ibv_context*))                                      \
  X(int, ibv_query_port, "IBVERBS_1.1", (ibv_context*, uint8_t, ibv_port_attr*))               \
  X(int, ibv_query_gid, "IBVERBS_1.1", (ibv_context*, uint8_t, int, ibv_gid*))                 \
  X(int, ibv_get_async_event, "IBVERBS_1.1", (ibv_context*, ibv_async_event*))                 \
  X(void, ibv_ack_async_event, "IBVERBS_1.1", (ibv_async_event*))                              \
  X(ibv_pd*, ibv_alloc_pd, "IBVERBS_1.1", (ibv_context*))                                      \
  X(int, ibv_dealloc_pd, "IBVERBS_1.1", (ibv_pd*))                                             \
  X(ibv_mr*, ibv_reg_mr, "IBVERBS_1.1", (ibv_pd*, void*, size_t, int))                         \
  X(int, ibv_dereg_mr, "IBVERBS_1.1", (ibv_mr*))                                               \
  X(ibv_comp_channel*, ibv_create_comp_channel, "IBVERBS_1.0", (ibv_context*))                 \
  X(int, ibv_destroy_comp_channel, "IBVERBS_1.0", (ibv_comp_channel*))                         \
  X(ibv_cq*, ibv_create_cq, "IBVERBS_1.1", (ibv_context*, int, void*, ibv_comp_channel*, int)) \
  X(int, ibv_destroy_cq, "IBVERBS_1.1", (ibv_cq*))                                             \
  X(int, ibv_get_cq_event, "IBVERBS_1.1", (ibv_comp_channel*, ibv_cq**, void**))               \
  X(void, ibv_ack_cq_events, "IBVERBS_1.1", (ibv_cq*, unsigned))                               \
  X(ibv_qp*, ibv_create_qp, "IBVERBS_1.1", (ibv_pd*, ibv_qp_init_attr*))                       \
  X(int, ibv_modify_qp, "IBVERBS_1.1", (ibv_qp*, ibv_qp_attr*, int))                           \
  X(int, ibv_destroy_qp, "IBVERBS_1.1", (ibv_qp*))                                             \
  X(const char*, ibv_wc_status_str, "IBVERBS_1.1", (int))                                      \
  X(const char*, ibv_event_type_str, "IBVERBS_1.1", (int))                                     \
  X(int, ibv_fork_init, "IBVERBS_1.1", ())

/// Those that libraries of some years ago have not; null there.
#define TUTTI_VERBS_LATER_FUNCTIONS(X)          \
  X(ibv_mr*, ibv_reg_dmabuf_mr, "IBVERBS_1.12", \
    (ibv_pd*, uint64_t offset, size_t length, uint64_t address, int descriptor, int access))

namespace tutti::transports::verbs::api {

/// One pointer for each row, under the row's name.
struct VerbsFunctions {
#define TUTTI_VERBS_POINTER(result, name, version, parameters) result(*name) parameters = nullptr;
  TUTTI_VERBS_FUNCTIONS(TUTTI_VERBS_POINTER)
  TUTTI_VERBS_LATER_FUNCTIONS(TUTTI_VERBS_POINTER)
#undef TUTTI_VERBS_POINTER
};

inline int post_send(ibv_qp* pair, ibv_send_wr* work, ibv_send_wr** bad) {
  return pair->context->ops.post_send(pair, work, bad);
}
inline int post_recv(ibv_qp* pair, ibv_recv_wr* work, ibv_recv_wr** bad) {
  return pair->context->ops.post_recv(pair, work, bad);
}
inline int poll_cq(ibv_cq* queue, int count, ibv_wc* found) {
  return queue->context->ops.poll_cq(queue, count, found);
}
inline int req_notify_cq(ibv_cq* queue) { return queue->context->ops.req_notify_cq(queue, 0); }

}  // namespace tutti::transports::verbs::api
