// For tests: ranks of several hosts in one thread, over real arenas and messages that are copied at
// once, with the bytes that cross counted. A message may stay under way for its sender.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/exec/domain_test.h"
#include "src/group/view.h"

namespace tutti::exec::domain_test {

/// All messages between all ranks.
class MessageBoard {
 public:
  using Ticket = transport::Stream::Ticket;
  using Channel = std::tuple<int, int, uint32_t>;  // source, target, lane

  Ticket send(Channel channel, std::span<const transport::ConstBuffer> pieces) {
    std::vector<std::byte> bytes;
    for (const transport::ConstBuffer& piece : pieces) {
      bytes.insert(bytes.end(), piece.data, piece.data + piece.bytes);
    }
    sent_bytes_[{std::get<0>(channel), std::get<1>(channel)}] += bytes.size();
    channels_[channel].sends.push_back(std::move(bytes));
    deliver(channel);
    ++sends_;
    return next_++;
  }
  Ticket receive(Channel channel, std::span<const transport::Buffer> pieces) {
    channels_[channel].receives.push_back({next_, {pieces.begin(), pieces.end()}});
    const Ticket ticket = next_++;
    deliver(channel);
    return ticket;
  }
  bool received(Ticket ticket) const { return done_.contains(ticket); }
  bool sent(Ticket ticket) const { return !held_ || let_out_.contains(ticket); }
  /// From now on no message is out before let_out(). Its receiver has it all the same.
  void hold_sends() { held_ = true; }
  /// All messages that have been sent so far.
  void let_out() {
    for (Ticket ticket = 1; ticket < next_; ++ticket) let_out_.insert(ticket);
  }
  /// How many messages have been sent.
  uint64_t sends() const { return sends_; }
  bool differs() const { return differs_; }
  /// Between ranks of different nodes of a level.
  uint64_t bytes_across(const group::GroupView& group, size_t level) const {
    uint64_t bytes = 0;
    for (const auto& [pair, sent] : sent_bytes_) {
      bytes += group.common_level(pair.first, pair.second) == level ? sent : 0;
    }
    return bytes;
  }

 private:
  struct Posted {
    Ticket ticket;
    std::vector<transport::Buffer> pieces;
  };
  struct Queues {
    std::deque<std::vector<std::byte>> sends;
    std::deque<Posted> receives;
  };

  void deliver(const Channel& channel) {
    Queues& queues = channels_[channel];
    while (!queues.sends.empty() && !queues.receives.empty()) {
      const std::vector<std::byte>& bytes = queues.sends.front();
      size_t at = 0;
      for (const transport::Buffer& piece : queues.receives.front().pieces) {
        if (at + piece.bytes <= bytes.size() && piece.bytes > 0) {
          std::memcpy(piece.data, bytes.data() + at, piece.bytes);
        }
        at += piece.bytes;
      }
      differs_ = differs_ || at != bytes.size();
      done_.insert(queues.receives.front().ticket);
      queues.sends.pop_front();
      queues.receives.pop_front();
    }
  }

  std::map<Channel, Queues> channels_;
  std::map<std::pair<int, int>, uint64_t> sent_bytes_;
  std::set<Ticket> done_, let_out_;
  Ticket next_ = 1;
  uint64_t sends_ = 0;
  bool held_ = false;
  bool differs_ = false;
};

/// One rank's end of a pair.
class BoardLink final : public transport::Link, public transport::Stream {
 public:
  BoardLink(MessageBoard& board, int rank, int peer) : board_(board), rank_(rank), peer_(peer) {}

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Stream* stream() override { return this; }
  Status status() const override { return {}; }
  int liveness_fd() const override { return -1; }

  Ticket send(transport::ChannelId channel, uint32_t /*signature*/,
              std::span<const transport::ConstBuffer> pieces) override {
    return board_.send({rank_, peer_, channel.lane}, pieces);
  }
  Ticket receive(transport::ChannelId channel, uint32_t /*signature*/,
                 std::span<const transport::Buffer> pieces) override {
    return board_.receive({peer_, rank_, channel.lane}, pieces);
  }
  bool sent(Ticket ticket) const override { return board_.sent(ticket); }
  bool received(Ticket ticket) const override { return board_.received(ticket); }
  void tell(transport::ChannelId /*channel*/, const transport::Note& /*note*/) override {}
  uint64_t heard(transport::ChannelId /*channel*/, transport::Note& /*note*/) const override {
    return 0;
  }
  void on_note(std::function<void(transport::ChannelId)> /*hook*/) override {}
  bool progress() override { return false; }
  Status epoch_status(transport::EpochId /*epoch*/) const override { return {}; }
  void prioritize(transport::EpochId /*epoch*/, transport::Priority /*priority*/) override {}
  void end_epoch(transport::EpochId /*epoch*/) override {}
  bool has_let_go(transport::EpochId /*epoch*/) override { return true; }

 private:
  MessageBoard& board_;
  const int rank_, peer_;
  transport::Capabilities capabilities_;
};

/// Ranks of a group; those of one host map each other's arenas.
class WiredGroup {
 public:
  WiredGroup(group::GroupPointer group, uint64_t ring_bytes)
      : group_(std::move(group)), layout_(ring_bytes, 4096, group_->ranks()) {
    const int ranks = group_->ranks();
    for (int rank = 0; rank < ranks; ++rank) {
      arenas_.push_back(std::move(transport::Arena::create("test", layout_.bytes())).value());
    }
    for (int rank = 0; rank < ranks; ++rank) add(rank);
  }

  const group::GroupPointer& group() const { return group_; }
  MessageBoard& board() { return board_; }
  HostExecutor& executor(int rank) { return *executors_[static_cast<size_t>(rank)]; }

  /// Every rank makes its call; the first error.
  Status run(std::span<const HostProgram> programs, std::span<const Call> calls) {
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      executors_[rank]->start(programs[rank], calls[rank]);
    }
    std::vector<bool> done(calls.size(), false);
    for (size_t left = calls.size(), rounds = 0; left > 0; ++rounds) {
      if (rounds > kMostRounds) return Status::internal_error("a call does not end");
      for (size_t rank = 0; rank < calls.size(); ++rank) {
        if (done[rank] || executors_[rank]->advance() != plan::Progress::kDone) continue;
        done[rank] = true;
        --left;
      }
    }
    for (const auto& executor : executors_) {
      if (!executor->state().ok()) return executor->state().status();
    }
    return board_.differs() ? Status::internal_error("a message meets a receive of another size")
                            : Status();
  }

 private:
  static constexpr size_t kMostRounds = 1'000'000;

  void add(int rank) {
    std::vector<Peer> peers(static_cast<size_t>(group_->ranks()));
    for (int peer = 0; peer < group_->ranks(); ++peer) {
      Peer& one = peers[static_cast<size_t>(peer)];
      if (group_->near(rank, peer)) {
        one.arena = ArenaView(arenas_[static_cast<size_t>(peer)].data(), layout_);
        one.mapped = &mapped_;
        continue;
      }
      links_.push_back(std::make_unique<BoardLink>(board_, rank, peer));
      one.stream = links_.back().get();
      one.link = links_.back().get();
    }
    ExecutorOptions options;
    options.rank = rank;
    options.ranks = group_->ranks();
    options.layout = layout_;
    executors_.push_back(std::make_unique<HostExecutor>(options, std::move(peers), health_));
  }

  group::GroupPointer group_;
  ArenaLayout layout_;
  MessageBoard board_;
  SameProcess mapped_;
  TestHealth health_;
  std::vector<transport::Arena> arenas_;
  std::vector<std::unique_ptr<BoardLink>> links_;
  std::vector<std::unique_ptr<HostExecutor>> executors_;
};

}  // namespace tutti::exec::domain_test
