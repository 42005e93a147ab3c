#include "transports/verbs/device_memory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "transports/verbs/queue_pair.h"

namespace tutti::transports::verbs {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kReadBytes = 8;

/// Of one port.
struct FlushPath {
  std::unique_ptr<Completions> completions;
  std::unique_ptr<QueuePair> pair;
  bool is_reading = false;
};

Result<FlushPath> open_path(const std::shared_ptr<Domain>& domain) {
  constexpr int kReads = 1;
  FlushPath path;
  auto completions = Completions::create(domain, 2 * kReads);
  if (!completions.ok()) return completions.status();
  path.completions = std::move(completions).value();
  auto pair = QueuePair::create(domain, *path.completions, {kReads, kReads, 0});
  if (!pair.ok()) return pair.status();
  path.pair = std::move(pair).value();
  const Status status = path.pair->connect(end_of(domain->adapter()), path.pair->end());
  if (!status.ok()) return status;
  return path;
}

class AnnouncedDevice final : public transport::DeviceAnnouncement {
 public:
  static Result<std::shared_ptr<transport::DeviceAnnouncement>> create(
      RegisteredRanges& ranges, const Domains& domains, const transport::DeviceRange& memory) {
    auto made = std::make_shared<AnnouncedDevice>();
    auto registration = RailMemory::create(
        domains, memory, api::kAccessLocalWrite | api::kAccessRemoteWrite | api::kAccessRemoteRead);
    if (!registration.ok()) return registration.status();
    const std::shared_ptr<const RailMemory> shared = std::move(registration).value();
    made->keys_ = shared->keys();
    made->address_ = reinterpret_cast<uint64_t>(memory.address);
    made->read_bytes_ = static_cast<uint32_t>(std::min(kReadBytes, memory.bytes));
    auto scratch = CardPages::create(domains, kPageBytes);
    if (!scratch.ok()) return scratch.status();
    made->scratch_ = std::move(scratch).value();
    for (const std::shared_ptr<Domain>& domain : domains) {
      auto path = open_path(domain);
      if (!path.ok()) return path.status();
      made->paths_.push_back(std::move(path).value());
    }
    made->known_ = ranges.add(memory.address, memory.bytes, made->keys_, shared);
    return std::shared_ptr<transport::DeviceAnnouncement>(std::move(made));
  }

  // Whatever has been received so far has come before a read that is posted now, and not before
  // one that is under way.
  Status begin_flush() override {
    wanted_ = true;
    return read_all();
  }

  Result<bool> is_flushed() override {
    for (FlushPath& path : paths_) {
      const auto found = path.completions->take();
      if (!found.ok()) return found.status();
      for (const api::ibv_wc& done : found.value()) {
        if (done.status != api::kDone) return failed(done);
        path.is_reading = false;
      }
    }
    if (is_reading()) return false;
    if (!wanted_) return true;
    if (Status status = read_all(); !status.ok()) return status;
    return false;
  }

 private:
  bool is_reading() const {
    return std::any_of(paths_.begin(), paths_.end(),
                       [](const FlushPath& path) { return path.is_reading; });
  }

  Status read_all() {
    if (is_reading()) return {};
    wanted_ = false;
    for (size_t rail = 0; rail < paths_.size(); ++rail) {
      api::ibv_sge piece{reinterpret_cast<uint64_t>(scratch_->data()), read_bytes_,
                         scratch_->local_key(rail)};
      api::ibv_send_wr work{};
      work.sg_list = &piece;
      work.num_sge = 1;
      work.opcode = api::kOpRead;
      work.send_flags = api::kSendSignaled;
      work.rdma.remote_addr = address_;
      work.rdma.rkey = keys_.remote[rail];
      if (Status status = paths_[rail].pair->send(work); !status.ok()) return status;
      paths_[rail].is_reading = true;
    }
    return {};
  }

  static Status failed(const api::ibv_wc& done) {
    return Status::system_error(
        "an RDMA card cannot read the device's memory that it has written "
        "to (status " +
        std::to_string(done.status) + ")");
  }

  RangeKeys keys_;
  uint64_t address_ = 0;
  uint32_t read_bytes_ = 0;
  std::unique_ptr<CardPages> scratch_;
  std::vector<FlushPath> paths_;  // by port
  std::shared_ptr<const void> known_;
  bool wanted_ = false;  // a flush that begins when the one under way is over
};

}  // namespace

Result<std::shared_ptr<transport::DeviceAnnouncement>> announce_device_memory(
    RegisteredRanges& ranges, const Domains& domains, const transport::DeviceRange& memory) {
  return AnnouncedDevice::create(ranges, domains, memory);
}

}  // namespace tutti::transports::verbs
