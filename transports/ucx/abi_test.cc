// Tutti's own declarations of UCX's interface against ucp/api/ucp.h, where that is.
#include <gtest/gtest.h>

#include "transports/ucx/functions.h"

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>
#define TUTTI_HAS_UCX_HEADER
#endif

namespace tutti::transports::ucx::api {
namespace {

#ifdef TUTTI_HAS_UCX_HEADER

// A later library takes a structure that ends sooner than its own.
#define TUTTI_BEGINS(ours, theirs) static_assert(sizeof(ours) <= sizeof(::theirs))
#define TUTTI_SAME_FIELD(ours, field, theirs, their_field)                  \
  static_assert(offsetof(ours, field) == offsetof(::theirs, their_field) && \
                sizeof(ours::field) == sizeof(::theirs::their_field))
#define TUTTI_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

TUTTI_BEGINS(ContextParams, ucp_params_t);
TUTTI_SAME_FIELD(ContextParams, field_mask, ucp_params_t, field_mask);
TUTTI_SAME_FIELD(ContextParams, features, ucp_params_t, features);
TUTTI_SAME_FIELD(ContextParams, mt_workers_shared, ucp_params_t, mt_workers_shared);
TUTTI_SAME_FIELD(ContextParams, estimated_num_eps, ucp_params_t, estimated_num_eps);
TUTTI_SAME_VALUE(ContextParams::kFeatures, UCP_PARAM_FIELD_FEATURES);
TUTTI_SAME_VALUE(ContextParams::kSharedByWorkers, UCP_PARAM_FIELD_MT_WORKERS_SHARED);
TUTTI_SAME_VALUE(kFeatureRemoteMemory, UCP_FEATURE_RMA);
TUTTI_SAME_VALUE(kFeatureWakeup, UCP_FEATURE_WAKEUP);
TUTTI_SAME_VALUE(kFeatureMessages, UCP_FEATURE_AM);

TUTTI_BEGINS(WorkerParams, ucp_worker_params_t);
TUTTI_SAME_FIELD(WorkerParams, thread_mode, ucp_worker_params_t, thread_mode);
TUTTI_SAME_FIELD(WorkerParams, cpu_mask, ucp_worker_params_t, cpu_mask);
TUTTI_SAME_FIELD(WorkerParams, events, ucp_worker_params_t, events);
TUTTI_SAME_VALUE(WorkerParams::kThreadMode, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
TUTTI_SAME_VALUE(kThreadsSerialized, UCS_THREAD_MODE_SERIALIZED);

TUTTI_BEGINS(EndpointParams, ucp_ep_params_t);
TUTTI_SAME_FIELD(EndpointParams, address, ucp_ep_params_t, address);
TUTTI_SAME_FIELD(EndpointParams, error_mode, ucp_ep_params_t, err_mode);
TUTTI_SAME_FIELD(EndpointParams, handler, ucp_ep_params_t, err_handler.cb);
TUTTI_SAME_FIELD(EndpointParams, argument, ucp_ep_params_t, err_handler.arg);
TUTTI_SAME_FIELD(EndpointParams, flags, ucp_ep_params_t, flags);
TUTTI_SAME_VALUE(EndpointParams::kAddress, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
TUTTI_SAME_VALUE(EndpointParams::kErrorMode, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
TUTTI_SAME_VALUE(EndpointParams::kErrorHandler, UCP_EP_PARAM_FIELD_ERR_HANDLER);
TUTTI_SAME_VALUE(kErrorsOfPeers, UCP_ERR_HANDLING_MODE_PEER);

TUTTI_BEGINS(RequestParams, ucp_request_param_t);
TUTTI_SAME_FIELD(RequestParams, flags, ucp_request_param_t, flags);
TUTTI_SAME_FIELD(RequestParams, done, ucp_request_param_t, cb);
TUTTI_SAME_FIELD(RequestParams, datatype, ucp_request_param_t, datatype);
TUTTI_SAME_FIELD(RequestParams, user_data, ucp_request_param_t, user_data);
TUTTI_SAME_VALUE(RequestParams::kCallback, UCP_OP_ATTR_FIELD_CALLBACK);
TUTTI_SAME_VALUE(RequestParams::kUserData, UCP_OP_ATTR_FIELD_USER_DATA);
TUTTI_SAME_VALUE(RequestParams::kFlags, UCP_OP_ATTR_FIELD_FLAGS);
TUTTI_SAME_VALUE(kEager, UCP_AM_SEND_FLAG_EAGER);
TUTTI_SAME_VALUE(kForce, UCP_EP_CLOSE_FLAG_FORCE);

TUTTI_SAME_FIELD(ReceivedMessage, attributes, ucp_am_recv_param_t, recv_attr);
TUTTI_SAME_VALUE(ReceivedMessage::kOnlyAnnounced, UCP_AM_RECV_ATTR_FLAG_RNDV);

TUTTI_BEGINS(MessageHandlerParams, ucp_am_handler_param_t);
TUTTI_SAME_FIELD(MessageHandlerParams, id, ucp_am_handler_param_t, id);
TUTTI_SAME_FIELD(MessageHandlerParams, flags, ucp_am_handler_param_t, flags);
TUTTI_SAME_FIELD(MessageHandlerParams, handler, ucp_am_handler_param_t, cb);
TUTTI_SAME_FIELD(MessageHandlerParams, argument, ucp_am_handler_param_t, arg);
TUTTI_SAME_VALUE(MessageHandlerParams::kId, UCP_AM_HANDLER_PARAM_FIELD_ID);
TUTTI_SAME_VALUE(MessageHandlerParams::kFlags, UCP_AM_HANDLER_PARAM_FIELD_FLAGS);
TUTTI_SAME_VALUE(MessageHandlerParams::kHandler, UCP_AM_HANDLER_PARAM_FIELD_CB);
TUTTI_SAME_VALUE(MessageHandlerParams::kArgument, UCP_AM_HANDLER_PARAM_FIELD_ARG);
TUTTI_SAME_VALUE(kWholeMessages, UCP_AM_FLAG_WHOLE_MSG);

TUTTI_BEGINS(MapParams, ucp_mem_map_params_t);
TUTTI_SAME_FIELD(MapParams, address, ucp_mem_map_params_t, address);
TUTTI_SAME_FIELD(MapParams, length, ucp_mem_map_params_t, length);
TUTTI_SAME_FIELD(MapParams, memory_type, ucp_mem_map_params_t, memory_type);
TUTTI_SAME_VALUE(MapParams::kAddress, UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
TUTTI_SAME_VALUE(MapParams::kLength, UCP_MEM_MAP_PARAM_FIELD_LENGTH);

static_assert(sizeof(Code) == sizeof(ucs_status_t));
TUTTI_SAME_VALUE(kOk, UCS_OK);
TUTTI_SAME_VALUE(kInProgress, UCS_INPROGRESS);
TUTTI_SAME_VALUE(kBusy, UCS_ERR_BUSY);

TEST(UcxInterface, ErrorsAreToldFromRequests) {
  static_assert(UCS_ERR_LAST == -static_cast<int>(kMostErrors));
  for (const int code : {UCS_ERR_NO_MESSAGE + 0, UCS_ERR_BUSY + 0, UCS_ERR_LAST + 1}) {
    const auto started = reinterpret_cast<Started>(static_cast<intptr_t>(code));
    EXPECT_TRUE(is_error(started) && UCS_PTR_IS_ERR(started));
    EXPECT_EQ(error_of(started), UCS_PTR_RAW_STATUS(started));
  }
  int request = 0;
  EXPECT_FALSE(is_error(&request));
  EXPECT_FALSE(is_error(nullptr));
}

#else

TEST(UcxInterface, IsThatOfTheHeader) {
  GTEST_SKIP() << "there is no ucp/api/ucp.h (Debian: libucx-dev) to compare with";
}

#endif

}  // namespace
}  // namespace tutti::transports::ucx::api
