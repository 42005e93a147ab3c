// The objects of the software cards: what stands behind the library's structures.
//
// Threads: under Machine::mutex.
#pragma once

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/software_verbs/software_verbs.h"
#include "transports/verbs/functions.h"

namespace tutti::software_verbs {

namespace api = transports::verbs::api;

struct SoftContext : api::ibv_context {
  int card = 0;
  std::deque<api::ibv_async_event> events;
};

struct SoftChannel : api::ibv_comp_channel {};  // its descriptor counts the events to be read

struct SoftQueue : api::ibv_cq {
  SoftChannel* channel = nullptr;
  size_t room = 0;
  bool armed = false;
  unsigned unacknowledged = 0;
  std::deque<api::ibv_wc> found;
};

struct SoftSend {
  uint64_t name = 0;
  int operation = 0;
  uint32_t immediate = 0;
  uint64_t address = 0;
  uint32_t key = 0;
  std::vector<std::byte> bytes;
  std::byte* target = nullptr;  // of a read
  uint32_t length = 0;          // likewise
};

struct SoftReceive {
  uint64_t name = 0;
  api::ibv_sge place{};
};

struct SoftPair : api::ibv_qp {
  int state = api::kReset;
  uint32_t peer = 0;
  api::ibv_qp_cap room{};
  std::deque<SoftSend> sends;
  std::deque<SoftReceive> receives;
  std::deque<SoftSend> late;  // writes that are here, and not in memory
};

/// Memory of a device as the card sees it, and what has been written and is not there yet.
struct SoftDeviceMemory {
  std::byte* view = nullptr;
  size_t bytes = 0;
  struct LateWrite {
    std::byte* target;
    std::vector<std::byte> bytes;
  };
  std::vector<LateWrite> late;
};

struct Machine {
  std::mutex mutex;
  std::vector<SoftContext*> contexts;
  std::map<uint32_t, SoftPair*> pairs;
  std::map<uint32_t, api::ibv_mr*> registrations;  // by both keys, which are the same
  std::map<uint32_t, SoftDeviceMemory> devices;    // of registrations, by the same
  uint32_t last_number = 0x100;
  CardCounts counts;
  PlantedFailure planted{~uint64_t{0}, 0, true, Sends::kAll};
  bool is_cut[kMostCards] = {};
  int registration_error = 0;
  int opening_error = 0;
  bool broken_queues = false;
  bool late_writes = false;
  bool device_memory = true;
  bool late_device_writes = false;

  SoftPair* pair(uint32_t number);
  /// The memory, if the key allows it in this domain.
  std::byte* memory_of(const api::ibv_pd* domain, uint32_t key, uint64_t address, uint64_t bytes);
  void complete(SoftPair& pair, api::ibv_wc done, bool is_receive);
  void stop(SoftPair& pair);
  /// All that this pair has been brought is in memory.
  void land(SoftPair& pair);
  /// Into memory of that key.
  void store(uint32_t key, std::byte* target, const std::vector<std::byte>& bytes);
  /// Sends what can be sent on this pair.
  void pump(SoftPair& pair);
  /// And on those whose other end it is.
  void pump_into(const SoftPair& pair);

 private:
  bool deliver(SoftPair& pair, const SoftSend& send);
  bool fails_now(const SoftSend& send);
  int read(SoftPair& peer, const SoftSend& send);
  int attempt(int card, SoftPair& peer, const SoftSend& send);
};

Machine& machine();

}  // namespace tutti::software_verbs
