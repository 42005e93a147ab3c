// Sends tokens to experts over two groups: experts are spread over ep, and each of them is split
// over etp (MoE Parallel Folding, arXiv:2504.14960, and the dispatcher of Megatron-Core; exact).
//
// dispatch() puts rows into expert order, runs an all_to_all in ep and an all_gather in etp, and
// sorts the rows by local expert. combine() goes back the same way, with a reduce_scatter in etp,
// which adds the parts of a split expert. The host waits at one point only: for the exchange of
// counts in prepare().
//
// Backward: the gradient of combine() is a dispatch and that of dispatch() a combine, of the same
// rows and with the same counts, which are not exchanged again: dispatch_gradients(), then
// combine_gradients(). In etp an all_gather takes the place of the reduce_scatter and the reverse.
//
// Units:    rows of `width` elements of a type: float32, or bfloat16 and float16, whose weighted
// sums
//           are added in float32 and rounded once. Buffers of these are bytes. Expert e belongs to
//           place e / (experts / ep) of ep.
// Owns:     staging rows; communicators are the caller's, and only this object's while it works.
// Ordering: collective over all ranks of etp x ep, which are one group of a mesh with both axes,
//           etp before ep (mesh.groups({"etp", "ep"})).
// Threads:  one at a time.
// Errors:   throws Error: experts that ep does not divide, groups that do not multiply, wrong
//           sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/runtime/counters.h"
#include "tutti/runtime/moe_index.h"

namespace tutti::runtime {

struct DispatcherGroups {
  tuttiComm_t all = nullptr;  // etp x ep
  tuttiComm_t ep = nullptr;
  tuttiComm_t etp = nullptr;
};

class TUTTI_RUNTIME_API TokenDispatcher {
 public:
  TokenDispatcher(const DispatcherGroups& groups, int experts, int width,
                  tuttiDataType_t type = tuttiFloat32);
  ~TokenDispatcher();

  /// `topk` is as for build_index(), for this rank's tokens. `capacity` is the most of this rank's
  /// own tokens for each expert, or kDropless.
  const DispatchIndex& prepare(std::span<const int32_t> topk, int k, int64_t capacity = kDropless);
  /// May be called again with the same counts: prepare() is needed where the routing changes.
  /// `x` has the rows of this rank's tokens. Returns the rows of this rank's experts, ordered by
  /// expert, of which each begins at its entry of offsets(). The caller overwrites them with the
  /// results; they are valid until combine().
  std::span<std::byte> dispatch(std::span<const std::byte> x);
  std::span<float> dispatch(std::span<const float> x);
  const std::vector<int64_t>& offsets() const { return offsets_; }
  /// `weights` has one entry for each slot of this rank's tokens. `out` gets the rows of this
  /// rank's tokens: the weighted sums of their experts' results.
  void combine(std::span<const float> weights, std::span<std::byte> out);
  void combine(std::span<const float> weights, std::span<float> out);

  /// The backward pass of the last combine(), with its weights. `out_gradients` has the rows of
  /// this rank's tokens; `weight_gradients` gets an entry for each slot (0 for dropped ones).
  /// Returns the gradients of the results of this rank's experts, in the order of dispatch(). The
  /// caller overwrites them with the gradients of what dispatch() returned.
  std::span<std::byte> dispatch_gradients(std::span<const std::byte> out_gradients,
                                          std::span<const float> weights,
                                          std::span<float> weight_gradients);
  std::span<float> dispatch_gradients(std::span<const float> out_gradients,
                                      std::span<const float> weights,
                                      std::span<float> weight_gradients);
  /// The backward pass of dispatch(): x_gradients gets the rows of this rank's tokens.
  void combine_gradients(std::span<std::byte> x_gradients);
  void combine_gradients(std::span<float> x_gradients);

 private:
  enum class Stage { kNew, kPrepared, kDispatched, kCombined, kBackward };
  struct Part {            // rows of one source for one expert
    int64_t gathered = 0;  // place in the gathered rows
    int64_t sorted = 0;    // place in the rows by expert
    int64_t rows = 0;
  };
  void plan_exchange(const Counts& counts);
  void plan_sorting(const Counts& counts);
  std::span<std::byte> send_permuted();
  void fetch_permuted();
  void all_to_all(const void* send, const std::vector<size_t>& send_counts, void* recv,
                  const std::vector<size_t>& recv_counts);
  void expect_floats() const;
  void expect_rows(std::span<const std::byte> rows) const;
  void reduce(std::span<const float> weights, std::span<std::byte> out) const;
  std::byte* permuted(int64_t row) { return permuted_.data() + row * row_; }
  const std::byte* permuted(int64_t row) const { return permuted_.data() + row * row_; }

  DispatcherGroups groups_;
  int experts_, width_;
  tuttiDataType_t type_;
  int64_t row_ = 0;  // bytes
  class Values;      // numbers of rows, as floats
  std::unique_ptr<Values> values_;
  int ep_ = 0, ep_place_ = 0, etp_ = 0, etp_place_ = 0;
  CounterSync counters_;
  Stage stage_ = Stage::kNew;
  DispatchIndex index_;
  std::vector<size_t> to_ep_, from_ep_, of_etp_;  // elements
  std::vector<Part> parts_;
  std::vector<int64_t> offsets_;
  std::vector<std::byte> permuted_, received_, gathered_, sorted_;
};

}  // namespace tutti::runtime
