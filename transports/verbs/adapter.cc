#include "transports/verbs/adapter.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "src/base/io.h"
#include "transports/verbs/library.h"

namespace tutti::transports::verbs {
namespace {

GidKind kind_of(const api::ibv_gid& gid) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (gid.words[0] == 0 && gid.words[1] == 0) return GidKind::kNone;
  if (std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0) return GidKind::kIpv4;
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80 ? GidKind::kLinkLocal : GidKind::kIpv6;
}

std::string memory_limit_text() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return " (this process may lock " + std::to_string(limit.rlim_cur >> 10) +
         " KiB of memory in all: raise it by `ulimit -l unlimited`, LimitMEMLOCK=infinity of the "
         "service, or the container's --ulimit memlock=-1)";
}

}  // namespace

Result<std::shared_ptr<Adapter>> Adapter::open(const Equipment& equipment, const CardPort& port,
                                               const RdmaSettings& settings) {
  const api::VerbsFunctions* functions = equipment.functions;
  if (functions == nullptr) {
    const Result<const api::VerbsFunctions*> loaded = load_library();
    if (!loaded.ok()) {
      return Status::unsupported("RDMA card " + port.text() +
                                 " is there, but: " + std::string(loaded.status().message()));
    }
    functions = loaded.value();
  }
  std::shared_ptr<Adapter> made(new Adapter(*functions, port, settings));
  if (Status status = made->open_card(); !status.ok()) return status;
  if (Status status = made->choose_gid(equipment.cards_folder); !status.ok()) return status;
  return made;
}

Status Adapter::open_card() {
  int count = 0;
  api::ibv_device** const devices = functions_->ibv_get_device_list(&count);
  if (devices == nullptr) {
    return Status::unsupported("libibverbs cannot list the RDMA cards: " + errno_text(errno));
  }
  bool found = false;
  for (int i = 0; i < count && !found; ++i) {
    found = port_.card == functions_->ibv_get_device_name(devices[i]);
    errno = 0;
    if (found) context_ = functions_->ibv_open_device(devices[i]);
  }
  const int error = errno;
  functions_->ibv_free_device_list(devices);
  if (!found) {
    return Status::unsupported("libibverbs has no driver for RDMA card " + port_.card +
                               ", or /dev/infiniband is missing in this container (Debian: "
                               "ibverbs-providers)");
  }
  if (context_ == nullptr) {
    return Status::unsupported("RDMA card " + port_.card +
                               " cannot be opened: " + errno_text(error) +
                               " (this user needs to read and write /dev/infiniband/uverbs*)");
  }
  const int flags = fcntl(context_->async_fd, F_GETFL);
  if (flags < 0 || fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return errno_status("fcntl");
  }
  const auto number = static_cast<uint8_t>(port_.port);
  if (const int failed = functions_->ibv_query_port(context_, number, &attributes_); failed != 0) {
    return Status::unsupported("RDMA port " + port_.text() +
                               " cannot be asked for its state: " + errno_text(failed));
  }
  return {};
}

// Only kinds that both ends have can talk, so the best one is taken, whatever its index.
Status Adapter::choose_gid(const std::string& folder) {
  const bool infiniband = attributes_.link_layer == api::kLinkInfiniband;
  const auto number = static_cast<uint8_t>(port_.port);
  const int wish = settings_.gid_index;
  const int first = wish < 0 ? 0 : wish;
  const int end = wish >= 0 || infiniband ? first + 1 : attributes_.gid_tbl_len;
  for (int index = first; index < end; ++index) {
    api::ibv_gid gid{};
    if (functions_->ibv_query_gid(context_, number, index, &gid) != 0) continue;
    if (wish < 0 && !infiniband && !is_roce_2(folder, port_, index)) continue;
    GidKind kind = kind_of(gid);
    if (infiniband && kind != GidKind::kNone) kind = GidKind::kInfiniband;
    if (kind <= gid_kind_) continue;
    gid_kind_ = kind;
    gid_ = gid;
    gid_index_ = index;
  }
  if (gid_kind_ != GidKind::kNone) return {};
  if (wish >= 0) {
    return Status::unsupported("RDMA port " + port_.text() + " has no address (GID) of index " +
                               std::to_string(wish) + " (TUTTI_RDMA_GID_INDEX)");
  }
  return Status::unsupported("RDMA port " + port_.text() +
                             " has no address (GID) of RoCE version 2: give its network interface "
                             "an IP address");
}

Adapter::~Adapter() {
  if (context_ != nullptr) functions_->ibv_close_device(context_);
}

void Adapter::read_events() {
  api::ibv_async_event event{};
  while (functions_->ibv_get_async_event(context_, &event) == 0) {
    const int type = event.event_type;
    const std::string name = functions_->ibv_event_type_str(type);
    const bool of_port = type == api::kEventPortError || type == api::kEventPortActive;
    const bool other_port = of_port && event.element.port_num != port_.port;
    functions_->ibv_ack_async_event(&event);
    if (other_port) continue;
    const MutexLock lock(mutex_);
    if (of_port) port_down_.store(type == api::kEventPortError, std::memory_order_release);
    if (type == api::kEventPortActive) trouble_.clear();
    if (type == api::kEventPortError || type == api::kEventGidChange ||
        type == api::kEventDeviceFatal) {
      trouble_ = "RDMA port " + port_.text() + " has told of itself: " + name;
    }
    if (type == api::kEventDeviceFatal) dead_.store(true, std::memory_order_release);
  }
}

// Of the InfiniBand specification: bits of lanes side by side, and of the rate of each.
double Adapter::bytes_per_ns() const {
  struct Rate {
    uint8_t code;
    double value;
  };
  static constexpr Rate kWidths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  static constexpr Rate kGigabits[] = {{1, 2.5}, {2, 5},   {4, 10},  {8, 10},
                                       {16, 14}, {32, 25}, {64, 50}, {128, 100}};
  constexpr double kBitsOfAByte = 8;
  const auto value_of = [](std::span<const Rate> rates, uint8_t code) {
    const auto found = std::find_if(rates.begin(), rates.end(),
                                    [&](const Rate& rate) { return rate.code == code; });
    return found == rates.end() ? 0 : found->value;
  };
  return value_of(kWidths, attributes_.active_width) *
         value_of(kGigabits, attributes_.active_speed) / kBitsOfAByte;
}

std::string Adapter::trouble() const {
  const MutexLock lock(mutex_);
  return trouble_;
}

Result<std::shared_ptr<Domain>> Domain::create(std::shared_ptr<Adapter> adapter) {
  errno = 0;
  api::ibv_pd* const made = adapter->functions().ibv_alloc_pd(adapter->context());
  if (made == nullptr) {
    return Status::system_error("RDMA card " + adapter->port().card +
                                " gives no protection domain: " + errno_text(errno));
  }
  return std::shared_ptr<Domain>(new Domain(std::move(adapter), made));
}

Domain::~Domain() { adapter_->functions().ibv_dealloc_pd(domain_); }

Result<std::unique_ptr<CardMemory>> CardMemory::create(std::shared_ptr<Domain> domain, void* memory,
                                                       size_t bytes, int access) {
  const Adapter& adapter = domain->adapter();
  errno = 0;
  api::ibv_mr* const made = adapter.functions().ibv_reg_mr(domain->get(), memory, bytes, access);
  if (made == nullptr) {
    const int error = errno;
    return Status::system_error("RDMA card " + adapter.port().card + " cannot register " +
                                std::to_string(bytes) + " bytes: " + errno_text(error) +
                                (error == ENOMEM ? memory_limit_text() : ""));
  }
  return std::unique_ptr<CardMemory>(new CardMemory(std::move(domain), made));
}

Result<std::unique_ptr<CardMemory>> CardMemory::create(std::shared_ptr<Domain> domain,
                                                       const transport::DeviceRange& memory,
                                                       int access) {
  const Adapter& adapter = domain->adapter();
  const std::string who = "RDMA card " + adapter.port().card;
  const auto reg = adapter.functions().ibv_reg_dmabuf_mr;
  if (reg == nullptr) {
    return Status::unsupported(who +
                               " cannot use memory of devices: libibverbs is older than that");
  }
  errno = 0;
  api::ibv_mr* const made =
      reg(domain->get(), memory.offset, memory.bytes, reinterpret_cast<uint64_t>(memory.address),
          memory.descriptor, access);
  if (made == nullptr) {
    const int error = errno;
    const std::string text = who + " cannot register " + std::to_string(memory.bytes) +
                             " bytes of a device: " + errno_text(error);
    const bool cannot = error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
    return cannot ? Status::unsupported(text) : Status::system_error(text);
  }
  return std::unique_ptr<CardMemory>(new CardMemory(std::move(domain), made));
}

CardMemory::~CardMemory() { domain_->adapter().functions().ibv_dereg_mr(registration_); }

}  // namespace tutti::transports::verbs
