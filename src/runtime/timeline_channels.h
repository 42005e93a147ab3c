// The communicators over which the channels of timelines run.
//
// Messages need no communicator for each channel: within one, what a rank sends to another arrives
// in order, and nothing else waits for it. So channels of messages share communicators of all
// ranks, trunks, as long as each rank drives a trunk from one track and no two channels of a trunk
// have the same ends. Channels of collectives have a communicator of their members, by rank set;
// several channels of one rank set have several.
//
// Owns:     all of them, for as long as it lives: a timeline that changes each step makes none
// anew. Ordering: place() is collective over the parent, with equal timelines. Threads:  one at a
// time.
#pragma once

#include <map>
#include <vector>

#include "tutti/runtime/communicators.h"
#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

class TimelineChannels {
 public:
  TimelineChannels(tuttiComm_t comm, int most_ctas) : made_(comm, most_ctas) {}

  int rank() const { return made_.rank(); }
  int ranks() const { return made_.ranks(); }
  /// How many times ranks met to make communicators.
  int splits() const { return made_.splits(); }

  struct ChannelPlace {
    tuttiComm_t comm = nullptr;  // null where this rank is no member
    bool is_trunk = false;       // then ranks are those of the parent, else places in the channel
  };
  /// One for each channel of the timeline, which has passed its check.
  std::vector<ChannelPlace> place(const Timeline& timeline);
  void abort();

 private:
  struct ChannelMessage {  // what a channel of messages is: its ends, and the tracks that drive
                           // them
    int ends[2] = {-1, -1};
    int tracks[2] = {-1, -1};
  };
  std::vector<ChannelPlace> place_messages(const std::map<int, ChannelMessage>& messages,
                                           size_t channels);
  void make_missing(const std::vector<RankSet>& wanted);

  Communicators made_;
  std::vector<tuttiComm_t> trunks_;
  std::map<RankSet, std::vector<tuttiComm_t>> groups_;  // null entries where this rank is no member
};

}  // namespace tutti::runtime
