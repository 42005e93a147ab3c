// Count vectors as callers pass them: compared, kept, read as the shares of one rank.
#include "src/comm/count_view.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/comm/request.h"

namespace tutti::comm {
namespace {

using schedule::Collective;
using Entries = std::vector<uint64_t>;

/// Every vector of an all_to_all_v of three ranks.
struct Vectors {
  Entries send_counts = {1, 2, 3}, send_offsets = {9, 4, 0};
  Entries recv_counts = {4, 0, 6}, recv_offsets = {0, 8, 9};

  CountView view() const {
    return {3, send_counts.data(), send_offsets.data(), recv_counts.data(), recv_offsets.data()};
  }
};

TEST(CountView, EveryEntryAndEveryMissingVectorCounts) {
  const Vectors usual, equal;
  EXPECT_TRUE(same(usual.view(), equal.view()));
  EXPECT_EQ(hash_of(usual.view()), hash_of(equal.view()));
  const auto differs = [&](const CountView& view) {
    EXPECT_FALSE(same(usual.view(), view));
    EXPECT_NE(hash_of(usual.view()), hash_of(view));
  };
  for (Entries Vectors::*vector : {&Vectors::send_counts, &Vectors::send_offsets,
                                   &Vectors::recv_counts, &Vectors::recv_offsets}) {
    for (size_t entry = 0; entry < 3; ++entry) {
      Vectors other;
      ++(other.*vector)[entry];
      differs(other.view());
    }
  }
  for (const uint64_t* CountView::*vector : {&CountView::send_counts, &CountView::send_offsets,
                                             &CountView::recv_counts, &CountView::recv_offsets}) {
    CountView view = usual.view();
    view.*vector = nullptr;
    differs(view);
  }
}

TEST(CountView, KeptCountsOutliveTheirCaller) {
  Vectors usual;
  const KeptCounts kept(usual.view());
  const KeptCounts copy = kept;
  for (Entries* entries : {&usual.send_counts, &usual.send_offsets, &usual.recv_counts}) {
    entries->assign(3, 77);
  }
  EXPECT_TRUE(same(kept.view(), Vectors().view()));
  EXPECT_TRUE(same(copy.view(), Vectors().view()));
  EXPECT_EQ(copy.view().send_counts, kept.view().send_counts) << "copies share the entries";
}

TEST(CountView, ABufferOfOneShareHoldsTheRanksOwn) {
  const Entries counts = {5, 0, 7}, offsets = {10, 1, 20};
  CountView gathers{.ranks = 3, .recv_counts = counts.data(), .recv_offsets = offsets.data()};
  EXPECT_FALSE(gathers.is_private());
  const schedule::CountVectors gathered = vectors_of(gathers, 2, 7);
  EXPECT_EQ(gathered.input, Entries{7});
  EXPECT_EQ(gathered.input_offsets, Entries{0});
  EXPECT_EQ(gathered.output, counts);
  EXPECT_EQ(gathered.output_offsets, offsets);
  EXPECT_EQ(input_elements_of(gathers, 2), 7u);

  CountView scatters{.ranks = 3, .send_counts = counts.data()};
  const schedule::CountVectors scattered = vectors_of(scatters, 0, 7);
  EXPECT_EQ(scattered.output, Entries{5});
  EXPECT_EQ(scattered.input_offsets, (Entries{0, 5, 5})) << "packed";
  EXPECT_EQ(input_elements_of(scatters, 0), 12u);

  EXPECT_TRUE(Vectors().view().is_private());
  EXPECT_EQ(longest_of(Vectors().view()), 6u);
}

TEST(CountView, TheLongestShareOfAllRanksIsCountable) {
  constexpr uint64_t kHeadroom = 64;  // a schedule holds several shares for each rank
  for (const uint32_t ranks : {1u, 3u, 65'536u}) {
    for (const auto type : {types::DataType::kInt8, types::DataType::kUint64}) {
      const uint64_t most = most_in_a_share(type, ranks);
      EXPECT_GE(most * types::size_of(type), uint64_t{1} << 40) << "a share that can be";
      EXPECT_LE(most, ~uint64_t{0} / kHeadroom / types::size_of(type) / ranks);
    }
  }
}

TEST(CountView, InPlaceIsWhereTheOwnShareBegins) {
  const Entries counts = {5, 0, 7}, offsets = {10, 1, 20}, others = {5, 0, 8};
  std::vector<int32_t> memory(40);
  CountView view{.ranks = 3, .recv_counts = counts.data(), .recv_offsets = offsets.data()};
  Request request;
  request.type = types::DataType::kInt32;
  request.counts = &view;
  request.recv = memory.data();
  request.send = memory.data() + 20;
  EXPECT_TRUE(is_in_place(request, 2));
  EXPECT_FALSE(is_in_place(request, 0));
  view = {.ranks = 3, .send_counts = counts.data()};
  request.send = memory.data();
  request.recv = memory.data() + 5;
  EXPECT_TRUE(is_in_place(request, 1));
  EXPECT_FALSE(is_in_place(request, 0));
  view = {.ranks = 3, .send_counts = counts.data(), .recv_counts = counts.data()};
  request.recv = memory.data();
  EXPECT_TRUE(is_in_place(request, 0));
  view.recv_counts = others.data();
  EXPECT_FALSE(is_in_place(request, 0));
  view.recv_counts = counts.data();
  view.recv_offsets = offsets.data();
  EXPECT_FALSE(is_in_place(request, 0));
}

}  // namespace
}  // namespace tutti::comm
