#include "tutti/runtime/moe_index.h"

#include <cmath>
#include <limits>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

DispatchIndex build_index(std::span<const int32_t> topk, int k, int experts, int64_t capacity) {
  require(k >= 1, "k is ", k, "; a token goes to 1 expert or more");
  require(experts >= k, "k is ", k, " of ", experts, " experts; choose distinct experts");
  require(topk.size() % at(k) == 0, topk.size(), " choices are not a multiple of k = ", k);
  require(topk.size() <= at(std::numeric_limits<int32_t>::max()), topk.size(),
          " choices are beyond 2^31 - 1; dispatch in parts");
  require(capacity >= kDropless, "the capacity is ", capacity, "; give 0 or more, or kDropless");
  DispatchIndex index;
  index.tokens = std::ssize(topk) / k;
  index.k = k;
  index.experts = experts;
  index.expert_of_slot.assign(topk.begin(), topk.end());
  std::vector<int64_t> last_token(at(experts), -1), counts(at(experts), 0);
  for (int64_t slot = 0; slot < std::ssize(topk); ++slot) {
    const int32_t expert = topk[at(slot)];
    require(expert >= 0 && expert < experts, "token ", slot / k, " goes to expert ", expert,
            ", there are ", experts);
    require(last_token[at(expert)] != slot / k, "token ", slot / k, " goes to expert ", expert,
            " twice; its choices must be distinct");
    last_token[at(expert)] = slot / k;
    if (capacity == kDropless || counts[at(expert)] < capacity) ++counts[at(expert)];
  }
  index.expert_offsets.assign(at(experts) + 1, 0);
  for (int e = 0; e < experts; ++e) {
    index.expert_offsets[at(e) + 1] =
        index.expert_offsets[at(e)] + static_cast<int32_t>(counts[at(e)]);
  }
  index.token_of_row.resize(at(index.expert_offsets.back()));
  index.row_of_slot.assign(topk.size(), -1);
  std::vector<int32_t> next(index.expert_offsets.begin(), index.expert_offsets.end() - 1);
  for (int64_t slot = 0; slot < std::ssize(topk); ++slot) {
    const size_t expert = at(topk[at(slot)]);
    if (next[expert] == index.expert_offsets[expert + 1]) continue;  // full: dropped
    index.row_of_slot[at(slot)] = next[expert];
    index.token_of_row[at(next[expert]++)] = static_cast<int32_t>(slot / k);
  }
  return index;
}

int64_t expert_capacity(double factor, int64_t tokens, int k, int experts) {
  require(std::isfinite(factor) && factor >= 1, "the capacity factor is ", factor,
          "; below 1 tokens are dropped even when experts are balanced, give 1 or more");
  require(tokens >= 0 && k >= 1 && experts >= 1, "tokens ", tokens, ", k ", k, ", experts ",
          experts, " cannot be");
  const int64_t slots = checked_product(tokens, k, "tokens * k");
  return checked_round(std::ceil(factor * static_cast<double>(slots) / experts),
                       "the capacity of an expert");
}

void reduce_rows(const DispatchIndex& index, std::span<const float> rows,
                 std::span<const float> weights, int width, std::span<float> out) {
  require(width >= 1 && std::ssize(rows) == index.rows() * width &&
              std::ssize(out) == index.tokens * width && weights.size() == index.row_of_slot.size(),
          "rows of ", width, ": ", rows.size(), " floats in, ", out.size(), " out and ",
          weights.size(), " weights do not fit ", index.rows(), " rows and ", index.tokens,
          " tokens");
  for (int64_t t = 0; t < index.tokens; ++t) {
    float* to = out.data() + t * width;
    for (int w = 0; w < width; ++w) to[w] = 0;
    for (int64_t slot = t * index.k; slot < (t + 1) * index.k; ++slot) {
      if (index.row_of_slot[at(slot)] < 0) continue;
      const float* from = rows.data() + int64_t{index.row_of_slot[at(slot)]} * width;
      for (int w = 0; w < width; ++w) to[w] += weights[at(slot)] * from[w];
    }
  }
}

}  // namespace tutti::runtime
