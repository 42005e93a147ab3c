// How the diagnosis of slow and failed calls reaches the other ranks of a group: ranks of this host
// by words in memory that they map, all others by notes of streams and by the states of links.
//
// Owns: nothing. Ordering: a rank stores `failed` and `waiting` after the state that they announce.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/diagnosis/described_call.h"
#include "src/transport/transport.h"

namespace tutti::diagnosis {

/// How many signatures of its last calls a rank keeps, for peers that are behind it.
inline constexpr uint32_t kRecentCalls = 4096;

/// The words by which a rank tells the ranks of its host about itself.
struct RankWords {
  std::atomic<uint64_t>* call = nullptr;      // number << 32 | signature, from its begin on
  std::atomic<uint64_t>* failed = nullptr;    // a Loss: this rank has given up
  std::atomic<uint64_t>* waiting = nullptr;   // call number << 32 | the peer that it waits for
  std::atomic<uint64_t>* awake_ns = nullptr;  // when it last stored `waiting`; 0: it does not wait
  std::atomic<uint64_t>* lost = nullptr;      // a Loss, stored by other ranks of its host
  std::atomic<uint64_t>* recent = nullptr;    // kRecentCalls words like `call`, by number
  CallLog::Run* log = nullptr;                // the descriptions of its calls

  /// False: the rank is on another host.
  bool valid() const { return call != nullptr; }
  std::atomic<uint64_t>& recent_call(uint32_t number) const {
    return recent[number % kRecentCalls];
  }
};

/// The ways by which this rank reaches one rank of the group; it reaches itself only by words.
struct Contact {
  RankWords words;
  transport::Stream* stream = nullptr;
  transport::Link* link = nullptr;
};

}  // namespace tutti::diagnosis
