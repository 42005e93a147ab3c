// A context of UCX: the network that it may use, which is pinned, and memory that is registered for
// it.
//
// Owns:     the context, registrations.
// Threads:  any.
// Errors:   kUnsupported where UCX cannot be used, in one sentence; kInvalidUsage in a forked child
//           of a process that uses UCX; kSystemError.
// Lifetime: registrations and workers keep their context.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/registered_ranges.h"
#include "src/transport/stream/frame.h"
#include "transports/ucx/functions.h"
#include "transports/verbs/card_port.h"

namespace tutti::transports::ucx {

/// The network that UCX may use, in its own words.
struct UcxNetwork {
  std::string kind;     // equal on both ends: "rdma-1"; the number is UCX's major version
  std::string methods;  // UCX_TLS
  std::string devices;  // UCX_NET_DEVICES

  bool is_rdma() const { return methods != kTcp; }
  static constexpr const char* kTcp = "tcp";
};

/// RDMA cards; where there is none, and the member forgoes protection, TCP on its interface.
Result<UcxNetwork> choose_network(const transport::Member& member,
                                  const std::string& cards_folder = verbs::kCardsFolder);

class UcxContext {
 public:
  static Result<std::shared_ptr<UcxContext>> create(const api::UcxFunctions& functions,
                                                    UcxNetwork network);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  const api::UcxFunctions& functions() const { return functions_; }
  api::Context* get() const { return context_; }
  const UcxNetwork& network() const { return network_; }
  /// This process has made it. In a forked child nothing of UCX may be touched.
  bool is_own() const;
  /// "UCX cannot WHAT: its own words".
  Status refused(const std::string& what, api::Code code) const;

 private:
  UcxContext(const api::UcxFunctions& functions, UcxNetwork network);

  const api::UcxFunctions& functions_;
  const UcxNetwork network_;
  const pid_t process_;
  api::Context* context_ = nullptr;
};

/// Memory that peers of a context may write to, and how they find it. Whose key is longer than a
/// frame has room for is not there.
using UcxRanges = transport::RegisteredRanges<transport::stream::MemoryKey>;

/// The range is known for as long as what this returns lives. Null: its key is too long.
Result<std::shared_ptr<const void>> register_range(UcxRanges& ranges,
                                                   std::shared_ptr<UcxContext> context,
                                                   void* memory, size_t bytes);

}  // namespace tutti::transports::ucx
