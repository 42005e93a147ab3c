// The functions of libucp that Tutti calls, as a table: a new one is one row. Tests have tables of
// their own.
#pragma once

#include "transports/ucx/api.h"

/// X(result, name, parameters)
#define TUTTI_UCX_FUNCTIONS(X)                                                             \
  X(void, ucp_get_version, (unsigned*, unsigned*, unsigned*))                              \
  X(Code, ucp_config_read, (const char*, const char*, UcpConfig**))                        \
  X(Code, ucp_config_modify, (UcpConfig*, const char*, const char*))                       \
  X(void, ucp_config_release, (UcpConfig*))                                                \
  X(Code, ucp_init_version,                                                                \
    (unsigned, unsigned, const ContextParams*, const UcpConfig*, Context**))               \
  X(void, ucp_cleanup, (Context*))                                                         \
  X(Code, ucp_mem_map, (Context*, const MapParams*, MappedMemory**))                       \
  X(Code, ucp_mem_unmap, (Context*, MappedMemory*))                                        \
  X(Code, ucp_rkey_pack, (Context*, MappedMemory*, void**, size_t*))                       \
  X(void, ucp_rkey_buffer_release, (void*))                                                \
  X(Code, ucp_worker_create, (Context*, const WorkerParams*, Worker**))                    \
  X(void, ucp_worker_destroy, (Worker*))                                                   \
  X(Code, ucp_worker_get_address, (Worker*, WorkerAddress**, size_t*))                     \
  X(void, ucp_worker_release_address, (Worker*, WorkerAddress*))                           \
  X(unsigned, ucp_worker_progress, (Worker*))                                              \
  X(Code, ucp_worker_get_efd, (Worker*, int*))                                             \
  X(Code, ucp_worker_arm, (Worker*))                                                       \
  X(Code, ucp_worker_set_am_recv_handler, (Worker*, const MessageHandlerParams*))          \
  X(Code, ucp_ep_create, (Worker*, const EndpointParams*, Endpoint**))                     \
  X(Started, ucp_ep_close_nbx, (Endpoint*, const RequestParams*))                          \
  X(Started, ucp_ep_flush_nbx, (Endpoint*, const RequestParams*))                          \
  X(Started, ucp_am_send_nbx,                                                              \
    (Endpoint*, unsigned, const void*, size_t, const void*, size_t, const RequestParams*)) \
  X(Code, ucp_ep_rkey_unpack, (Endpoint*, const void*, RemoteKey**))                       \
  X(void, ucp_rkey_destroy, (RemoteKey*))                                                  \
  X(Started, ucp_put_nbx,                                                                  \
    (Endpoint*, const void*, size_t, uint64_t, RemoteKey*, const RequestParams*))          \
  X(Code, ucp_request_check_status, (void*))                                               \
  X(void, ucp_request_free, (void*))                                                       \
  X(const char*, ucs_status_string, (Code))

namespace tutti::transports::ucx::api {

/// One pointer for each row, under the row's name.
struct UcxFunctions {
#define TUTTI_UCX_POINTER(result, name, parameters) result(*name) parameters = nullptr;
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_POINTER)
#undef TUTTI_UCX_POINTER
};

}  // namespace tutti::transports::ucx::api
