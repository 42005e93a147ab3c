#include <unistd.h>

#include <utility>

#include "tests/software_verbs/objects.h"

namespace tutti::software_verbs {
namespace {

constexpr int kRemoteAccessError = 10, kLocalProtectionError = 4;

bool takes_receive(int operation) {
  return operation == api::kOpSend || operation == api::kOpSendWithImmediate ||
         operation == api::kOpWriteWithImmediate;
}

bool is_write(int operation) {
  return operation == api::kOpWrite || operation == api::kOpWriteWithImmediate;
}

bool is_of(Sends kind, int operation) {
  switch (kind) {
    case Sends::kFrames:
      return operation == api::kOpSend || operation == api::kOpSendWithImmediate;
    case Sends::kSegments:
      return is_write(operation);
    case Sends::kReads:
      return operation == api::kOpRead;
    case Sends::kAll:
      break;
  }
  return true;
}

int card_of(const SoftPair& pair) { return static_cast<const SoftContext*>(pair.context)->card; }

}  // namespace

Machine& machine() {
  static Machine* const only = new Machine;  // links may end after static objects
  return *only;
}

SoftPair* Machine::pair(uint32_t number) {
  const auto found = pairs.find(number);
  return found == pairs.end() ? nullptr : found->second;
}

std::byte* Machine::memory_of(const api::ibv_pd* domain, uint32_t key, uint64_t address,
                              uint64_t bytes) {
  const auto found = registrations.find(key);
  if (found == registrations.end() || found->second->pd != domain) return nullptr;
  const auto begin = reinterpret_cast<uint64_t>(found->second->addr);
  const uint64_t room = found->second->length;
  if (address < begin || address - begin > room || bytes > room - (address - begin)) return nullptr;
  const auto device = devices.find(key);
  if (device != devices.end()) return device->second.view + (address - begin);
  return reinterpret_cast<std::byte*>(address);
}

void Machine::store(uint32_t key, std::byte* target, const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return;
  const auto device = devices.find(key);
  if (late_device_writes && device != devices.end()) {
    device->second.late.push_back({target, bytes});
  } else {
    std::memcpy(target, bytes.data(), bytes.size());
  }
}

void Machine::complete(SoftPair& pair, api::ibv_wc done, bool is_receive) {
  auto& queue = *static_cast<SoftQueue*>(is_receive ? pair.recv_cq : pair.send_cq);
  done.qp_num = pair.qp_num;
  if (queue.found.size() == queue.room) broken_queues = true;  // as a real one that overflows
  queue.found.push_back(done);
  if (!std::exchange(queue.armed, false) || queue.channel == nullptr) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = write(queue.channel->fd, &one, sizeof one);
  ++queue.unacknowledged;
  ++counts.events;
}

void Machine::stop(SoftPair& pair) {
  pair.state = api::kError;
  for (const SoftSend& send : std::exchange(pair.sends, {})) {
    api::ibv_wc done{};
    done.wr_id = send.name;
    done.status = api::kFlushed;
    complete(pair, done, false);
  }
  for (const SoftReceive& receive : std::exchange(pair.receives, {})) {
    api::ibv_wc done{};
    done.wr_id = receive.name;
    done.status = api::kFlushed;
    complete(pair, done, true);
  }
}

void Machine::land(SoftPair& pair) {
  for (const SoftSend& send : std::exchange(pair.late, {})) {
    std::byte* const target = memory_of(pair.pd, send.key, send.address, send.bytes.size());
    if (target != nullptr) store(send.key, target, send.bytes);
  }
}

// kDone, or the status of a failure.
int Machine::attempt(int card, SoftPair& peer, const SoftSend& send) {
  if (send.operation == api::kOpRead) return read(peer, send);
  if (is_write(send.operation)) {
    std::byte* const target = memory_of(peer.pd, send.key, send.address, send.bytes.size());
    if (target == nullptr && !send.bytes.empty()) return kRemoteAccessError;
    if (late_writes && send.operation == api::kOpWrite) {
      peer.late.push_back(send);
    } else {
      store(send.key, target, send.bytes);
    }
    ++counts.writes;
    if (takes_receive(send.operation)) counts.immediate_bytes += send.bytes.size();
    counts.written_bytes += send.bytes.size();
    counts.written_by[card] += send.bytes.size();
  }
  if (!takes_receive(send.operation)) return api::kDone;
  land(peer);
  const SoftReceive receive = peer.receives.front();
  peer.receives.pop_front();
  api::ibv_wc here{};
  here.wr_id = receive.name;
  here.byte_len = static_cast<uint32_t>(send.bytes.size());
  here.imm_data = send.immediate;
  here.wc_flags = send.operation == api::kOpSend ? 0 : api::kHasImmediate;
  here.opcode = is_write(send.operation) ? api::kDidReceiveWrite : api::kDidReceive;
  if (!is_write(send.operation) && !send.bytes.empty()) {
    std::byte* const target =
        memory_of(peer.pd, receive.place.lkey, receive.place.addr, receive.place.length);
    if (target == nullptr || receive.place.length < send.bytes.size()) return kLocalProtectionError;
    std::memcpy(target, send.bytes.data(), send.bytes.size());
  }
  complete(peer, here, true);
  return api::kDone;
}

int Machine::read(SoftPair& peer, const SoftSend& send) {
  const std::byte* const source = memory_of(peer.pd, send.key, send.address, send.length);
  if (source == nullptr) return kRemoteAccessError;
  if (const auto device = devices.find(send.key); device != devices.end()) {
    for (const auto& late : std::exchange(device->second.late, {})) {
      std::memcpy(late.target, late.bytes.data(), late.bytes.size());
    }
  }
  std::memcpy(send.target, source, send.length);
  ++counts.reads;
  counts.read_bytes += send.length;
  return api::kDone;
}

bool Machine::fails_now(const SoftSend& send) {
  return is_of(planted.of, send.operation) && planted.after-- == 0;
}

bool Machine::deliver(SoftPair& pair, const SoftSend& send) {
  SoftPair* const peer = this->pair(pair.peer);
  const bool answers = peer != nullptr && peer->peer == pair.qp_num && !is_cut[card_of(pair)] &&
                       !is_cut[card_of(*peer)] &&
                       (peer->state == api::kReadyToReceive || peer->state == api::kReadyToSend);
  const bool has_room = !answers || !takes_receive(send.operation) || !peer->receives.empty();
  if (!has_room) return false;
  const bool fails = fails_now(send);
  const bool arrives = answers && (!fails || planted.arrives);
  int status = arrives ? attempt(card_of(pair), *peer, send) : api::kRetriesExceeded;
  if (fails) status = planted.status;
  api::ibv_wc done{};
  done.wr_id = send.name;
  done.status = status;
  done.opcode = is_write(send.operation)         ? api::kDidWrite
                : send.operation == api::kOpRead ? api::kDidRead
                                                 : api::kDidSend;
  complete(pair, done, false);
  return true;
}

void Machine::pump(SoftPair& pair) {
  while (pair.state == api::kReadyToSend && !pair.sends.empty()) {
    const SoftSend send = pair.sends.front();
    if (!deliver(pair, send)) {
      ++counts.waits;
      return;
    }
    pair.sends.pop_front();
    const auto& queue = *static_cast<SoftQueue*>(pair.send_cq);
    if (queue.found.back().status != api::kDone && queue.found.back().qp_num == pair.qp_num) {
      stop(pair);
    }
  }
}

void Machine::pump_into(const SoftPair& pair) {
  SoftPair* const sender = this->pair(pair.peer);
  if (sender != nullptr && sender->peer == pair.qp_num) pump(*sender);
}

}  // namespace tutti::software_verbs
