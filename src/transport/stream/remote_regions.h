// The regions of a peer that a transport reaches by itself, and which puts to them it may not
// overtake: those that went as frames take effect when the peer's processor moves, and a read of
// the same region by the transport might see the bytes from before.
//
// Owns:    nothing. Threads: under the stream's mutex. Units: bytes. Errors: none.
// Memory:  one entry for each region that the peer has told of, or that this side has put to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "src/transport/stream/frame.h"

namespace tutti::transport::stream {

class RemoteRegions {
 public:
  using Id = transport::ChannelId;

  void learn(const Id& id, uint64_t bytes, const KeyedPlace& place) { known_[id] = {place, bytes}; }
  void forget(const Id& id);
  void forget(const transport::EpochId& epoch);
  size_t size() const { return known_.size(); }

  /// Where these bytes of it lie. Nothing: nobody knows, or they reach beyond its end.
  std::optional<KeyedPlace> find(const Id& id, uint64_t offset, uint64_t bytes) const;

  /// A put to it goes as frames.
  void note_put(const Id& id) { late_[id].is_put = true; }
  /// A get goes as a frame behind these. True: its answer proves that they have taken effect.
  bool note_get(const Id& id);
  /// The answer to such a get has come.
  void note_answer(const Id& id);
  /// A read sees all puts of this side.
  bool is_settled(const Id& id) const { return !late_.contains(id); }

 private:
  struct KnownRegion {
    KeyedPlace place;
    uint64_t bytes = 0;
  };
  struct LatePuts {
    bool is_put = false;  // since the last get that was asked
    uint32_t gets = 0;    // that have no answer
  };

  std::map<Id, KnownRegion> known_;
  std::map<Id, LatePuts> late_;
};

}  // namespace tutti::transport::stream
