// Facts about copies, batches of copies, and operations on words.
#include <vector>

#include "tests/software_device/conformance/facts.h"

namespace softdev {
namespace {

BatchAttributes in_stream_order() {
  BatchAttributes attributes;
  attributes.attributes.srcAccessOrder = kSourceInStreamOrder;
  return attributes;
}

std::string batch(const Bench& bench, const BatchAttributes& attributes, CUstream stream) {
  const CUdeviceptr memory = bench.zeros();
  return bench.name(bench.copy_batch(memory, memory + 1024, attributes, stream));
}

std::string batch_without_attributes(const Bench& bench) {
  BatchAttributes attributes = in_stream_order();
  attributes.given = 0;
  return batch(bench, attributes, bench.stream());
}

std::string batch_whose_first_has_no_attributes(const Bench& bench) {
  BatchAttributes attributes = in_stream_order();
  attributes.first = 1;
  return batch(bench, attributes, bench.stream());
}

std::string batch_in_capture(const Bench& bench) {
  CUstream stream = bench.stream();
  const CUdeviceptr memory = bench.zeros();
  bench.more.cuStreamBeginCapture(stream, kCaptureThreadLocal);
  return bench.name(bench.copy_batch(memory, memory + 1024, in_stream_order(), stream));
}

std::string writes_of(const Bench& bench, unsigned how_many) {
  CUstreamBatchMemOpParams one{};
  one.operation = kWriteValue32;
  one.address = bench.zeros();
  std::vector<CUstreamBatchMemOpParams> all(how_many, one);
  return bench.name(bench.call.cuStreamBatchMemOp(bench.stream(), how_many, all.data(), 0));
}

std::string write_without_fence(const Bench& bench) {
  return bench.name(
      bench.more.cuStreamWriteValue32(bench.stream(), bench.zeros(), 1, kWriteNoBarrier));
}

std::string write_to_pageable(const Bench& bench) {
  static uint32_t word = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(&word);
  return bench.name(bench.more.cuStreamWriteValue32(bench.stream(), address, 1, 0));
}

std::string wait_after_write(const Bench& bench, uint32_t written, uint32_t value, unsigned flags) {
  const CUdeviceptr word = bench.zeros();
  CUstream stream = bench.stream();
  bench.more.cuStreamWriteValue32(stream, word, written, 0);
  bench.more.cuStreamWaitValue32(stream, word, value, flags);
  return bench.end_of(stream);
}

std::string wide_wait_after_write(const Bench& bench, uint64_t written, uint64_t value) {
  const CUdeviceptr word = bench.zeros();
  CUstream stream = bench.stream();
  bench.more.cuStreamWriteValue64(stream, word, written, 0);
  bench.more.cuStreamWaitValue64(stream, word, value, kWaitAtLeast);
  return bench.end_of(stream);
}

std::string copies_behind_writes(const Bench& bench) {
  const CUdeviceptr words = bench.zeros();
  CUstream stream = bench.stream();
  for (uint32_t i = 1; i <= 200; ++i) {
    bench.more.cuStreamWriteValue32(stream, words, i, 0);
    bench.call.cuMemcpyAsync(words + 64, words, 4, stream);
  }
  bench.call.cuStreamSynchronize(stream);
  return std::to_string(bench.word_at(words + 64));
}

std::string word_across_lines(const Bench& bench) {
  return bench.name(bench.more.cuStreamWriteValue64(bench.stream(), bench.zeros() + 4, 1, 0));
}

}  // namespace

std::vector<Fact> copy_facts() {
  constexpr Source kSaid = Source::kDocumented, kTaken = Source::kAssumed;
  constexpr const char* kRefused = "CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_NOT_FOUND";
  return {
      {"a batch of copies in the legacy stream", kRefused, kSaid,
       [](const Bench& bench) { return batch(bench, in_stream_order(), nullptr); }},
      {"a batch of copies without attributes", kRefused, kSaid, batch_without_attributes},
      {"a batch of copies whose source may be read never", kRefused, kSaid,
       [](const Bench& bench) { return batch(bench, {}, bench.stream()); }},
      {"a batch of copies whose first attribute is not for the first", kRefused, kSaid,
       batch_whose_first_has_no_attributes},
      {"a batch of copies in a captured stream",
       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED | CUDA_ERROR_NOT_FOUND", kTaken, batch_in_capture},
      {"255 operations on words in one call", "CUDA_SUCCESS", kSaid,
       [](const Bench& bench) { return writes_of(bench, 255); }},
      {"256 operations on words in one call", "CUDA_ERROR_INVALID_VALUE", kSaid,
       [](const Bench& bench) { return writes_of(bench, 256); }},
      {"a write of 64 bits to an address that is none of 8", "CUDA_ERROR_INVALID_VALUE", kTaken,
       word_across_lines},
      {"a write without its fence", "CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_NOT_SUPPORTED", kSaid,
       write_without_fence},
      {"a write to pageable memory", "CUDA_ERROR_INVALID_VALUE", kTaken, write_to_pageable},
      {"1 is at least 0xffffffff: waits compare cyclically", "CUDA_SUCCESS", kSaid,
       [](const Bench& bench) { return wait_after_write(bench, 1, 0xffffffff, kWaitAtLeast); }},
      {"the same with 64 bits", "CUDA_SUCCESS", kSaid,
       [](const Bench& bench) { return wide_wait_after_write(bench, 1, ~uint64_t{0}); }},
      {"0x80000001 is not at least 1", "hang", kSaid,
       [](const Bench& bench) { return wait_after_write(bench, 0x80000001, 1, kWaitAtLeast); }},
      {"6 has a bit of 4", "CUDA_SUCCESS", kSaid,
       [](const Bench& bench) { return wait_after_write(bench, 6, 4, kWaitAnd); }},
      {"6 equals 6", "CUDA_SUCCESS", kSaid,
       [](const Bench& bench) { return wait_after_write(bench, 6, 6, kWaitEqual); }},
      {"7 does not equal 6", "hang", kSaid,
       [](const Bench& bench) { return wait_after_write(bench, 7, 6, kWaitEqual); }},
      {"copies and writes of one stream are in order", "200", kSaid, copies_behind_writes},
  };
}

}  // namespace softdev
