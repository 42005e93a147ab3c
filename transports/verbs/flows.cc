#include "transports/verbs/flows.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/io.h"
#include "src/base/little.h"

namespace tutti::transports::verbs {
namespace {

using transport::stream::CarriedWrite;
using transport::stream::PipeEvents;

// Two grants may be on their way on a pair: half of its receives make one.
constexpr uint32_t kReserve = 4;
constexpr uint32_t kGrantAt = DataFlows::kDepth / 2;
constexpr uint32_t kReceives = DataFlows::kDepth + kReserve;

constexpr size_t kMostWaiting = 2 * DataFlows::kPairs * DataFlows::kDepth;  // segments
constexpr uint32_t kNumberMask = (1u << 24) - 1;
constexpr int kCopies = 8;  // segments whose source is not registered
constexpr size_t kKeyBytes = 4;

constexpr int kPairShift = 48;
constexpr uint64_t kReceiveName = uint64_t{1} << 40, kIndexMask = (uint64_t{1} << 32) - 1;

uint32_t read_key(const transport::stream::MemoryKey& key) {
  uint8_t bytes[kKeyBytes] = {};
  std::memcpy(bytes, key.data.data(), std::min<size_t>(key.bytes, kKeyBytes));
  return static_cast<uint32_t>(get_little(bytes, kKeyBytes));
}

Status nonsense() { return Status::remote_error("it wrote what no Tutti writes"); }

}  // namespace

transport::stream::MemoryKey key_of(uint32_t remote) {
  transport::stream::MemoryKey key;
  uint8_t bytes[kKeyBytes];
  put_little(bytes, remote, kKeyBytes);
  std::memcpy(key.data.data(), bytes, kKeyBytes);
  key.bytes = kKeyBytes;
  return key;
}

Result<std::unique_ptr<DataFlows>> DataFlows::create(std::shared_ptr<Domain> domain,
                                                     std::shared_ptr<RegisteredRanges> ranges,
                                                     const Completions& completions) {
  std::unique_ptr<DataFlows> made(new DataFlows(domain, std::move(ranges)));
  for (size_t flow = 0; flow < kPairs; ++flow) {
    const uint32_t sends = kDepth + kReserve;
    auto pair = QueuePair::create(domain, completions, {sends, kReceives, 0});
    if (!pair.ok()) return pair.status();
    made->flows_.emplace_back().pair = std::move(pair).value();
    for (uint32_t i = 0; i < kReceives; ++i) {
      if (Status status = made->post_receive(flow); !status.ok()) return status;
    }
  }
  made->sent_.resize(kPairs * kDepth);
  for (uint32_t i = 0; i < made->sent_.size(); ++i) made->free_sent_.push_back(i);
  return made;
}

DataFlows::~DataFlows() {
  flows_.clear();
  copies_registration_.reset();
  if (copies_ != nullptr) munmap(copies_, size_t{kCopies} * kSegmentBytes);
}

std::vector<QueuePairEnd> DataFlows::ends() const {
  std::vector<QueuePairEnd> ends;
  for (const DataFlow& flow : flows_) ends.push_back(flow.pair->end());
  return ends;
}

Status DataFlows::connect(const PortEnd& port, std::span<const QueuePairEnd> peers) {
  if (peers.size() != flows_.size()) {
    return Status::remote_error("the peer has another number of queue pairs");
  }
  for (size_t i = 0; i < flows_.size(); ++i) {
    if (Status status = flows_[i].pair->connect(port, peers[i]); !status.ok()) return status;
  }
  return {};
}

// ---- out ----------------------------------------------------------------------------------------

bool DataFlows::write(const CarriedWrite& carried) {
  if (stopped_ || waiting_.size() >= kMostWaiting) return false;
  uint64_t target = carried.write.place.address;
  OpenWrite open{carried.write.name, 0, 0};
  const uint32_t remote = read_key(carried.write.place.key);
  for (const iovec& piece : carried.source) {
    const auto* source = static_cast<const std::byte*>(piece.iov_base);
    for (size_t at = 0; at < piece.iov_len; at += kSegmentBytes) {
      const auto bytes = static_cast<uint32_t>(std::min<size_t>(kSegmentBytes, piece.iov_len - at));
      waiting_.push_back({source + at, bytes, target, remote, carried.write.number});
      target += bytes;
      ++open.segments;
    }
  }
  open.left = open.segments;
  open_[carried.write.number] = open;
  return true;
}

DataFlows::DataFlow* DataFlows::best_flow() {
  DataFlow* best = nullptr;
  for (DataFlow& flow : flows_) {
    if (flow.credit == 0 || flow.segments >= kDepth) continue;
    if (best == nullptr || flow.bytes < best->bytes) best = &flow;
  }
  return best;
}

Status DataFlows::pump() {
  while (!stopped_ && !waiting_.empty() && !free_sent_.empty()) {
    DataFlow* const flow = best_flow();
    if (flow == nullptr) return {};
    bool posted = false;
    if (Status status = post(*flow, waiting_.front(), posted); !status.ok()) return status;
    if (!posted) return {};
    waiting_.pop_front();
  }
  return {};
}

Status DataFlows::post(DataFlow& flow, const WriteSegment& segment, bool& posted) {
  api::ibv_sge piece{};
  int copy = kNoCopy;
  const Result<bool> found = find_source(segment, piece, copy);
  if (!found.ok()) return found.status();
  if (!found.value()) return {};
  const uint32_t index = free_sent_.back();
  const auto number_of_flow = static_cast<uint64_t>(&flow - flows_.data());
  api::ibv_send_wr work{};
  work.wr_id = (number_of_flow + 1) << kPairShift | index;
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = api::kOpWriteWithImmediate;
  work.send_flags = api::kSendSignaled;
  work.imm_data = htonl(segment.number & kNumberMask);
  work.rdma.remote_addr = segment.target;
  work.rdma.rkey = segment.key;
  if (Status status = flow.pair->send(work); !status.ok()) return status;
  free_sent_.pop_back();
  sent_[index] = {segment.number, segment.bytes, copy};
  if (copy != kNoCopy) free_copies_.pop_back();
  --flow.credit;
  ++flow.segments;
  flow.bytes += segment.bytes;
  posted = true;
  return {};
}

// False: it has to be copied, and there is no room now.
Result<bool> DataFlows::find_source(const WriteSegment& segment, api::ibv_sge& piece, int& copy) {
  const std::byte* source = segment.source;
  uint32_t key = 0;
  if (const auto keys = ranges_->find(source, segment.bytes)) {
    key = keys->local;
  } else {
    if (Status status = prepare_copies(); !status.ok()) return status;
    if (free_copies_.empty()) return false;
    copy = free_copies_.back();
    std::byte* const target = copies_ + static_cast<size_t>(copy) * kSegmentBytes;
    std::memcpy(target, source, segment.bytes);
    source = target;
    key = copies_registration_->local_key();
  }
  piece = {reinterpret_cast<uint64_t>(source), segment.bytes, key};
  return true;
}

Status DataFlows::prepare_copies() {
  if (copies_ != nullptr) return {};
  constexpr size_t kBytes = size_t{kCopies} * kSegmentBytes;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status("mmap");
  copies_ = static_cast<std::byte*>(memory);
  auto made = CardMemory::create(domain_, memory, kBytes, api::kAccessLocalWrite);
  if (!made.ok()) return made.status();
  copies_registration_ = std::move(made).value();
  for (int copy = 0; copy < kCopies; ++copy) free_copies_.push_back(copy);
  return {};
}

// ---- completions --------------------------------------------------------------------------------

Status DataFlows::post_receive(size_t flow) {
  api::ibv_recv_wr work{};  // without memory: the immediate value is all there is
  work.wr_id = static_cast<uint64_t>(flow + 1) << kPairShift | kReceiveName;
  return flows_[flow].pair->receive(work);
}

Status DataFlows::grant(size_t flow) {
  api::ibv_send_wr work{};
  work.wr_id = static_cast<uint64_t>(flow + 1) << kPairShift | kIndexMask;
  work.opcode = api::kOpSendWithImmediate;
  work.send_flags = api::kSendSignaled;
  work.imm_data = htonl(std::exchange(flows_[flow].owed, 0));
  return flows_[flow].pair->send(work);
}

Status DataFlows::complete(const api::ibv_wc& found, PipeEvents& events) {
  const size_t flow = (found.wr_id >> kPairShift) - 1;
  if (flow >= flows_.size() || stopped_) return {};
  if ((found.wr_id & kReceiveName) != 0) return receive(flow, found, events);
  const uint64_t index = found.wr_id & kIndexMask;
  if (index == kIndexMask) return {};  // a grant is out
  const SentSegment done = sent_[index];
  free_sent_.push_back(static_cast<uint32_t>(index));
  if (done.copy != kNoCopy) free_copies_.push_back(done.copy);
  --flows_[flow].segments;
  flows_[flow].bytes -= done.bytes;
  const auto open = open_.find(done.number);
  if (open == open_.end() || --open->second.left > 0) return {};
  const OpenWrite whole = open->second;
  open_.erase(open);
  events.written(whole.name, whole.segments);
  return {};
}

Status DataFlows::receive(size_t flow, const api::ibv_wc& found, PipeEvents& events) {
  DataFlow& here = flows_[flow];
  const uint32_t immediate = ntohl(found.imm_data);
  if (found.opcode == api::kDidReceiveWrite) {
    events.arrived(immediate & kNumberMask, 1);
    ++here.owed;
  } else {
    here.credit += immediate;
    if (here.credit > kDepth) return nonsense();
  }
  if (Status status = post_receive(flow); !status.ok()) return status;
  return here.owed >= kGrantAt ? grant(flow) : Status();
}

void DataFlows::stop() {
  stopped_ = true;
  waiting_.clear();
  flows_.clear();  // what a card still does for a pair ends with it
}

}  // namespace tutti::transports::verbs
