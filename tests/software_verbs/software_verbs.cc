#include "tests/software_verbs/software_verbs.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/software_verbs/objects.h"
#include "transports/verbs/verbs.h"

namespace tutti::software_verbs {
namespace {

constexpr const char* kNames[kMostCards] = {"soft0", "soft1", "soft2", "soft3"};
constexpr uint8_t kPort = 1;
constexpr int kAddresses = 2, kMtu4096 = 5;

using Lock = std::lock_guard<std::mutex>;

// ---- the card and its context -------------------------------------------------------------------

api::ibv_device** get_device_list(int* count) {
  // The address of a card's name is its device.
  static api::ibv_device* list[kMostCards + 1] = {};
  for (int card = 0; card < kMostCards; ++card) {
    list[card] = reinterpret_cast<api::ibv_device*>(const_cast<const char**>(&kNames[card]));
  }
  *count = kMostCards;
  return list;
}
void free_device_list(api::ibv_device**) {}
const char* get_device_name(api::ibv_device* device) {
  return *reinterpret_cast<const char* const*>(device);
}

int close_device(api::ibv_context* context) {
  const Lock lock(machine().mutex);
  std::erase(machine().contexts, static_cast<SoftContext*>(context));
  --machine().counts.objects;
  close(context->async_fd);
  delete static_cast<SoftContext*>(context);
  return 0;
}

int query_port(api::ibv_context*, uint8_t port, api::ibv_port_attr* attributes) {
  if (port != kPort) return EINVAL;
  *attributes = {};
  attributes->state = api::kPortActive;
  attributes->active_mtu = attributes->max_mtu = kMtu4096;
  attributes->gid_tbl_len = kAddresses + 1;
  attributes->link_layer = api::kLinkEthernet;
  return 0;
}

int query_gid(api::ibv_context*, uint8_t, int index, api::ibv_gid* gid) {
  *gid = {};
  if (index >= kAddresses) return -1;
  static constexpr uint8_t kIpv6[16] = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  static constexpr uint8_t kIpv4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
  std::memcpy(gid->raw, index == 0 ? kIpv6 : kIpv4, sizeof gid->raw);
  return 0;
}

int get_async_event(api::ibv_context* context, api::ibv_async_event* event) {
  const Lock lock(machine().mutex);
  auto& events = static_cast<SoftContext*>(context)->events;
  if (events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *event = events.front();
  events.pop_front();
  uint64_t one = 0;
  return read(context->async_fd, &one, sizeof one) == sizeof one ? 0 : -1;
}
void ack_async_event(api::ibv_async_event*) {}
const char* event_type_str(int type) {
  return type == api::kEventPortError ? "port error" : "another event";
}
const char* wc_status_str(int status) {
  return status == api::kRetriesExceeded ? "transport retry counter exceeded" : "another status";
}
int fork_init() { return 0; }

// ---- domains and memory -------------------------------------------------------------------------

api::ibv_pd* alloc_pd(api::ibv_context* context) {
  const Lock lock(machine().mutex);
  ++machine().counts.objects;
  return new api::ibv_pd{context};
}
int dealloc_pd(api::ibv_pd* domain) {
  const Lock lock(machine().mutex);
  --machine().counts.objects;
  delete domain;
  return 0;
}

api::ibv_mr* reg_mr(api::ibv_pd* domain, void* memory, size_t bytes, int) {
  const Lock lock(machine().mutex);
  if (machine().registration_error != 0) {
    errno = machine().registration_error;
    return nullptr;
  }
  const uint32_t key = ++machine().last_number;
  auto* const made = new api::ibv_mr{domain->context, domain, memory, bytes, key, key, key};
  machine().registrations[key] = made;
  ++machine().counts.objects;
  return made;
}
extern "C" {
/// Any descriptor that can be mapped stands for a dmabuf.
static api::ibv_mr* reg_dmabuf_mr(api::ibv_pd* domain, uint64_t offset, size_t bytes,
                                  uint64_t address, int descriptor, int access) {
  void* const view = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                          static_cast<off_t>(offset));
  const int error = view == MAP_FAILED ? errno : machine().device_memory ? 0 : EOPNOTSUPP;
  api::ibv_mr* const made =
      error == 0 ? reg_mr(domain, reinterpret_cast<void*>(address), bytes, access) : nullptr;
  if (made == nullptr) {
    if (view != MAP_FAILED) munmap(view, bytes);
    if (error != 0) errno = error;
    return nullptr;
  }
  const Lock lock(machine().mutex);
  machine().devices[made->lkey] = {static_cast<std::byte*>(view), bytes, {}};
  return made;
}
}
int dereg_mr(api::ibv_mr* registration) {
  const Lock lock(machine().mutex);
  if (const auto device = machine().devices.find(registration->lkey);
      device != machine().devices.end()) {
    munmap(device->second.view, device->second.bytes);
    machine().devices.erase(device);
  }
  machine().registrations.erase(registration->lkey);
  --machine().counts.objects;
  delete registration;
  return 0;
}

// ---- completions --------------------------------------------------------------------------------

api::ibv_comp_channel* create_comp_channel(api::ibv_context* context) {
  const Lock lock(machine().mutex);
  ++machine().counts.objects;
  auto* const made = new SoftChannel;
  made->context = context;
  made->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return made;
}
int destroy_comp_channel(api::ibv_comp_channel* channel) {
  const Lock lock(machine().mutex);
  --machine().counts.objects;
  close(channel->fd);
  delete static_cast<SoftChannel*>(channel);
  return 0;
}

api::ibv_cq* create_cq(api::ibv_context* context, int entries, void*,
                       api::ibv_comp_channel* channel, int) {
  const Lock lock(machine().mutex);
  ++machine().counts.objects;
  auto* const made = new SoftQueue;
  made->context = context;
  made->channel = static_cast<SoftChannel*>(channel);
  made->room = static_cast<size_t>(entries);
  return made;
}
int destroy_cq(api::ibv_cq* queue) {
  const Lock lock(machine().mutex);
  --machine().counts.objects;
  delete static_cast<SoftQueue*>(queue);
  return 0;
}

int get_cq_event(api::ibv_comp_channel* channel, api::ibv_cq**, void**) {
  uint64_t one = 0;
  return read(channel->fd, &one, sizeof one) == sizeof one ? 0 : -1;
}
void ack_cq_events(api::ibv_cq* queue, unsigned count) {
  const Lock lock(machine().mutex);
  static_cast<SoftQueue*>(queue)->unacknowledged -= count;
}

int poll_cq(api::ibv_cq* queue, int room, api::ibv_wc* found) {
  const Lock lock(machine().mutex);
  if (machine().broken_queues) return -1;
  auto& here = static_cast<SoftQueue*>(queue)->found;
  int count = 0;
  for (; count < room && !here.empty(); ++count) {
    found[count] = here.front();
    here.pop_front();
  }
  return count;
}
int req_notify_cq(api::ibv_cq* queue, int) {
  const Lock lock(machine().mutex);
  static_cast<SoftQueue*>(queue)->armed = true;
  return 0;
}

// ---- queue pairs --------------------------------------------------------------------------------

api::ibv_qp* create_qp(api::ibv_pd* domain, api::ibv_qp_init_attr* wish) {
  const Lock lock(machine().mutex);
  auto* const made = new SoftPair;
  made->context = domain->context;
  made->pd = domain;
  made->send_cq = wish->send_cq;
  made->recv_cq = wish->recv_cq;
  made->room = wish->cap;
  made->qp_num = ++machine().last_number;
  machine().pairs[made->qp_num] = made;
  ++machine().counts.objects;
  return made;
}

int modify_qp(api::ibv_qp* pair, api::ibv_qp_attr* wish, int) {
  const Lock lock(machine().mutex);
  SoftPair& soft = *static_cast<SoftPair*>(pair);
  const bool follows = wish->qp_state == soft.state + 1 || wish->qp_state == api::kError;
  if (!follows) return EINVAL;
  if (wish->qp_state == api::kError) {
    machine().stop(soft);
    return 0;
  }
  soft.state = wish->qp_state;
  if (soft.state == api::kReadyToReceive) soft.peer = wish->dest_qp_num;
  return 0;
}

int destroy_qp(api::ibv_qp* pair) {
  const Lock lock(machine().mutex);
  SoftPair* const soft = static_cast<SoftPair*>(pair);
  for (api::ibv_cq* queue : {soft->send_cq, soft->recv_cq}) {
    auto& found = static_cast<SoftQueue*>(queue)->found;
    std::erase_if(found, [&](const api::ibv_wc& one) { return one.qp_num == soft->qp_num; });
  }
  machine().land(*soft);
  machine().pairs.erase(soft->qp_num);
  machine().pump_into(*soft);
  --machine().counts.objects;
  delete soft;
  return 0;
}

int post_send(api::ibv_qp* pair, api::ibv_send_wr* work, api::ibv_send_wr** bad) {
  const Lock lock(machine().mutex);
  SoftPair& soft = *static_cast<SoftPair*>(pair);
  *bad = work;
  if (soft.state < api::kReadyToSend) return EINVAL;
  if (soft.sends.size() >= soft.room.max_send_wr) return ENOMEM;
  SoftSend send{work->wr_id,     work->opcode, work->imm_data, work->rdma.remote_addr,
                work->rdma.rkey, {},           nullptr,        0};
  for (int i = 0; i < work->num_sge; ++i) {
    const api::ibv_sge& piece = work->sg_list[i];
    const auto* data = reinterpret_cast<const std::byte*>(piece.addr);
    const bool is_inline = (work->send_flags & api::kSendInline) != 0;
    if (!is_inline) data = machine().memory_of(soft.pd, piece.lkey, piece.addr, piece.length);
    if (data == nullptr) return EFAULT;
    if (work->opcode == api::kOpRead) {
      send.target = const_cast<std::byte*>(data);
      send.length = piece.length;
      continue;
    }
    send.bytes.insert(send.bytes.end(), data, data + piece.length);
  }
  ++machine().counts.sends;
  soft.sends.push_back(std::move(send));
  if (soft.state == api::kError) {
    machine().stop(soft);
  } else {
    machine().pump(soft);
  }
  return 0;
}

int post_recv(api::ibv_qp* pair, api::ibv_recv_wr* work, api::ibv_recv_wr** bad) {
  const Lock lock(machine().mutex);
  SoftPair& soft = *static_cast<SoftPair*>(pair);
  *bad = work;
  if (soft.state == api::kReset) return EINVAL;
  if (soft.receives.size() >= soft.room.max_recv_wr) return ENOMEM;
  soft.receives.push_back({work->wr_id, work->num_sge > 0 ? *work->sg_list : api::ibv_sge{}});
  if (soft.state == api::kError) {
    machine().stop(soft);
  } else {
    machine().pump_into(soft);
  }
  return 0;
}

api::ibv_context* open_device(api::ibv_device* device) {
  const Lock lock(machine().mutex);
  if (machine().opening_error != 0) {
    errno = machine().opening_error;
    return nullptr;
  }
  auto* const made = new SoftContext;
  made->device = device;
  made->card = static_cast<int>(reinterpret_cast<const char* const*>(device) - kNames);
  made->ops = {};
  made->ops.poll_cq = poll_cq;
  made->ops.req_notify_cq = req_notify_cq;
  made->ops.post_send = post_send;
  made->ops.post_recv = post_recv;
  made->cmd_fd = -1;
  made->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  machine().contexts.push_back(made);
  ++machine().counts.objects;
  return made;
}

const api::VerbsFunctions& functions() {
  static const api::VerbsFunctions table = {
      get_device_list, free_device_list, get_device_name, open_device,         close_device,
      query_port,      query_gid,        get_async_event, ack_async_event,     alloc_pd,
      dealloc_pd,      reg_mr,           dereg_mr,        create_comp_channel, destroy_comp_channel,
      create_cq,       destroy_cq,       get_cq_event,    ack_cq_events,       create_qp,
      modify_qp,       destroy_qp,       wc_status_str,   event_type_str,      fork_init,
      reg_dmabuf_mr};
  return table;
}

// ---- its folder ---------------------------------------------------------------------------------

/// As /sys/class/infiniband has it.
class CardsFolder {
 public:
  explicit CardsFolder(int cards) {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-cards-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    for (int card = 0; card < cards; ++card) {
      const std::string name = kNames[card];
      write(name + "/device/numa_node", "0");
      write(name + "/ports/1/state", "4: ACTIVE");
      for (int i = 0; i < kAddresses; ++i) {
        write(name + "/ports/1/gid_attrs/types/" + std::to_string(i), "RoCE v2");
      }
    }
  }
  ~CardsFolder() {
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }
  const std::string& text() const { return folder_; }

 private:
  void write(const std::string& file, const std::string& line) const {
    const std::filesystem::path place = std::filesystem::path(folder_) / file;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << line << "\n";
  }

  std::string folder_;
};

}  // namespace

transports::verbs::Equipment equipment(int cards) {
  static const CardsFolder one(1), all(kMostCards);
  return {&functions(), (cards == 1 ? one : all).text()};
}

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  return transports::verbs::make_with(member, equipment());
}

Result<std::unique_ptr<transport::Transport>> make_with_four(const transport::Member& member) {
  return transports::verbs::make_with(member, equipment(kMostCards));
}

CardCounts counts() {
  const Lock lock(machine().mutex);
  return machine().counts;
}

void plant(const PlantedFailure& failure) {
  const Lock lock(machine().mutex);
  machine().planted = failure;
}

void cut(int card, bool is_cut) {
  const Lock lock(machine().mutex);
  machine().is_cut[card] = is_cut;
}

void tell(int event_type, int port, int card) {
  const Lock lock(machine().mutex);
  for (SoftContext* context : machine().contexts) {
    if (card >= 0 && context->card != card) continue;
    api::ibv_async_event event{};
    event.event_type = event_type;
    event.element.port_num = port;
    context->events.push_back(event);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t count = write(context->async_fd, &one, sizeof one);
  }
}

void plant_registration_error(int error) {
  const Lock lock(machine().mutex);
  machine().registration_error = error;
}

void plant_opening_error(int error) {
  const Lock lock(machine().mutex);
  machine().opening_error = error;
}

void plant_device_memory(bool can) {
  const Lock lock(machine().mutex);
  machine().device_memory = can;
}

void plant_late_device_writes(bool late) {
  const Lock lock(machine().mutex);
  machine().late_device_writes = late;
}

void plant_late_writes(bool late) {
  const Lock lock(machine().mutex);
  machine().late_writes = late;
}

void plant_broken_queues(bool broken) {
  const Lock lock(machine().mutex);
  machine().broken_queues = broken;
}

}  // namespace tutti::software_verbs
