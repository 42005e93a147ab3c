// One-sided access of one link: the regions that the peer may use here, this side's gets that wait
// for their answers, and which regions of the peer are gone. The bytes are moved by Inbound and
// Outbound.
//
// Every frame of the peer is judged here before a byte is stored. Owns: gets without an answer; the
// memory of regions is the caller's until withdraw(). Threads: under the stream's mutex. Errors: a
// const char* says what the peer did wrong; null is fine. Memory: bounded, whatever comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "src/transport/stream/outbound.h"
#include "src/transport/transport.h"

namespace tutti::transport::stream {

class Regions {
 public:
  using Id = transport::ChannelId;

  /// Where the payload of a put goes, and what is raised behind it.
  struct Landing {
    std::byte* memory = nullptr;  // null: it is discarded
    std::atomic<uint64_t>* signal = nullptr;
  };

  Regions(Outbound& outbound, MessagePool& pool, TicketWindow& received)
      : outbound_(outbound), pool_(pool), received_(received) {}

  /// `place`: where the peer's transport may write to it by itself; null: it may not.
  void expose(Id id, const transport::Region& region, const KeyedPlace* place = nullptr);
  /// True: nothing is written to it any more. False: the peer has been asked to stop.
  bool withdraw(Id id);
  bool refused(Id id) const { return refused_.contains(id); }
  /// `target` is filled by the answer to a get that goes out now.
  void await(Message* target) { gets_.push(target); }

  /// This side has ended the epoch: gets of it fill nothing, its regions are withdrawn.
  void end(transport::EpochId epoch);
  /// The peer has: what was refused for it needs no memory any more.
  void end_there(transport::EpochId epoch);

  // Of the peer, where it writes to regions by itself, or lets this side do so.
  const char* learn(const FrameHeader& header, const KeyedPlace& place);
  void forget_peers(Id id);
  void end(Id id) { ending_.erase(id); }
  const char* take_placed(const FrameHeader& header, uint64_t bytes);

  const char* begin_put(const FrameHeader& header, Landing& landing);
  /// The bytes of the put are there.
  static void raise(const Landing& landing);
  const char* take_get(const FrameHeader& header);
  const char* begin_answer(const FrameHeader& header, Message*& target);
  /// The first get has its answer, or will have none.
  void finish_get();
  const char* take_refusal(const FrameHeader& header);

 private:
  // In either direction. Beyond it the link is given up: what was refused must not look done.
  static constexpr size_t kMostRefused = 1024;
  static constexpr size_t kMostPlaced = 64 * 1024;

  const char* refuse(const FrameHeader& header, bool get);

  Outbound& outbound_;
  MessagePool& pool_;
  TicketWindow& received_;
  std::map<Id, transport::Region> regions_;
  std::set<Id> placed_;  // of those: the peer knows where they lie
  std::set<Id> ending_;  // the peer may still write there
  MessageQueue gets_;
  std::set<Id> refused_;  // by the peer
  std::set<Id> told_;     // to the peer, of puts
};

}  // namespace tutti::transport::stream
