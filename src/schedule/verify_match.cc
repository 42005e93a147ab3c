#include "src/schedule/verify_match.h"

#include <algorithm>

#include "src/schedule/text.h"

namespace tutti::schedule::verifier {
namespace {

constexpr uint64_t kMaxOperands = 1u << 28;
constexpr uint64_t kMaxPairs = 1u << 26;  // of a rank with (peer, lane)

}  // namespace

class Matcher {
 public:
  explicit Matcher(const Program& program) : program_(program) {}

  Result<Matching> run() {
    if (Status s = number_operands(); !s.ok()) return s;
    lanes_ = program_.shape().lanes;
    if (static_cast<uint64_t>(program_.ranks()) * lanes_ > kMaxPairs) {
      return Status::unsupported("too many lanes and ranks to verify");
    }
    table_.assign(static_cast<size_t>(program_.ranks()) * lanes_, kNoMessage);
    find_channels();
    number_messages();
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      if (Status s = match_receives(rank); !s.ok()) return s;
    }
    for (const MessageChannel& channel : channels_) {
      if (channel.received == channel.sent) continue;
      const MatchedMessage& left = result_.messages_[channel.first + channel.received];
      return program_.refuse(left.send, "message " + std::to_string(channel.received) + ' ' +
                                            channel.name() + " is never received");
    }
    return std::move(result_);
  }

 private:
  struct MessageChannel {
    int source = 0;
    int target = 0;
    uint32_t lane = 0;
    uint32_t first = 0;  // its first message
    uint32_t sent = 0;
    uint32_t received = 0;

    std::string name() const {
      return "from rank " + std::to_string(source) + " to rank " + std::to_string(target) +
             " on lane " + std::to_string(lane);
    }
  };

  Status number_operands() {
    uint64_t operands = 0;
    result_.first_.reserve(size_t{program_.total_steps()} + 1);
    for (const Schedule& schedule : program_.schedules()) {
      for (const Step& step : schedule.steps) {
        result_.first_.push_back(static_cast<uint32_t>(operands));
        operands += step.operand_count;
        if (operands > kMaxOperands) return Status::unsupported("too many operands to verify");
      }
    }
    result_.first_.push_back(static_cast<uint32_t>(operands));
    result_.ids_.assign(operands, kNoMessage);
    return {};
  }

  uint32_t& table(uint32_t peer, uint32_t lane) { return table_[size_t{peer} * lanes_ + lane]; }

  template <class Visit>
  void for_each_send(int rank, Visit visit) {
    const Schedule& schedule = program_.schedule(rank);
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind != StepKind::kSend) continue;
      uint32_t operand = result_.first_[program_.number({rank, i})];
      for (uint32_t peer : schedule.peers_of(step)) visit(i, step.lane, peer, operand++);
    }
  }

  // Channels in order of their source; ids_ holds the channel until the messages are numbered.
  void find_channels() {
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      const size_t first = channels_.size();
      for_each_send(rank, [&](uint32_t, uint32_t lane, uint32_t peer, uint32_t operand) {
        uint32_t& channel = table(peer, lane);
        if (channel == kNoMessage) {
          channel = static_cast<uint32_t>(channels_.size());
          channels_.push_back({rank, static_cast<int>(peer), lane});
        }
        ++channels_[channel].sent;
        result_.ids_[operand] = channel;
      });
      for (size_t i = first; i < channels_.size(); ++i) {
        table(static_cast<uint32_t>(channels_[i].target), channels_[i].lane) = kNoMessage;
      }
    }
  }

  void number_messages() {
    uint32_t messages = 0;
    for (MessageChannel& channel : channels_) {
      channel.first = messages;
      messages += channel.sent;
      result_.longest_channel_ = std::max(result_.longest_channel_, channel.sent);
    }
    result_.messages_.resize(messages);
    std::vector<uint32_t> next(channels_.size(), 0);
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      for_each_send(rank, [&](uint32_t step, uint32_t, uint32_t, uint32_t operand) {
        const uint32_t channel = result_.ids_[operand];
        const uint32_t number = next[channel]++;
        result_.ids_[operand] = channels_[channel].first + number;
        result_.messages_[result_.ids_[operand]] = {{rank, step}, {}, number};
      });
    }
    // Grouped by target for the receivers.
    incoming_.resize(static_cast<size_t>(program_.ranks()));
    for (uint32_t i = 0; i < channels_.size(); ++i) {
      incoming_[static_cast<size_t>(channels_[i].target)].push_back(i);
    }
  }

  Status match_receives(int rank) {
    const Schedule& schedule = program_.schedule(rank);
    const auto& incoming = incoming_[static_cast<size_t>(rank)];
    for (uint32_t i : incoming) {
      table(static_cast<uint32_t>(channels_[i].source), channels_[i].lane) = i;
    }
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      if (schedule.steps[i].kind != StepKind::kMove) continue;
      if (Status s = match_move({rank, i}); !s.ok()) return s;
    }
    for (uint32_t i : incoming) {
      table(static_cast<uint32_t>(channels_[i].source), channels_[i].lane) = kNoMessage;
    }
    return {};
  }

  Status match_move(StepRef ref) {
    const Step& step = program_.step(ref);
    uint32_t operand = result_.first_[program_.number(ref)];
    for (Source source : program_.schedule(ref.rank).sources_of(step)) {
      const uint32_t at = operand++;
      if (!source.is_message()) continue;
      const uint32_t index = table(static_cast<uint32_t>(source.peer()), step.lane);
      if (index == kNoMessage || channels_[index].received == channels_[index].sent) {
        const uint32_t sent = index == kNoMessage ? 0 : channels_[index].sent;
        return program_.refuse(ref, "rank " + std::to_string(source.peer()) + " sends only " +
                                        std::to_string(sent) + " messages to this rank on lane " +
                                        std::to_string(step.lane));
      }
      MessageChannel& channel = channels_[index];
      const uint32_t id = channel.first + channel.received++;
      result_.ids_[at] = id;
      result_.messages_[id].move = ref;
      if (Status s = check_sizes(result_.messages_[id]); !s.ok()) return s;
    }
    return {};
  }

  Status check_sizes(const MatchedMessage& message) const {
    const Schedule& from = program_.schedule(message.send.rank);
    const Schedule& to = program_.schedule(message.move.rank);
    const auto sent = from.blocks_of(program_.step(message.send));
    const auto target = to.blocks_of(program_.step(message.move));
    const auto refuse = [&](const std::string& what) {
      return program_.refuse(message.move,
                             what + " what arrives from " + program_.where(message.send));
    };
    if (sent.size() != target.size()) {
      return refuse("has " + std::to_string(target.size()) + " blocks for the " +
                    std::to_string(sent.size()) + " of");
    }
    const RankMemory sender = program_.memory(message.send.rank);
    const RankMemory receiver = program_.memory(message.move.rank);
    for (size_t i = 0; i < sent.size(); ++i) {
      if (receiver.region(target[i]).pairs(sender.region(sent[i]))) continue;
      return refuse(print(target[i]) + " differs in size from " + print(sent[i]) + " of");
    }
    return {};
  }

  const Program& program_;
  Matching result_;
  uint32_t lanes_ = 1;
  std::vector<MessageChannel> channels_;
  std::vector<std::vector<uint32_t>> incoming_;  // per rank: channels
  std::vector<uint32_t> table_;  // (peer, lane) -> channel, of the rank being looked at
};

Result<Matching> Matching::of(const Program& program) { return Matcher(program).run(); }

}  // namespace tutti::schedule::verifier
