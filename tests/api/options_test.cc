// Options and explain: forced algorithms, deterministic calls, deadlines, and errors that stay.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/support/algorithm_names.h"
#include "tests/support/decimal_comma.h"

namespace tutti::api_test {
namespace {

tuttiResult_t set(tuttiComm_t comm, const char* algorithm, bool deterministic = false) {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.algorithm = algorithm;
  options.deterministic = deterministic ? 1 : 0;
  return tuttiCommSetOptions(comm, &options);
}

std::string explain(tuttiComm_t comm, const char* collective, size_t count) {
  size_t needed = 0;
  EXPECT_EQ(tuttiExplain(comm, collective, count, tuttiFloat32, nullptr, 0, &needed),
            tuttiInvalidArgument);
  std::vector<char> text(needed);
  EXPECT_OK(tuttiExplain(comm, collective, count, tuttiFloat32, text.data(), needed, &needed),
            comm);
  EXPECT_EQ(text.back(), '\0');
  return text.data();
}

tuttiResult_t reduce(tuttiComm_t comm) {
  const float send = 1;
  float recv = 0;
  return tuttiAllReduce(&send, &recv, 1, tuttiFloat32, tuttiSum, comm, tuttiBlocking());
}

TEST(Options, MalformedOnesAreRefused) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.size = 4;
    EXPECT_REFUSED(tuttiCommSetOptions(comm, &options), tuttiInvalidArgument, comm);
    options = TUTTI_OPTIONS_INITIALIZER;
    options.deterministic = 5;
    EXPECT_REFUSED(tuttiCommSetOptions(comm, &options), tuttiInvalidArgument, comm);
    for (const char* wrong : {"no_such_algorithm", "ring:0", "ring:x", "ring:99", ":", "ring:"}) {
      const tuttiResult_t result = set(comm, wrong);
      // A name may be refused at once or by the first call that would use it.
      if (result == tuttiSuccess) {
        EXPECT_EQ(reduce(comm), tuttiInvalidArgument) << wrong;
      } else {
        EXPECT_EQ(result, tuttiInvalidArgument) << wrong;
      }
      EXPECT_FALSE(message_of(comm).empty());
    }
    EXPECT_OK(tuttiCommSetOptions(comm, nullptr), comm);
    EXPECT_OK(reduce(comm), comm);
  });
}

// As tuttiConfig_t: read as far as both versions know it, and nothing is ignored in silence.
TEST(Options, SizesOfOtherVersions) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    struct {
      tuttiOptions_t known = TUTTI_OPTIONS_INITIALIZER;
      unsigned char newer[16] = {};
    } larger;
    larger.known.size = sizeof larger;
    EXPECT_OK(tuttiCommSetOptions(comm, &larger.known), comm);
    larger.newer[15] = 1;
    EXPECT_REFUSED(tuttiCommSetOptions(comm, &larger.known), tuttiInvalidArgument, comm);
    EXPECT_NE(message_of(comm).find("newer"), std::string::npos) << message_of(comm);
    larger.known.size = size_t{1} << 40;
    EXPECT_REFUSED(tuttiCommSetOptions(comm, &larger.known), tuttiInvalidArgument, comm);

    tuttiOptions_t smaller = TUTTI_OPTIONS_INITIALIZER;
    smaller.size = offsetof(tuttiOptions_t, timeout_ns) + 1;
    smaller.algorithm = "no_such";
    EXPECT_REFUSED(tuttiCommSetOptions(comm, &smaller), tuttiInvalidArgument, comm);
    smaller.algorithm = nullptr;
    smaller.timeout_ns = 1;  // not read: half of it is behind the end
    EXPECT_OK(tuttiCommSetOptions(comm, &smaller), comm);
    EXPECT_OK(reduce(comm), comm);
  });
}

TEST(Options, AForcedAlgorithmIsWhatRuns) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    for (const auto& algorithm : testing_support::listed_algorithms()) {
      EXPECT_OK(set(comm, algorithm.name.c_str()), comm);
      const std::string text = explain(comm, algorithm.collective.c_str(), 1000);
      EXPECT_NE(text.find(": " + algorithm.name), std::string::npos) << text;
    }
    EXPECT_OK(tuttiCommSetOptions(comm, nullptr), comm);
    EXPECT_OK(reduce(comm), comm);
  });
}

// Registering gathers what the ranks know of their memory.
TEST(Options, AForcedAlgorithmIsForTheCallersCalls) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    constexpr size_t kBytes = 1 << 16;
    void* memory = nullptr;
    void* registered = nullptr;
    tuttiWindow_t window = nullptr;
    EXPECT_OK(set(comm, "double_binary_tree"), comm);
    EXPECT_OK(tuttiMemAlloc(&memory, kBytes), nullptr);
    EXPECT_OK(tuttiCommRegister(comm, memory, kBytes, &registered), comm);
    EXPECT_OK(tuttiCommDeregister(comm, registered), comm);
    EXPECT_OK(tuttiCommWindowRegister(comm, memory, kBytes, &window, 0), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
    EXPECT_OK(reduce(comm), comm);
    tuttiMemFree(memory);
  });
}

TEST(Options, DeterministicRefusesOtherOrders) {
  run_ranks(3, [](tuttiComm_t& comm, int) {
    EXPECT_OK(set(comm, "ring", true), comm);
    EXPECT_NE(reduce(comm), tuttiSuccess);
    EXPECT_NE(message_of(comm).find("ring"), std::string::npos) << message_of(comm);
    EXPECT_OK(set(comm, "recursive_doubling", true), comm);
    EXPECT_OK(reduce(comm), comm);
    EXPECT_OK(set(comm, nullptr, true), comm);
    EXPECT_OK(reduce(comm), comm);
  });
}

TEST(Options, ADeadlineNamesWhomItWaitedForAndStays) {
  std::atomic<bool> over{false};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    if (rank == 1) {
      while (!over.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    set_deadline(comm, 50);
    EXPECT_REFUSED(reduce(comm), tuttiTimeout, comm);
    const std::string first = message_of(comm);
    EXPECT_NE(first.find("rank 1"), std::string::npos) << first;
    EXPECT_NE(first.find("all_reduce"), std::string::npos) << first;
    EXPECT_EQ(tuttiBarrier(comm, tuttiBlocking()), tuttiTimeout);
    EXPECT_EQ(message_of(comm), first);
    tuttiResult_t error = tuttiSuccess;
    EXPECT_EQ(tuttiCommGetAsyncError(comm, &error), tuttiSuccess);
    EXPECT_EQ(error, tuttiTimeout);
    over.store(true);
  });
}

TEST(Options, SetInAGroupAreForLaterCalls) {
  constexpr auto kLate = std::chrono::milliseconds(300);
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    tuttiWindow_t window = nullptr;
    ASSERT_EQ(tuttiCommWindowRegister(comm, nullptr, 0, &window, 0), tuttiSuccess);
    if (rank == 0) {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiWaitSignal(1, window, 0, 1, tuttiBlocking()), comm);
      set_deadline(comm, 1);
      EXPECT_OK(tuttiGroupEnd(), comm);
      set_deadline(comm, 0);
    } else {
      std::this_thread::sleep_for(kLate);
      EXPECT_OK(tuttiSignal(0, window, 0, tuttiBlocking()), comm);
    }
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_OK(tuttiCommWindowDeregister(comm, window), comm);
  });
}

// A limit of the communicator's holds for those of a group that bring none.
TEST(Options, TheLeastDeadlineOfAGroupOfTransfers) {
  constexpr uint64_t kShortNs = 200'000'000;
  constexpr auto kLong = std::chrono::seconds(60);
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeout_ns = kShortNs;
    tuttiComm_t made = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &made, &config), tuttiSuccess) << message_of(nullptr);
    if (rank == 0) {
      const auto begin = std::chrono::steady_clock::now();
      int values[2];
      tuttiCall_t call = call_of(tuttiCollRecv, nullptr, &values[1], 1);
      call.root = 1;
      tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
      options.timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(kLong).count());
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiRecv(&values[0], 1, tuttiInt32, 1, made, tuttiBlocking()), made);
      EXPECT_OK(tuttiSubmit(&call, made, tuttiBlocking(), &options, nullptr), made);
      EXPECT_EQ(tuttiGroupEnd(), tuttiTimeout);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
    }
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    tuttiCommAbort(made);
  });
}

// Three digits, whatever the program's locale.
TEST(Options, ExplainWritesNumbersForPeople) {
  const testing_support::DecimalComma locale;
  run_ranks(2, [](tuttiComm_t& comm, int) {
    const std::regex number(R"(predicted ([0-9.,]+) us)");
    for (const size_t count : {size_t{1}, size_t{100'000}}) {
      const std::string text = explain(comm, "all_reduce", count);
      const std::string written(R"(\d{3,}|\d\d\.\d|\d\.\d\d|0\.0*\d{3})");
      std::sregex_iterator found(text.begin(), text.end(), number), none;
      EXPECT_NE(found, none) << text;
      for (; found != none; ++found) {
        EXPECT_TRUE(std::regex_match((*found)[1].str(), std::regex(written))) << found->str();
      }
    }
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  });
}

TEST(Options, ExplainTellsTheRoundsOfAVectorCall) {
  run_ranks(3, [](tuttiComm_t& comm, int) {
    const auto has = [](const std::string& text, const char* part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(explain(comm, "all_gather_v", 100), "all_gather_v of shares up to 100 float on 3 ranks: ");
    EXPECT_EQ(explain(comm, "reduce_scatter_v", 100).find("round"), std::string::npos);
    EXPECT_OK(set(comm, "pairwise"), comm);
    has(explain(comm, "all_to_all_v", 1000), ": pairwise, staged, ");
    has(explain(comm, "all_to_all_v", 1000), ", after a count round\n");
    EXPECT_OK(set(comm, "bruck"), comm);
    has(explain(comm, "all_to_all_v", 100'000), ", after a count round and a size round\n");
    EXPECT_OK(set(comm, nullptr), comm);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  });
}

TEST(Options, ExplainKnowsCallsOfTwoRanks) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    EXPECT_NE(explain(comm, "send", 1000).find("send of 1000 float on 2 ranks: "),
              std::string::npos);
    for (const std::string call : {"put", "get"}) {
      const std::string text = explain(comm, call.c_str(), 1000);
      EXPECT_EQ(text.find(call + " of 4000 bytes on 2 ranks: by the caller, in the memory of the "
                                 "window, predicted "),
                0U)
          << text;
      EXPECT_NE(text.find(", over "), std::string::npos) << text;
    }
    EXPECT_EQ(explain(comm, "signal", 1000).find("signal on 2 ranks: by the caller"), 0U);
    EXPECT_EQ(explain(comm, "wait_signal", 0).find("wait_signal on 2 ranks: the peer"), 0U);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
  });
}

TEST(Options, ExplainRefusesWhatItDoesNotKnow) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    char text[4096];
    size_t needed = 0;
    EXPECT_REFUSED(tuttiExplain(comm, "no_such", 1, tuttiInt8, text, sizeof text, &needed),
                   tuttiInvalidArgument, comm);
    const std::string known = tuttiGetLastError(comm);
    EXPECT_NE(known.find("all_to_all_v, send, recv, put, get, signal, wait_signal"),
              std::string::npos)
        << known;
    for (const char* unknown : {"", "all_reduce_v", static_cast<const char*>(nullptr)}) {
      EXPECT_REFUSED(tuttiExplain(comm, unknown, 1, tuttiInt8, text, sizeof text, &needed),
                     tuttiInvalidArgument, comm);
    }
    EXPECT_REFUSED(tuttiExplain(comm, "all_reduce", 1, static_cast<tuttiDataType_t>(77), text,
                                sizeof text, &needed),
                   tuttiInvalidArgument, comm);
    EXPECT_OK(tuttiExplain(comm, "barrier", 0, tuttiInt8, text, sizeof text, nullptr), comm);
  });
}

}  // namespace
}  // namespace tutti::api_test
