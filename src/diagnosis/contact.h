// How the diagnosis of slow and failed calls reaches the other ranks of a group: by words in memory
// that the ranks of a host map, and by notes of streams and states of links for all others.
//
// Owns: nothing. Ordering: a rank stores `failed` and `waiting` behind what they are about.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/diagnosis/described_call.h"
#include "src/transport/transport.h"

namespace tutti::diagnosis {

/// So many signatures of its last calls a rank keeps for peers that are behind it.
inline constexpr uint32_t kRecentCalls = 4096;

/// The words by which a rank tells the ranks of its host about itself.
struct RankWords {
  std::atomic<uint64_t>* call = nullptr;      // number << 32 | signature, from its begin on
  std::atomic<uint64_t>* failed = nullptr;    // a Loss: this rank has given up
  std::atomic<uint64_t>* waiting = nullptr;   // in a long wait: call number << 32 | the peer
  std::atomic<uint64_t>* awake_ns = nullptr;  // when it last said so; 0: it does not wait
  std::atomic<uint64_t>* lost = nullptr;      // a Loss that ranks of its host tell it
  std::atomic<uint64_t>* recent = nullptr;    // kRecentCalls words like `call`, by number
  CallLog::Run* log = nullptr;                // what its calls were

  /// False: the rank is on another host.
  bool valid() const { return call != nullptr; }
  std::atomic<uint64_t>& recent_call(uint32_t number) const {
    return recent[number % kRecentCalls];
  }
};

/// One rank as this rank reaches it; itself only by words.
struct Contact {
  RankWords words;
  transport::Stream* stream = nullptr;
  transport::Link* link = nullptr;
};

}  // namespace tutti::diagnosis
