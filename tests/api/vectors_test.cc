// v-collectives through the API: counts of every kind, every way to call, wrong arguments, and
// ranks that disagree. Random ones are among all other calls (tests/random).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/dice.h"

namespace tutti::api_test {
namespace {

using Counts = std::vector<size_t>;
using Values = std::vector<int>;
using testing_support::mix;

constexpr uint64_t kHangMs = 60'000;
constexpr int kGap = -7;  // between blocks; nobody may touch it

// The value that rank `from` has for rank `to` at `index`.
int value(int from, int to, size_t index) {
  return static_cast<int>(mix(static_cast<uint64_t>(from * 64 + to), index) & 0xffff);
}

/// Odd, zero and far apart: the count between two ranks, for a kind of case.
size_t count_of(int kind, int from, int to) {
  const uint64_t word = mix(static_cast<uint64_t>(kind), static_cast<uint64_t>(from * 64 + to));
  switch (kind) {
    case 0:
      return word % 5;  // cells, with zeros
    case 1:
      return word % 3000;  // slots
    case 2:
      return (from + to) % 3 == 0 ? 70'001 + word % 100 : word % 3;  // several slices, huge skew
    case 3:
      return from == 1 ? 1 : 0;  // one rank alone has anything
    default:
      return 0;
  }
}
constexpr int kKinds = 5;

size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

Counts placed(const Counts& counts, size_t gap) {
  Counts offsets;
  size_t at = gap;
  for (size_t count : counts) {
    offsets.push_back(at);
    at += count + gap;
  }
  return offsets;
}

/// A rank's side of an all_to_all_v with a gap before every block.
struct Exchange {
  Exchange(int ranks, int rank, int kind, size_t gap) {
    for (int peer = 0; peer < ranks; ++peer) {
      send_counts.push_back(count_of(kind, rank, peer));
      recv_counts.push_back(count_of(kind, peer, rank));
    }
    send_offsets = placed(send_counts, gap);
    recv_offsets = placed(recv_counts, gap);
    send.assign(sum(send_counts) + gap * (send_counts.size() + 1), kGap);
    recv.assign(sum(recv_counts) + gap * (recv_counts.size() + 1), kGap);
    expected = recv;
    for (int peer = 0; peer < ranks; ++peer) {
      const auto p = static_cast<size_t>(peer);
      for (size_t i = 0; i < send_counts[p]; ++i) send[send_offsets[p] + i] = value(rank, peer, i);
      for (size_t i = 0; i < recv_counts[p]; ++i) {
        expected[recv_offsets[p] + i] = value(peer, rank, i);
      }
    }
  }

  tuttiResult_t call(tuttiComm_t comm, tuttiStream_t stream, bool packed = false) {
    return tuttiAllToAllV(send.data(), send_counts.data(), packed ? nullptr : send_offsets.data(),
                          recv.data(), recv_counts.data(), packed ? nullptr : recv_offsets.data(),
                          tuttiInt32, comm, stream);
  }

  Counts send_counts, recv_counts, send_offsets, recv_offsets;
  Values send, recv, expected;
};

Counts shares(int ranks, int kind) {
  Counts counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(count_of(kind, rank, 0));
  return counts;
}

void gather(tuttiComm_t comm, int ranks, int rank, int kind, bool in_place) {
  const Counts counts = shares(ranks, kind);
  const size_t gap = in_place ? 3 : 0;
  const Counts offsets = placed(counts, gap);
  Values recv(sum(counts) + gap * (counts.size() + 1), kGap), expected = recv, send;
  for (int peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    for (size_t i = 0; i < counts[p]; ++i) expected[offsets[p] + i] = value(peer, 0, i);
  }
  const size_t own = counts[static_cast<size_t>(rank)];
  for (size_t i = 0; i < own; ++i) send.push_back(value(rank, 0, i));
  int* from = send.data();
  if (in_place) {
    from = recv.data() + offsets[static_cast<size_t>(rank)];
    std::copy(send.begin(), send.end(), from);
  }
  EXPECT_OK(tuttiAllGatherV(from, own, recv.data(), counts.data(),
                            in_place ? offsets.data() : nullptr, tuttiInt32, comm, tuttiBlocking()),
            comm);
  EXPECT_EQ(recv, expected) << "all_gather_v, kind " << kind << ", rank " << rank;
}

void scatter(tuttiComm_t comm, int ranks, int rank, int kind, bool in_place) {
  const Counts counts = shares(ranks, kind);
  const size_t first = placed(counts, 0)[static_cast<size_t>(rank)];
  const size_t own = counts[static_cast<size_t>(rank)];
  Values send, expected(own, 0);
  for (size_t i = 0; i < sum(counts); ++i) {
    send.push_back(value(rank, 0, i));
    if (i < first || i >= first + own) continue;
    for (int peer = 0; peer < ranks; ++peer) expected[i - first] += value(peer, 0, i);
  }
  Values recv(own, kGap);
  int* to = in_place ? send.data() + first : recv.data();
  EXPECT_OK(tuttiReduceScatterV(send.data(), to, counts.data(), tuttiInt32, tuttiSum, comm,
                                tuttiBlocking()),
            comm);
  EXPECT_EQ(Values(to, to + own), expected) << "reduce_scatter_v, kind " << kind << ", " << rank;
}

class VectorRanks : public testing::TestWithParam<int> {};

TEST_P(VectorRanks, EveryKindOfCounts) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const bool again : {false, true}) {
        gather(comm, ranks, rank, kind, again);
        scatter(comm, ranks, rank, kind, again);
        for (int turn = 0; turn < 2; ++turn) {  // the second finds the plan of the first
          Exchange exchange(ranks, rank, kind, again ? 2 : 0);
          EXPECT_OK(exchange.call(comm, tuttiBlocking(), !again), comm);
          EXPECT_EQ(exchange.recv, exchange.expected) << "kind " << kind << ", rank " << rank;
        }
      }
    }
  });
}

TEST_P(VectorRanks, EveryAlgorithm) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](tuttiComm_t& comm, int rank) {
    const auto force = [&](const char* name) {
      tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
      options.algorithm = name;
      options.timeout_ns = kHangMs * 1'000'000;
      EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
    };
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const char* name : {"bruck", "bruck", "pairwise", "bruck"}) {
        force(name);
        Exchange exchange(ranks, rank, kind, 1);
        EXPECT_OK(exchange.call(comm, tuttiBlocking()), comm);
        EXPECT_EQ(exchange.recv, exchange.expected) << name << ", kind " << kind;
      }
      for (const char* name : {"ring", "ring:2", "circulant", "direct", "circulant:3"}) {
        force(name);
        gather(comm, ranks, rank, kind, false);
        scatter(comm, ranks, rank, kind, true);
      }
    }
  });
}

TEST_P(VectorRanks, GroupsAndStreams) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    tuttiStream_t host;
    ASSERT_EQ(tuttiStreamCreate(&host), tuttiSuccess);
    for (const tuttiStream_t stream : {tuttiBlocking(), host}) {
      std::vector<Exchange> calls;
      for (int kind = 0; kind < kKinds; ++kind) calls.emplace_back(ranks, rank, kind, 1);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      for (Exchange& call : calls) {
        EXPECT_OK(call.call(comm, stream), comm);
        // The vectors are the caller's again.
        for (Counts* counts : {&call.send_counts, &call.recv_counts, &call.send_offsets}) {
          counts->assign(counts->size(), 12345);
        }
      }
      EXPECT_OK(tuttiGroupEnd(), nullptr);
      EXPECT_OK(tuttiStreamSynchronize(host), nullptr);
      for (const Exchange& call : calls) EXPECT_EQ(call.recv, call.expected);
    }
    EXPECT_EQ(tuttiStreamDestroy(host), tuttiSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(Api, VectorRanks, testing::Values(1, 2, 3, 5));

// The call by its own name, with the algorithm of the run that carried the data.
TEST(Vectors, TheFlightRecorderNamesThem) {
  const std::string path = testing::TempDir() + "vectors." + std::to_string(getpid());
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    tuttiStream_t queue;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    for (const tuttiStream_t stream : {tuttiBlocking(), queue}) {
      tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
      options.timeout_ns = kHangMs * 1'000'000;
      options.algorithm = "bruck";
      EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
      Exchange exchange(2, rank, 1, 0);
      EXPECT_OK(exchange.call(comm, stream), comm);
      EXPECT_OK(tuttiStreamSynchronize(queue), nullptr);
      options.algorithm = "ring";
      EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
    }
    scatter(comm, 2, rank, 1, false);
    if (rank == 0) {
      EXPECT_OK(tuttiTraceDump(path.c_str()), nullptr);
    }
    set_deadline(comm, kHangMs);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_EQ(tuttiStreamDestroy(queue), tuttiSuccess);
  });
  std::ifstream file(path);
  int exchanges = 0, scatters = 0;
  for (std::string line; std::getline(file, line);) {
    const auto has = [&](const char* word) { return line.find(word) != std::string::npos; };
    exchanges += has(" all_to_all_v ") && has(" int32 ") && has(" bruck ") ? 1 : 0;
    scatters += has(" reduce_scatter_v ") && has(" sum ") && has(" ring ") ? 1 : 0;
  }
  std::remove(path.c_str());
  EXPECT_EQ(exchanges, 2 * 2) << "two ranks, two calls each";
  EXPECT_EQ(scatters, 2);
}

// Both ways of a pair are equally long, as in place they must be.
TEST(Vectors, AllToAllInPlace) {
  constexpr int kRanks = 4;
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    for (const char* name : {"pairwise", "bruck"}) {
      tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
      options.algorithm = name;
      EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
      Counts counts;
      for (int peer = 0; peer < kRanks; ++peer) {
        counts.push_back(static_cast<size_t>(rank + peer == 3 ? 40'000 : rank * peer));
      }
      Values buffer, expected;
      for (int peer = 0; peer < kRanks; ++peer) {
        for (size_t i = 0; i < counts[static_cast<size_t>(peer)]; ++i) {
          buffer.push_back(value(rank, peer, i));
          expected.push_back(value(peer, rank, i));
        }
      }
      EXPECT_OK(tuttiAllToAllV(buffer.data(), counts.data(), nullptr, buffer.data(), counts.data(),
                               nullptr, tuttiInt32, comm, tuttiBlocking()),
                comm);
      EXPECT_EQ(buffer, expected) << name << ", rank " << rank;
    }
  });
}

TEST(Vectors, WrongArguments) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    const tuttiStream_t stream = tuttiBlocking();
    int send[4] = {}, recv[4] = {};
    const size_t two = 2, much = ~size_t{0} / 2, zero = 0;
    const auto refused = [&](tuttiResult_t result, const char* part) {
      EXPECT_EQ(result, tuttiInvalidArgument);
      EXPECT_NE(message_of(comm).find(part), std::string::npos) << message_of(comm);
    };
    const auto gather = [&](const void* from, size_t count, void* to, const size_t* counts,
                            const size_t* offsets) {
      return tuttiAllGatherV(from, count, to, counts, offsets, tuttiInt32, comm, stream);
    };
    const auto exchange = [&](const void* from, const size_t* sends, void* to, const size_t* gets,
                              tuttiDataType_t type) {
      return tuttiAllToAllV(from, sends, nullptr, to, gets, nullptr, type, comm, stream);
    };
    refused(gather(send, 2, recv, nullptr, nullptr), "all_gather_v: counts is null");
    refused(gather(send, 1, recv, &two, nullptr), "send_count is 1, counts[0] is 2");
    refused(gather(nullptr, 2, recv, &two, nullptr), "send is null");
    refused(gather(send, 2, nullptr, &two, nullptr), "recv is null");
    refused(gather(send, 2, send + 1, &two, nullptr), "overlap");
    refused(gather(send, much, recv, &much, nullptr), "overflows");
    refused(gather(send, 2, recv, &two, &much), "the recv count or offset of rank 0 overflows");
    refused(tuttiReduceScatterV(send, recv, nullptr, tuttiInt32, tuttiSum, comm, stream),
            "reduce_scatter_v: counts is null");
    refused(tuttiReduceScatterV(send, send + 1, &two, tuttiInt32, tuttiSum, comm, stream),
            "overlap");
    refused(exchange(send, nullptr, recv, &two, tuttiInt32), "send_counts is null");
    refused(exchange(send, &two, recv, nullptr, tuttiInt32), "recv_counts is null");
    refused(exchange(send, &two, send, &zero, static_cast<tuttiDataType_t>(99)), "data type");
    refused(exchange(send, &two, send + 1, &two, tuttiInt32), "overlap");
    EXPECT_OK(exchange(nullptr, &zero, nullptr, &zero, tuttiInt32), comm);
    EXPECT_OK(gather(nullptr, 0, nullptr, &zero, nullptr), comm);
    EXPECT_OK(gather(nullptr, 0, nullptr, &zero, &two), comm);
    EXPECT_EQ(exchange(send, &two, recv, &two, tuttiInt32), tuttiSuccess);
  });
}

TEST(Vectors, BlocksThatAreWrittenKeepApart) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    int send[4] = {rank, rank, rank, rank}, recv[4] = {};
    const size_t counts[2] = {2, 2}, touching[2] = {0, 1}, swapped[2] = {2, 0};
    EXPECT_REFUSED(
        tuttiAllGatherV(send, 2, recv, counts, touching, tuttiInt32, comm, tuttiBlocking()),
        tuttiInvalidArgument, comm);
    EXPECT_OK(tuttiAllGatherV(send, 2, recv, counts, swapped, tuttiInt32, comm, tuttiBlocking()),
              comm);
    EXPECT_EQ(recv[0], 1);
    EXPECT_EQ(recv[2], 0);
  });
}

// ---- ranks that disagree --------------------------------------------------------------------

void expect_names(tuttiComm_t comm, int a, int b) {
  const std::string message = message_of(comm);
  for (int rank : {a, b}) {
    EXPECT_NE(message.find("rank " + std::to_string(rank)), std::string::npos) << message;
  }
}

TEST(VectorMismatch, AllToAllNamesBothSidesOnBothSides) {
  for (const size_t expected : {size_t{0}, size_t{5}, size_t{100'000}}) {
    run_ranks(3, [&](tuttiComm_t& comm, int rank) {
      set_deadline(comm, kHangMs);
      Exchange exchange(3, rank, 0, 0);
      if (rank == 1) exchange.send_counts[2] = 7;
      if (rank == 2) exchange.recv_counts[1] = expected;
      exchange.send.resize(100);
      exchange.recv.resize(200'000);
      const tuttiResult_t result = exchange.call(comm, tuttiBlocking(), true);
      if (rank == 0) {
        EXPECT_NE(result, tuttiSuccess);
      } else {
        EXPECT_EQ(result, tuttiInvalidUsage);
        EXPECT_NE(message_of(comm).find("rank 1 sends 7 elements to rank 2, which expects " +
                                        std::to_string(expected)),
                  std::string::npos)
            << message_of(comm);
      }
    });
  }
}

// The planner keeps some hundreds of plans. One that a rank once waited in for long must not be
// looked at when another call fails, long after it was dropped.
TEST(VectorMismatch, AfterMorePlansThanAreKept) {
  constexpr size_t kCounts = 14;  // such that all are small
  constexpr auto kLong = std::chrono::milliseconds(100);
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    std::vector<double> send(kCounts), recv(kCounts);
    if (rank == 0) std::this_thread::sleep_for(kLong);
    for (const auto type : {tuttiInt8, tuttiUint8, tuttiInt32, tuttiUint32, tuttiInt64, tuttiUint64,
                            tuttiFloat16, tuttiFloat32, tuttiFloat64, tuttiBfloat16}) {
      for (const auto op : {tuttiSum, tuttiProd, tuttiMax, tuttiMin}) {
        for (size_t count = 1; count < kCounts; ++count) {
          ASSERT_EQ(
              tuttiAllReduce(send.data(), recv.data(), count, type, op, comm, tuttiBlocking()),
              tuttiSuccess)
              << message_of(comm);
        }
      }
    }
    Exchange exchange(2, rank, 0, 0);
    if (rank == 0) exchange.send_counts[1] = 7;
    exchange.send.resize(100);
    exchange.recv.resize(100);
    EXPECT_EQ(exchange.call(comm, tuttiBlocking(), true), tuttiInvalidUsage);
  });
}

// Both sides of the pair agree; the third rank must not compute with it either.
TEST(VectorMismatch, AShareThatNoMemoryHolds) {
  run_ranks(3, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, kHangMs);
    constexpr size_t kHuge = size_t{1} << 59;
    Exchange exchange(3, rank, kKinds - 1, 0);  // nothing else
    if (rank == 0) exchange.send_counts[1] = kHuge;
    if (rank == 1) exchange.recv_counts[0] = kHuge;
    exchange.send.resize(100);
    exchange.recv.resize(100);
    EXPECT_EQ(exchange.call(comm, tuttiBlocking(), true), tuttiRemoteError) << message_of(comm);
    EXPECT_NE(message_of(comm).find("rank 0 "), std::string::npos) << message_of(comm);
  });
}

TEST(VectorMismatch, SharedCounts) {
  for (const bool gathers : {true, false}) {
    for (const size_t scale : {1, 5000}) {  // cells and slots
      run_ranks(2, [&](tuttiComm_t& comm, int rank) {
        set_deadline(comm, kHangMs);
        // The longest share, and so every size of the plan, is equal.
        Counts counts = {scale * 9, scale};
        if (rank == 1) std::swap(counts[0], counts[1]);
        const size_t own = counts[static_cast<size_t>(rank)];
        Values send(scale * 10, rank), recv(scale * 10);
        const tuttiResult_t result =
            gathers ? tuttiAllGatherV(send.data(), own, recv.data(), counts.data(), nullptr,
                                      tuttiInt32, comm, tuttiBlocking())
                    : tuttiReduceScatterV(send.data(), recv.data(), counts.data(), tuttiInt32,
                                          tuttiSum, comm, tuttiBlocking());
        EXPECT_NE(result, tuttiSuccess);
        expect_names(comm, 0, 1);
      });
    }
  }
}

TEST(VectorMismatch, TypesAndCollectives) {
  for (const bool other_type : {true, false}) {
    run_ranks(2, [&](tuttiComm_t& comm, int rank) {
      set_deadline(comm, kHangMs);
      Exchange exchange(2, rank, 0, 0);
      Values send(64, rank), recv(128);
      const tuttiStream_t stream = tuttiBlocking();
      tuttiResult_t result = tuttiSuccess;
      if (rank == 0) {
        result = exchange.call(comm, stream, true);
      } else if (other_type) {
        result = tuttiAllToAllV(exchange.send.data(), exchange.send_counts.data(), nullptr,
                                exchange.recv.data(), exchange.recv_counts.data(), nullptr,
                                tuttiFloat32, comm, stream);
      } else {  // as large as the count round
        result = tuttiAllToAll(send.data(), recv.data(), 3, tuttiUint64, comm, stream);
      }
      EXPECT_NE(result, tuttiSuccess);
      expect_names(comm, 0, 1);
    });
  }
}

}  // namespace
}  // namespace tutti::api_test
