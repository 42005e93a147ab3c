// Two links joined by a pipe that has room for few frames, and reports late.
#include "src/transport/stream/message_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tutti::transport::stream {
namespace {

constexpr ChannelId kChannel{1, 0, 0};
constexpr ChannelId kNotes{1, 0, 77};
constexpr size_t kRoom = 3;  // frames

struct QueuedFrame {
  std::vector<std::byte> header, payload;
};
struct Wire {
  std::deque<QueuedFrame> frames[2];  // to rank 0, to rank 1
  bool ended[2] = {false, false};     // by rank 0, by rank 1
};

class ShortPipe final : public MessagePipe {
 public:
  ShortPipe(std::shared_ptr<Wire> wire, int rank) : wire_(std::move(wire)), rank_(rank) {}

  uint64_t payload_limit() const override { return 4096; }
  bool send(const CarriedFrame& frame) override {
    std::deque<QueuedFrame>& queue = wire_->frames[1 - rank_];
    if (queue.size() >= kRoom) return false;
    QueuedFrame queued{{frame.header.begin(), frame.header.end()}, {}};
    for (const iovec& piece : frame.payload) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      queued.payload.insert(queued.payload.end(), data, data + piece.iov_len);
    }
    queue.push_back(std::move(queued));
    carried_.push_back(frame.name);
    return true;
  }
  Status poll(PipeEvents& events) override {
    for (const uint64_t name : std::exchange(carried_, {})) events.carried(name);
    std::deque<QueuedFrame>& queue = wire_->frames[rank_];
    for (; !queue.empty(); queue.pop_front()) {
      events.came(queue.front().header, queue.front().payload);
    }
    return wire_->ended[1 - rank_] ? Status::remote_error("it has ended") : Status();
  }
  void end() override { wire_->ended[rank_] = true; }
  bool has_delivered() const override { return true; }
  int descriptor() const override { return -1; }

 private:
  const std::shared_ptr<Wire> wire_;
  const int rank_;
  std::vector<uint64_t> carried_;
};

struct Links {
  Links() {
    for (int rank = 0; rank < 2; ++rank) {
      ends[rank] = std::make_unique<MessageLink>(rank, 1 - rank, "nowhere",
                                                 std::make_unique<ShortPipe>(wire, rank));
    }
  }
  void run() {
    while (ends[0]->progress() | ends[1]->progress()) {
    }
  }
  Stream::Ticket send(const std::vector<std::byte>& data) {
    const ConstBuffer piece{data.data(), data.size()};
    return ends[0]->send(kChannel, 7, {&piece, 1});
  }
  Stream::Ticket receive(std::vector<std::byte>& data) {
    const Buffer piece{data.data(), data.size()};
    return ends[1]->receive(kChannel, 7, {&piece, 1});
  }

  std::shared_ptr<Wire> wire = std::make_shared<Wire>();
  std::unique_ptr<MessageLink> ends[2];
};

TEST(StreamMessageLink, AFrameThatFindsNoRoomComesAgain) {
  Links links;
  const std::vector<std::byte> source(300'000, std::byte{5});
  std::vector<std::byte> target(source.size());
  const auto received = links.receive(target);
  const auto sent = links.send(source);
  EXPECT_TRUE(links.ends[0]->has_output());
  links.run();
  EXPECT_TRUE(links.ends[0]->sent(sent));
  EXPECT_TRUE(links.ends[1]->received(received));
  EXPECT_EQ(source, target);
  EXPECT_FALSE(links.ends[0]->has_output());
}

TEST(StreamMessageLink, WhoHangsUpReadsTheCallersMemoryNoMoreAndSaysItsLastWord) {
  Links links;
  std::vector<std::byte> source(60'000, std::byte{5});
  std::vector<std::byte> target(source.size());
  links.receive(target);
  links.send(source);
  links.ends[0]->tell(kNotes, {{1, 2}, {3, 4}});
  EXPECT_FALSE(links.ends[0]->hang_up());
  std::fill(source.begin(), source.end(), std::byte{9});  // the caller's again
  while (!links.ends[0]->hang_up()) links.ends[1]->progress();
  links.run();
  Note heard;
  EXPECT_EQ(links.ends[1]->heard(kNotes, heard), 1u);
  EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{9}), 0);
  const Status status = links.ends[1]->status();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.message().find("rank 1 lost rank 0 at nowhere"), std::string_view::npos)
      << status.message();
}

// Nobody may ever call progress(): a call that only sends notices it.
TEST(StreamMessageLink, WhoOnlySendsNoticesThatThePeerHasGone) {
  Links links;
  links.ends[1].reset();
  const std::vector<std::byte> source(4096);
  for (size_t frame = 0; frame <= kRoom; ++frame) links.send(source);
  EXPECT_EQ(links.ends[0]->status().code(), Code::kRemoteError)
      << links.ends[0]->status().message();
}

TEST(StreamMessageLink, AMismatchIsSaidOnBothSides) {
  Links links;
  const std::vector<std::byte> source(64);
  std::vector<std::byte> target(128);
  links.receive(target);
  links.send(source);
  links.run();
  for (const auto& end : links.ends) {
    EXPECT_EQ(end->epoch_status({1, 0}).code(), Code::kInvalidUsage);
    EXPECT_TRUE(end->status().ok()) << end->status().message();
  }
}

}  // namespace
}  // namespace tutti::transport::stream
