// The part of libibverbs' binary interface that Tutti uses, declared by Tutti itself: no header of
// it is needed to build, and no library until a card is there.
//
// Types have their documented names, so that the manual pages explain them; members that are never
// looked at are left out at the end of a structure that only the library makes. Constants have
// names of ours. abi_test.cc compares sizes, offsets and values with infiniband/verbs.h where that
// is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::transports::verbs::api {

struct ibv_device;
struct ibv_srq;
struct ibv_qp;
struct ibv_cq;
struct ibv_context;
struct ibv_send_wr;
struct ibv_recv_wr;
struct ibv_wc;

union ibv_gid {
  uint8_t raw[16];
  uint64_t words[2];
};

/// Functions that are inline in the header go through these; the rest only keeps its place.
struct ibv_context_ops {
  void* before_poll[11];
  int (*poll_cq)(ibv_cq*, int, ibv_wc*);
  int (*req_notify_cq)(ibv_cq*, int);
  void* before_send[12];
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  void* after_receive[5];
};

struct ibv_context {
  ibv_device* device;
  ibv_context_ops ops;
  int cmd_fd;
  int async_fd;
};

struct ibv_pd {
  ibv_context* context;
};

struct ibv_mr {
  ibv_context* context;
  ibv_pd* pd;
  void* addr;
  size_t length;
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
};

struct ibv_comp_channel {
  ibv_context* context;
  int fd;
};

struct ibv_cq {
  ibv_context* context;
};

struct ibv_qp {
  ibv_context* context;
  void* qp_context;
  ibv_pd* pd;
  ibv_cq* send_cq;
  ibv_cq* recv_cq;
  ibv_srq* srq;
  uint32_t handle;
  uint32_t qp_num;
};

inline constexpr int kPortActive = 4;
inline constexpr uint8_t kLinkInfiniband = 1, kLinkEthernet = 2;

struct ibv_port_attr {
  int state;
  int max_mtu;
  int active_mtu;  // 1: 256 bytes ... 5: 4096
  int gid_tbl_len;
  uint32_t port_cap_flags;
  uint32_t max_msg_sz;
  uint32_t bad_pkey_cntr;
  uint32_t qkey_viol_cntr;
  uint16_t pkey_tbl_len;
  uint16_t lid;
  uint16_t sm_lid;
  uint8_t lmc;
  uint8_t max_vl_num;
  uint8_t sm_sl;
  uint8_t subnet_timeout;
  uint8_t init_type_reply;
  uint8_t active_width;
  uint8_t active_speed;
  uint8_t phys_state;
  uint8_t link_layer;
  uint8_t flags;
  uint16_t port_cap_flags2;
};

struct ibv_qp_cap {
  uint32_t max_send_wr;
  uint32_t max_recv_wr;
  uint32_t max_send_sge;
  uint32_t max_recv_sge;
  uint32_t max_inline_data;
};

inline constexpr int kReliableConnection = 2;  // ibv_qp_type

struct ibv_qp_init_attr {
  void* qp_context;
  ibv_cq* send_cq;
  ibv_cq* recv_cq;
  ibv_srq* srq;
  ibv_qp_cap cap;
  int qp_type;
  int sq_sig_all;
};

struct ibv_global_route {
  ibv_gid dgid;
  uint32_t flow_label;
  uint8_t sgid_index;
  uint8_t hop_limit;
  uint8_t traffic_class;
};

struct ibv_ah_attr {
  ibv_global_route grh;
  uint16_t dlid;
  uint8_t sl;
  uint8_t src_path_bits;
  uint8_t static_rate;
  uint8_t is_global;
  uint8_t port_num;
};

enum ibv_qp_state : int {
  kReset,
  kInit,
  kReadyToReceive,
  kReadyToSend,
  kDraining,
  kSqError,
  kError
};

struct ibv_qp_attr {
  int qp_state;
  int cur_qp_state;
  int path_mtu;
  int path_mig_state;
  uint32_t qkey;
  uint32_t rq_psn;
  uint32_t sq_psn;
  uint32_t dest_qp_num;
  unsigned qp_access_flags;
  ibv_qp_cap cap;
  ibv_ah_attr ah_attr;
  ibv_ah_attr alt_ah_attr;
  uint16_t pkey_index;
  uint16_t alt_pkey_index;
  uint8_t en_sqd_async_notify;
  uint8_t sq_draining;
  uint8_t max_rd_atomic;
  uint8_t max_dest_rd_atomic;
  uint8_t min_rnr_timer;
  uint8_t port_num;
  uint8_t timeout;
  uint8_t retry_cnt;
  uint8_t rnr_retry;
  uint8_t alt_port_num;
  uint8_t alt_timeout;
  uint32_t rate_limit;
};

/// Which members of ibv_qp_attr count.
enum ibv_qp_attr_mask : int {
  kMaskState = 1 << 0,
  kMaskAccess = 1 << 3,
  kMaskPkeyIndex = 1 << 4,
  kMaskPort = 1 << 5,
  kMaskAddress = 1 << 7,
  kMaskPathMtu = 1 << 8,
  kMaskTimeout = 1 << 9,
  kMaskRetries = 1 << 10,
  kMaskRnrRetries = 1 << 11,
  kMaskReceivePsn = 1 << 12,
  kMaskMaxReads = 1 << 13,
  kMaskRnrTimer = 1 << 15,
  kMaskSendPsn = 1 << 16,
  kMaskMaxPeerReads = 1 << 17,
  kMaskPeerNumber = 1 << 20,
};

inline constexpr int kAccessLocalWrite = 1, kAccessRemoteWrite = 2, kAccessRemoteRead = 4;

struct ibv_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

inline constexpr int kOpWrite = 0, kOpWriteWithImmediate = 1, kOpSend = 2, kOpSendWithImmediate = 3;
inline constexpr int kOpRead = 4;
inline constexpr unsigned kSendSignaled = 1 << 1, kSendInline = 1 << 3;

struct ibv_send_wr {
  uint64_t wr_id;
  ibv_send_wr* next;
  ibv_sge* sg_list;
  int num_sge;
  int opcode;
  unsigned send_flags;
  uint32_t imm_data;  // in network byte order
  struct {
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t atomic_words[2];
  } rdma;
  uint64_t other_kinds[7];
};

struct ibv_recv_wr {
  uint64_t wr_id;
  ibv_recv_wr* next;
  ibv_sge* sg_list;
  int num_sge;
};

inline constexpr int kDone = 0, kFlushed = 5, kRetriesExceeded = 12, kRnrRetriesExceeded = 13;
inline constexpr int kDidSend = 0, kDidWrite = 1, kDidRead = 2, kDidReceive = 128,
                     kDidReceiveWrite = 129;
inline constexpr unsigned kHasImmediate = 1 << 1;

/// Of a completion with an error only wr_id, status, vendor_err and qp_num count.
struct ibv_wc {
  uint64_t wr_id;
  int status;
  int opcode;
  uint32_t vendor_err;
  uint32_t byte_len;
  uint32_t imm_data;  // in network byte order
  uint32_t qp_num;
  uint32_t src_qp;
  unsigned wc_flags;
  uint16_t pkey_index;
  uint16_t slid;
  uint8_t sl;
  uint8_t dlid_path_bits;
};

inline constexpr int kEventDeviceFatal = 8, kEventPortActive = 9, kEventPortError = 10;
inline constexpr int kEventGidChange = 18;

struct ibv_async_event {
  union {
    ibv_cq* cq;
    ibv_qp* qp;
    int port_num;
  } element;
  int event_type;
};

}  // namespace tutti::transports::verbs::api
