#include "src/exec/encoded_fold.h"

#include <algorithm>
#include <cstring>

namespace tutti::exec {

std::vector<EncodedForm> forms_of(const plan::Plan& plan) {
  std::vector<EncodedForm> forms;
  const auto add = [&](const codecs::Codec& codec) {
    forms.push_back({codec, codec.family->kernels(), false});
  };
  add(plan::codec_of(plan.type).value());
  forms[0].is_fp32 = plan.type == types::DataType::kFloat32;
  for (const codecs::Codec& codec : plan.codecs) add(codec);
  return forms;
}

types::FoldKernel sum_of_encoded(const types::FoldKey& key) {
  if (key.source_count == 1 && !key.scaled) return nullptr;
  return types::fold_kernel({.type = types::DataType::kFloat32,
                             .op = key.op,
                             .order = key.order,
                             .source_count = key.source_count,
                             .scaled = key.scaled});
}

void EncodedFold::begin(std::span<const EncodedForm> forms, types::FoldKernel sum) {
  forms_ = forms;
  sum_ = sum;
  scaled_ = nullptr;
  targets_.clear();
  sources_.clear();
}

// Blocks of all operands end where a chunk does: longer ones are multiples of shorter ones.
uint64_t EncodedFold::chunk_values() const {
  constexpr uint64_t kLeast = 2048;
  uint64_t block = 1;
  for (const auto* places : {&targets_, &sources_}) {
    for (const EncodedOperand& place : *places) {
      block = std::max(block, plan::block_of(forms_[place.encoding].codec));
    }
  }
  return (kLeast + block - 1) / block * block;
}

Status EncodedFold::run(uint64_t values) {
  chunk_ = std::min(chunk_values(), values);
  room_.resize(std::max(room_.size(), (sources_.size() + 1) * chunk_));
  values_.resize(sources_.size());
  for (uint64_t begin = 0; begin < values; begin += chunk_) {
    if (run(Chunk{begin, std::min(chunk_, values - begin)})) continue;
    return Status::remote_error(
        "encoded bytes came that no encoder writes: the ranks have different versions of Tutti, "
        "or memory is damaged");
  }
  return {};
}

/// Null for bytes that no encoder writes.
const std::byte* EncodedFold::decoded(size_t source, const Chunk& chunk) {
  const EncodedOperand& place = sources_[source];
  const EncodedForm& form = forms_[place.encoding];
  const std::byte* bytes = at(place, chunk);
  if (form.is_fp32) return bytes;
  float* values = room(source + 1);
  const auto decode = form.kernels.decode[static_cast<int>(codecs::Sink::kStore)];
  if (!decode(form.codec.numbers, bytes, {values, chunk.count})) return nullptr;
  if (place.encoding != 0 && sum_ != nullptr) round_to_elements({values, chunk.count});
  return reinterpret_cast<const std::byte*>(values);
}

// Other ranks may read the same value as elements of memory, which hold less than fp32.
void EncodedFold::round_to_elements(std::span<float> values) {
  const EncodedForm& form = forms_[0];
  if (form.is_fp32) return;
  auto* elements = reinterpret_cast<std::byte*>(room(0));
  form.kernels.encode(form.codec.numbers, values, elements);
  form.kernels.decode[static_cast<int>(codecs::Sink::kStore)](form.codec.numbers, elements, values);
}

bool EncodedFold::run(const Chunk& chunk) {
  const bool only_decodes = sum_ == nullptr && targets_.size() == 1 && !is_fp32(sources_[0]);
  if (only_decodes && is_fp32(targets_[0])) {
    const EncodedForm& form = forms_[sources_[0].encoding];
    auto* values = reinterpret_cast<float*>(at(targets_[0], chunk));
    const auto decode = form.kernels.decode[static_cast<int>(codecs::Sink::kStore)];
    return decode(form.codec.numbers, at(sources_[0], chunk), {values, chunk.count});
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    values_[i] = decoded(i, chunk);
    if (values_[i] == nullptr) return false;
  }
  if (sum_ == nullptr) return store(reinterpret_cast<const float*>(values_[0]), chunk);
  const bool is_plain = targets_.size() == 1 && is_fp32(targets_[0]);
  auto* sum = is_plain ? at(targets_[0], chunk) : reinterpret_cast<std::byte*>(room(0));
  types::FoldCall call{&sum, values_.data(), 1, static_cast<uint32_t>(sources_.size()),
                       chunk.count};
  if (scaled_ != nullptr) {
    call.scaled = scaled_;
    call.scale = scale_;
  }
  sum_(call);
  return is_plain || store(room(0), chunk);
}

bool EncodedFold::store(const float* values, const Chunk& chunk) {
  const auto decode_index = static_cast<int>(codecs::Sink::kStore);
  for (const EncodedOperand& target : targets_) {
    const EncodedForm& form = forms_[target.encoding];
    std::byte* bytes = at(target, chunk);
    if (form.is_fp32) {
      std::memmove(bytes, values, chunk.count * sizeof(float));
      continue;
    }
    form.kernels.encode(form.codec.numbers, {values, chunk.count}, bytes);
    if (target.encoding == 0 || &target == &targets_.back()) continue;
    if (!form.kernels.decode[decode_index](form.codec.numbers, bytes, {room(0), chunk.count})) {
      return false;
    }
    values = room(0);
  }
  return true;
}

}  // namespace tutti::exec
