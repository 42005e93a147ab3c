// A network of notes without sockets, and a rank's links in it, for tests of who is to blame.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "src/diagnosis/stall.h"
#include "src/transport/transport.h"

namespace tutti::diagnosis {

class Network {
 public:
  void connect(int a, int b) { connected_.insert(std::minmax(a, b)); }
  bool connected(int a, int b) const { return connected_.contains(std::minmax(a, b)); }

  void tell(int from, int to, uint32_t lane, const transport::Note& note) {
    if (!connected(from, to)) return;
    auto& [serial, last] = notes_[{from, to, lane}];
    ++serial;
    last = note;
    if (lane == kAskLane && control_threads[to] != nullptr) {
      control_threads[to]->answer(static_cast<uint32_t>(from));
    }
  }
  uint64_t heard(int from, int to, uint32_t lane, transport::Note& note) const {
    const auto found = notes_.find({from, to, lane});
    if (found == notes_.end()) return 0;
    note = found->second.second;
    return found->second.first;
  }

  std::map<int, Stall*> control_threads;  // by rank; none: it is stopped

 private:
  std::set<std::pair<int, int>> connected_;
  std::map<std::tuple<int, int, uint32_t>, std::pair<uint64_t, transport::Note>> notes_;
};

class FakeLink final : public transport::Link, public transport::Stream {
 public:
  FakeLink(Network& network, int rank, int peer) : network_(network), rank_(rank), peer_(peer) {}

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Stream* stream() override { return this; }
  Status status() const override { return failure; }
  int liveness_fd() const override { return 7; }
  void want() override { network_.connect(rank_, peer_); }

  void tell(transport::ChannelId channel, const transport::Note& note) override {
    network_.tell(rank_, peer_, channel.lane, note);
  }
  uint64_t heard(transport::ChannelId channel, transport::Note& note) const override {
    return network_.heard(peer_, rank_, channel.lane, note);
  }
  void on_note(std::function<void(transport::ChannelId)>) override {}
  Ticket send(transport::ChannelId, uint32_t, std::span<const transport::ConstBuffer>) override {
    return 0;
  }
  Ticket receive(transport::ChannelId, uint32_t, std::span<const transport::Buffer>) override {
    return 0;
  }
  bool sent(Ticket) const override { return false; }
  bool received(Ticket) const override { return false; }
  bool progress() override {
    turns_until_connected = std::max(0, turns_until_connected - 1);
    return false;
  }
  State state() const override {
    return turns_until_connected > 0 ? State::kWanted : Link::state();
  }
  Status epoch_status(transport::EpochId) const override { return mismatch; }
  void prioritize(transport::EpochId, transport::Priority) override {}
  void end_epoch(transport::EpochId) override { ended = true; }
  bool has_let_go(transport::EpochId) override { return !holds_on; }
  void sever(const std::string& why) override { severed = why; }

  Status failure;
  Status mismatch;
  bool ended = false, holds_on = false;
  int turns_until_connected = 0;
  std::string severed;

 private:
  Network& network_;
  const int rank_, peer_;
  transport::Capabilities capabilities_;
};

}  // namespace tutti::diagnosis
