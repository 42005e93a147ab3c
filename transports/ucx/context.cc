#include "transports/ucx/context.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "transports/tcp/socket.h"

namespace tutti::transports::ucx {
namespace {

// This process, once it has used UCX.
// tidy: allow mutable (a fact about the process, which its children must know)
std::atomic<pid_t> user{0};

constexpr unsigned kMajor = 1, kMinor = 13;

std::string host_of(const sockaddr& address) {
  tcp::IpEndpoint endpoint;
  endpoint.bytes = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&endpoint.address, &address, endpoint.bytes);
  return endpoint.host();
}

/// "" where no interface has it.
std::string interface_of(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string name;
  for (const ifaddrs* one = list; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (host_of(*one->ifa_addr) == address) name = one->ifa_name;
  }
  freeifaddrs(list);
  return name;
}

/// A registration of UCX's.
class MappedRange {
 public:
  MappedRange(std::shared_ptr<UcxContext> context, api::MappedMemory* memory)
      : context_(std::move(context)), memory_(memory) {}
  ~MappedRange() {
    if (context_->is_own()) context_->functions().ucp_mem_unmap(context_->get(), memory_);
  }
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

 private:
  const std::shared_ptr<UcxContext> context_;
  api::MappedMemory* const memory_;
};

}  // namespace

Result<UcxNetwork> choose_network(const transport::Member& member,
                                  const std::string& cards_folder) {
  const std::string version = "-" + std::to_string(kMajor);
  const Result<verbs::CardPort> port =
      verbs::choose_port(verbs::list_ports(cards_folder), member.rdma,
                         {member.rank, verbs::own_numa_node(), member.near_cards});
  // UD beside RC: by it UCX connects the others.
  if (port.ok()) return UcxNetwork{"rdma" + version, "ib", port.value().text()};
  if (!member.insecure) {
    return Status::unsupported(std::string(port.status().message()) +
                               "; UCX's own TCP, on which everybody can write to this process's "
                               "memory, is only used with TUTTI_INSECURE=1");
  }
  const std::string name = interface_of(member.bind_address);
  if (name.empty()) {
    return Status::unsupported("no network interface has the address " + member.bind_address +
                               ", on which UCX would use TCP");
  }
  return UcxNetwork{"tcp" + version, UcxNetwork::kTcp, name};
}

UcxContext::UcxContext(const api::UcxFunctions& functions, UcxNetwork network)
    : functions_(functions), network_(std::move(network)), process_(getpid()) {}

Result<std::shared_ptr<UcxContext>> UcxContext::create(const api::UcxFunctions& functions,
                                                       UcxNetwork network) {
  pid_t nobody = 0;
  if (!user.compare_exchange_strong(nobody, getpid()) && nobody != getpid()) {
    return Status::invalid_usage(
        "this process was forked from one that uses UCX, and UCX cannot be used in both: fork "
        "before the first communicator, start another program, or leave ucx out of "
        "TUTTI_TRANSPORTS");
  }
  std::shared_ptr<UcxContext> made(new UcxContext(functions, std::move(network)));
  api::UcpConfig* config = nullptr;
  // Of a prefix that nobody sets: what a program has set for its own use of UCX is not meant.
  if (const api::Code code = functions.ucp_config_read("TUTTI_PINNED", nullptr, &config);
      code != api::kOk) {
    return made->refused("be configured", code);
  }
  const bool rdma = made->network_.is_rdma();
  const std::pair<const char*, const char*> pinned[] = {
      {"TLS", made->network_.methods.c_str()},
      {"NET_DEVICES", made->network_.devices.c_str()},
      {"KEEPALIVE_INTERVAL", "1s"},  // the socket of a link is quicker
      // Frames are copied: over TCP, UCX 1.13 aborts the process where a peer is lost whose bytes
      // it reads from their place.
      {"ZCOPY_THRESH", "12k"},
      // Of cards, 7 is for ever on some of them; of TCP, to connect waits for nobody.
      {rdma ? "RETRY_COUNT" : "CONN_NB", rdma ? "6" : "y"},
  };
  for (const auto& [name, value] : pinned) (void)functions.ucp_config_modify(config, name, value);
  api::ContextParams params;
  params.field_mask = api::ContextParams::kFeatures | api::ContextParams::kSharedByWorkers;
  params.features = api::kFeatureMessages | api::kFeatureRemoteMemory | api::kFeatureWakeup;
  params.mt_workers_shared = 1;
  const api::Code code =
      functions.ucp_init_version(kMajor, kMinor, &params, config, &made->context_);
  functions.ucp_config_release(config);
  if (code != api::kOk) {
    made->context_ = nullptr;
    return made->refused("use " + made->network_.methods + " on " + made->network_.devices, code);
  }
  return made;
}

UcxContext::~UcxContext() {
  if (context_ != nullptr && is_own()) functions_.ucp_cleanup(context_);
}

bool UcxContext::is_own() const { return getpid() == process_; }

Status UcxContext::refused(const std::string& what, api::Code code) const {
  return Status::unsupported("UCX cannot " + what + ": " + functions_.ucs_status_string(code));
}

Result<std::shared_ptr<const void>> register_range(UcxRanges& ranges,
                                                   std::shared_ptr<UcxContext> context,
                                                   void* memory, size_t bytes) {
  const api::UcxFunctions& functions = context->functions();
  api::MapParams params;
  params.field_mask = api::MapParams::kAddress | api::MapParams::kLength;
  params.address = memory;
  params.length = bytes;
  api::MappedMemory* mapped = nullptr;
  if (const api::Code code = functions.ucp_mem_map(context->get(), &params, &mapped);
      code != api::kOk) {
    return Status::system_error("UCX cannot register " + std::to_string(bytes) +
                                " bytes: " + functions.ucs_status_string(code));
  }
  const auto range = std::make_shared<MappedRange>(context, mapped);
  void* packed = nullptr;
  size_t length = 0;
  if (const api::Code code = functions.ucp_rkey_pack(context->get(), mapped, &packed, &length);
      code != api::kOk) {
    return Status::system_error(std::string("UCX gives no key for memory: ") +
                                functions.ucs_status_string(code));
  }
  transport::stream::MemoryKey key;
  const bool fits = length <= transport::stream::MemoryKey::kMaxBytes;
  if (fits) {
    std::memcpy(key.data.data(), packed, length);
    key.bytes = static_cast<uint8_t>(length);
  }
  functions.ucp_rkey_buffer_release(packed);
  if (!fits) return std::shared_ptr<const void>();
  return ranges.add(memory, bytes, key, range);
}

}  // namespace tutti::transports::ucx
