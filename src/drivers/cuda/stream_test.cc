#include "src/drivers/cuda/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/drivers/cuda/software_device_test.h"

namespace tutti::drivers::cuda {
namespace {

class CudaStreams : public OnSoftwareDevice {
 protected:
  /// A list of so many copies of words 1, 2, 3 ... and where they go.
  CopyBatch copies_of_words(size_t count) {
    source_ = zeros(count * sizeof(uint32_t));
    target_ = zeros(count * sizeof(uint32_t));
    std::vector<uint32_t> words;
    for (size_t i = 0; i < count; ++i) words.push_back(static_cast<uint32_t>(i + 1));
    EXPECT_EQ(client().more.cuMemcpyHtoD(source_, words.data(), count * sizeof(uint32_t)),
              kSuccess);
    CopyBatch copies;
    for (size_t i = 0; i < count; ++i) copies.add(target_ + 4 * i, source_ + 4 * i, 4, i % 3 == 2);
    return copies;
  }
  bool all_copied(size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      if (word_at(target_ + 4 * i) != i + 1) return false;
    }
    return true;
  }
  uint64_t batches() const { return client().statistics().batches; }

 private:
  CUdeviceptr source_ = 0;
  CUdeviceptr target_ = 0;
};

// Handles come again, identities do not: the order of calls relies on it.
TEST_F(CudaStreams, HaveAnIdentityThatNoLaterOneHas) {
  std::vector<uint64_t> seen;
  bool handle_came_again = false;
  CUstream last = nullptr;
  for (int i = 0; i < 50; ++i) {
    const CudaStream own = stream();
    handle_came_again |= own.get() == last;
    last = own.get();
    const uint64_t identity = identity_of(driver(), own.get());
    EXPECT_NE(identity, 0u);
    EXPECT_EQ(identity_of(driver(), own.get()), identity);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), identity), 0);
    seen.push_back(identity);
  }
  EXPECT_TRUE(handle_came_again) << "the test has not seen what it is about";
}

TEST_F(CudaStreams, OfEachContextOrThreadHaveNoIdentity) {
  EXPECT_EQ(identity_of(driver(), nullptr), 0u);
  EXPECT_EQ(identity_of(driver(), reinterpret_cast<CUstream>(kStreamLegacy)), 0u);
  EXPECT_EQ(identity_of(driver(), reinterpret_cast<CUstream>(kStreamPerThread)), 0u);
}

TEST_F(CudaStreams, AListOfCopiesIsOneCall) {
  const CudaStream own = stream();
  CopyBatch copies = copies_of_words(20);
  const uint64_t before = batches();
  ASSERT_TRUE(copies.submit(driver(), own.get()).ok());
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(batches(), before + 1);
  EXPECT_TRUE(all_copied(20));
}

TEST_F(CudaStreams, CopiesThatCrossAreForEnginesAndOthersWhereOnlyEnginesAreWanted) {
  const CudaStream own = stream();
  CopyBatch copies = copies_of_words(20);
  EXPECT_EQ(copies.crossing(), 6u);
  for (const bool engines_alone : {false, true}) {
    const uint64_t before = client().statistics().overlapping_copies;
    ASSERT_TRUE(copies.submit(driver(), own.get(), engines_alone).ok());
    ASSERT_TRUE(own.synchronize().ok());
    EXPECT_EQ(client().statistics().overlapping_copies - before, engines_alone ? 20u : 6u);
    EXPECT_TRUE(all_copied(20));
  }
}

TEST_F(CudaStreams, ASingleCopyIsAListOnlyWhereEnginesAloneAreWanted) {
  const CudaStream own = stream();
  CopyBatch copies = copies_of_words(1);
  uint64_t before = batches();
  ASSERT_TRUE(copies.submit(driver(), own.get()).ok());
  EXPECT_EQ(batches(), before);
  ASSERT_TRUE(copies.submit(driver(), own.get(), true).ok());
  EXPECT_EQ(batches(), before + 1);
  ASSERT_TRUE(own.synchronize().ok());
}

TEST_F(CudaStreams, AListInTheLegacyStreamIsCopiedOneByOne) {
  CopyBatch copies = copies_of_words(5);
  const uint64_t before = batches();
  const auto legacy = reinterpret_cast<CUstream>(kStreamLegacy);
  for (CUstream stream : {CUstream{nullptr}, legacy}) {
    ASSERT_TRUE(copies.submit(driver(), stream).ok());
    ASSERT_EQ(driver().call.cuStreamSynchronize(stream), kSuccess);
  }
  EXPECT_EQ(batches(), before);
  EXPECT_TRUE(all_copied(5));
}

TEST_F(CudaStreams, AListInACapturedStreamBecomesNodesOfItsGraph) {
  const CudaStream own = stream();
  CopyBatch copies = copies_of_words(5);
  ASSERT_EQ(client().more.cuStreamBeginCapture(own.get(), kCaptureThreadLocal), kSuccess);
  EXPECT_TRUE(is_captured(driver(), own.get()).value());
  ASSERT_TRUE(copies.submit(driver(), own.get()).ok());
  softdev::CUgraph graph = nullptr;
  softdev::CUgraphExec run = nullptr;
  ASSERT_EQ(client().more.cuStreamEndCapture(own.get(), &graph), kSuccess);
  EXPECT_FALSE(is_captured(driver(), own.get()).value());
  EXPECT_FALSE(all_copied(5));
  ASSERT_EQ(client().more.cuGraphInstantiateWithFlags(&run, graph, 0), kSuccess);
  ASSERT_EQ(client().more.cuGraphLaunch(run, own.get()), kSuccess);
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_TRUE(all_copied(5));
  EXPECT_EQ(client().more.cuGraphExecDestroy(run), kSuccess);
  EXPECT_EQ(client().more.cuGraphDestroy(graph), kSuccess);
}

TEST_F(CudaStreams, ACaptureThatFailedIsAnErrorThatSaysSo) {
  const CudaStream own = stream();
  ASSERT_EQ(client().more.cuStreamBeginCapture(own.get(), kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(own.synchronize().code(), Code::kInvalidUsage);
  const Result<bool> captured = is_captured(driver(), own.get());
  ASSERT_FALSE(captured.ok());
  EXPECT_EQ(captured.status().code(), Code::kInvalidUsage);
  CopyBatch copies = copies_of_words(2);
  EXPECT_EQ(copies.submit(driver(), own.get()).code(), Code::kInvalidUsage);
  softdev::CUgraph graph = nullptr;
  EXPECT_EQ(client().more.cuStreamEndCapture(own.get(), &graph), kErrorStreamCaptureInvalidated);
}

TEST_F(CudaStreams, EmptyListsAndCopiesOfNothingMakeNoCall) {
  const CudaStream own = stream();
  CopyBatch copies;
  copies.add(0, 0, 0, false);
  EXPECT_EQ(copies.size(), 0u);
  EXPECT_TRUE(copies.submit(driver(), own.get()).ok());
  MemoryOps operations;
  EXPECT_TRUE(operations.submit(driver(), own.get()).ok());
}

TEST_F(CudaStreams, ACopyToNowhereNamesTheCallAndTheError) {
  const CudaStream own = stream();
  const CUdeviceptr memory = zeros(64);
  CopyBatch copies;
  copies.add(memory, memory + (1u << 30), 64, false);
  copies.add(memory, memory + 32, 16, true);
  const Status status = copies.submit(driver(), own.get());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cuMemcpyBatchAsync"), std::string::npos) << status.message();
}

TEST_F(CudaStreams, OperationsOnWordsAreInOrderAlsoBeyondOneCall) {
  const CudaStream own = stream();
  const CUdeviceptr words = zeros(64);
  MemoryOps operations;
  for (uint32_t i = 1; i <= 400; ++i) {
    operations.write_32(words, i);
    operations.wait_at_least_32(words, i);
    operations.write_64(words + 8, uint64_t{i} << 32);
    operations.wait_at_least_64(words + 8, uint64_t{i} << 32);
  }
  ASSERT_TRUE(operations.submit(driver(), own.get()).ok());
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(word_at(words), 400u);
  EXPECT_EQ(word_at(words + 12), 400u);
}

TEST_F(CudaStreams, AWaitEndsWhenTheHostStoresToPinnedMemory) {
  const CudaStream own = stream();
  auto pinned = PinnedMemory::allocate(driver(), 4096);
  ASSERT_TRUE(pinned.ok());
  auto* word = static_cast<uint64_t*>(pinned.value().data());
  *word = 0;
  MemoryOps operations;
  operations.wait_at_least_64(pinned.value().address(), 5);
  ASSERT_TRUE(operations.submit(driver(), own.get()).ok());
  EXPECT_FALSE(own.is_done().value());
  __atomic_store_n(word, 6, __ATOMIC_RELEASE);
  EXPECT_TRUE(own.synchronize().ok());
  EXPECT_TRUE(own.is_done().value());
}

TEST_F(CudaStreams, AnEventMakesAnotherStreamWait) {
  const CudaStream first = stream(), second = stream();
  auto event = CudaEvent::create(driver());
  ASSERT_TRUE(event.ok());
  EXPECT_TRUE(event.value().is_done().value());
  const CUdeviceptr words = zeros(64);
  MemoryOps held, write;
  held.wait_at_least_32(words, 1);
  held.write_32(words + 4, 7);
  ASSERT_TRUE(held.submit(driver(), first.get()).ok());
  ASSERT_TRUE(event.value().record(first.get()).ok());
  ASSERT_TRUE(event.value().make_wait(second.get()).ok());
  CopyBatch copies;
  copies.add(words + 8, words + 4, 4, false);
  ASSERT_TRUE(copies.submit(driver(), second.get()).ok());
  EXPECT_FALSE(second.is_done().value());
  EXPECT_FALSE(event.value().is_done().value());
  const CudaStream third = stream();
  write.write_32(words, 1);
  ASSERT_TRUE(write.submit(driver(), third.get()).ok());
  ASSERT_TRUE(second.synchronize().ok());
  EXPECT_TRUE(event.value().is_done().value());
  EXPECT_EQ(word_at(words + 8), 7u);
}

TEST_F(CudaStreams, MadeWhileAnotherIsCapturedAreNoneOfTheCapturesBusiness) {
  const CudaStream captured = stream();
  ASSERT_EQ(client().more.cuStreamBeginCapture(captured.get(), kCaptureGlobal), kSuccess);
  EXPECT_TRUE(CudaStream::create(driver()).ok());
  EXPECT_TRUE(DeviceMemory::allocate(driver(), 0, 64).ok());
  EXPECT_TRUE(PinnedMemory::allocate(driver(), 64).ok());
  softdev::CUgraph graph = nullptr;
  EXPECT_EQ(client().more.cuStreamEndCapture(captured.get(), &graph), kSuccess);
  EXPECT_EQ(client().more.cuGraphDestroy(graph), kSuccess);
}

}  // namespace
}  // namespace tutti::drivers::cuda
