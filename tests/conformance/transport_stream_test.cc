// Links with streams: order, sizes, gather and scatter lists, many channels, messages nobody waits
// for yet, and that no channel ever holds up another.
#include <gtest/gtest.h>

#include <random>

#include "tests/conformance/transport_crew.h"

namespace tutti::conformance {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using transport::Link;
using transport::Stream;

constexpr uint32_t kSignature = 0xc0ffee;

ChannelId lane(uint32_t index) { return {kCommunicator, 1, index}; }

Stream::Ticket send(Link& link, ChannelId channel, const std::vector<std::byte>& data) {
  const ConstBuffer piece{data.data(), data.size()};
  return link.stream()->send(channel, kSignature, {&piece, 1});
}

Stream::Ticket receive(Link& link, ChannelId channel, std::vector<std::byte>& data) {
  const Buffer piece{data.data(), data.size()};
  return link.stream()->receive(channel, kSignature, {&piece, 1});
}

bool finish_send(Link& link, Stream::Ticket ticket) {
  return drive(link, [&] { return link.stream()->sent(ticket); });
}

bool finish_receive(Link& link, Stream::Ticket ticket) {
  return drive(link, [&] { return link.stream()->received(ticket); });
}

class TransportStream : public TransportTest {};

TEST_P(TransportStream, EverySizeInOrderBothWays) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  const std::vector<size_t> sizes = {0, 1, 0, 3, 64, 65521, 65536, 65537, 1 << 20, 0, 262145, 8};
  in_parallel(2, [&](int r) {
    Link& link = crew->link(r, 1 - r);
    for (unsigned i = 0; i < sizes.size(); ++i) {
      const auto source = pattern(sizes[i], i + 100 * static_cast<unsigned>(r));
      const auto expected = pattern(sizes[i], i + 100 * static_cast<unsigned>(1 - r));
      std::vector<std::byte> target(sizes[i]);
      const auto sent = send(link, lane(0), source);
      const auto received = receive(link, lane(0), target);
      ASSERT_TRUE(finish_receive(link, received)) << link.status().message();
      ASSERT_TRUE(finish_send(link, sent)) << link.status().message();
      ASSERT_EQ(target, expected) << "message " << i;
    }
  });
}

/// Cuts a buffer into random pieces, some of them empty.
template <class Piece, class Bytes>
std::vector<Piece> cut(Bytes& data, size_t largest, std::mt19937& random) {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < data.size();) {
    const size_t bytes = std::min<size_t>(random() % (largest + 1), data.size() - at);
    pieces.push_back({data.data() + at, bytes});
    at += bytes;
  }
  return pieces;
}

TEST_P(TransportStream, GatherAndScatterCutDifferently) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  in_parallel(2, [&](int r) {
    std::mt19937 random(static_cast<unsigned>(r));
    Link& link = crew->link(r, 1 - r);
    for (const size_t bytes : {size_t{10}, size_t{5000}, size_t{1} << 20}) {
      for (const size_t largest : {size_t{3}, size_t{700}, size_t{100'000}}) {
        const auto data = pattern(bytes, 5);
        std::vector<std::byte> target(bytes);
        if (r == 0) {
          const auto pieces = cut<ConstBuffer>(data, largest, random);
          const auto ticket = link.stream()->send(lane(0), kSignature, pieces);
          ASSERT_TRUE(finish_send(link, ticket)) << link.status().message();
        } else {
          const auto pieces = cut<Buffer>(target, largest, random);
          const auto ticket = link.stream()->receive(lane(0), kSignature, pieces);
          ASSERT_TRUE(finish_receive(link, ticket)) << link.status().message();
          ASSERT_EQ(data, target);
        }
      }
    }
  });
}

TEST_P(TransportStream, ManyChannelsEachInOrder) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  constexpr uint32_t kLanes = 64;
  constexpr uint32_t kMessages = 30;
  in_parallel(2, [&](int r) {
    Link& link = crew->link(r, 1 - r);
    std::vector<std::vector<std::byte>> sources, targets;
    std::vector<Stream::Ticket> sent, received;
    const auto bytes = [](uint32_t i, uint32_t l) { return size_t{(i * 97 + l * 13) % 2000}; };
    for (uint32_t i = 0; i < kMessages; ++i) {
      for (uint32_t l = 0; l < kLanes; ++l) {
        sources.push_back(pattern(bytes(i, l), i * kLanes + l));
        targets.emplace_back(bytes(i, l));
      }
    }
    for (uint32_t i = 0; i < kMessages; ++i) {
      for (uint32_t l = 0; l < kLanes; ++l) {
        sent.push_back(send(link, lane(l), sources[i * kLanes + l]));
        const uint32_t other = kLanes - 1 - l;  // posted in another order than sent
        received.push_back(receive(link, lane(other), targets[i * kLanes + other]));
      }
    }
    for (const auto ticket : received) ASSERT_TRUE(finish_receive(link, ticket));
    for (const auto ticket : sent) ASSERT_TRUE(finish_send(link, ticket));
    ASSERT_EQ(sources, targets);
  });
}

TEST_P(TransportStream, UnexpectedMessagesWait) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  Link& sender = crew->link(0, 1);
  Link& receiver = crew->link(1, 0);
  std::vector<std::vector<std::byte>> sources;
  std::vector<Stream::Ticket> sent;
  for (unsigned i = 0; i < 100; ++i) sources.push_back(pattern(i * 7, i));
  sources.push_back(pattern(1 << 20, 7));  // more than any eager quota
  for (const auto& source : sources) sent.push_back(send(sender, lane(0), source));
  // Small messages leave although nobody has asked for them.
  for (size_t i = 0; i < 100; ++i) ASSERT_TRUE(finish_send(sender, sent[i]));
  in_parallel(2, [&](int r) {
    if (r == 0) {
      ASSERT_TRUE(finish_send(sender, sent.back()));
      return;
    }
    for (int i = 0; i < 1000; ++i) receiver.stream()->progress();
    for (const auto& source : sources) {
      std::vector<std::byte> target(source.size());
      ASSERT_TRUE(finish_receive(receiver, receive(receiver, lane(0), target)));
      ASSERT_EQ(source, target);
    }
  });
}

TEST_P(TransportStream, TwoCommunicatorsInOppositeOrder) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  constexpr size_t kBytes = 64 << 20;
  const ChannelId channels[2] = {{1, 0, 0}, {2, 0, 0}};
  const std::vector<std::byte> sources[2] = {pattern(kBytes, 1), pattern(kBytes, 2)};
  in_parallel(2, [&](int r) {
    Link& link = crew->link(r, 1 - r);
    // Rank 0 sends and receives channel 0 first, rank 1 channel 1, and each waits for all of its
    // first before it asks for the second: what comes first over the connection is wanted last.
    Stream::Ticket sent[2];
    for (int i = 0; i < 2; ++i) sent[i] = send(link, channels[i ^ r], sources[i ^ r]);
    for (int i = 0; i < 2; ++i) {
      std::vector<std::byte> target(kBytes);
      const auto ticket = receive(link, channels[i ^ r], target);
      ASSERT_TRUE(finish_receive(link, ticket)) << link.status().message();
      ASSERT_TRUE(target == sources[i ^ r]);
    }
    for (const auto ticket : sent) ASSERT_TRUE(finish_send(link, ticket));
  });
}

TEST_P(TransportStream, SeveralThreadsShareALink) {
  auto crew = streaming(2);
  if (crew == nullptr) return;
  constexpr int kThreads = 3;
  in_parallel(2 * kThreads, [&](int index) {
    const int r = index % 2;
    const auto thread_lane = lane(static_cast<uint32_t>(index / 2));
    Link& link = crew->link(r, 1 - r);
    for (unsigned i = 0; i < 200; ++i) {
      const auto source = pattern(i * 11, i + thread_lane.lane);
      std::vector<std::byte> target(source.size());
      const auto sent = send(link, thread_lane, source);
      ASSERT_TRUE(finish_receive(link, receive(link, thread_lane, target)));
      ASSERT_TRUE(finish_send(link, sent));
      ASSERT_EQ(source, target);
    }
  });
}

TEST_P(TransportStream, EveryoneWithEveryone) {
  constexpr int kRanks = 6;
  auto crew = streaming(kRanks);
  if (crew == nullptr) return;
  in_parallel(kRanks, [&](int r) {
    std::map<int, std::vector<std::byte>> sources, targets;
    std::map<int, Stream::Ticket> sent, received;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == r) continue;
      sources[peer] = pattern(100'000, static_cast<unsigned>(r * kRanks + peer));
      targets[peer].resize(100'000);
      received[peer] = receive(crew->link(r, peer), lane(0), targets[peer]);
      sent[peer] = send(crew->link(r, peer), lane(0), sources[peer]);
    }
    const auto done = [&] {
      bool all = true;
      for (auto& [peer, link] : crew->rank(r).links) {
        link->stream()->progress();
        all = all && link->stream()->sent(sent[peer]) && link->stream()->received(received[peer]);
      }
      return all;
    };
    ASSERT_TRUE(drive(*crew->rank(r).links.begin()->second, done));
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == r) continue;
      ASSERT_EQ(targets[peer], pattern(100'000, static_cast<unsigned>(peer * kRanks + r)));
    }
  });
}

TUTTI_FOR_EVERY_TRANSPORT(TransportStream);

}  // namespace
}  // namespace tutti::conformance
