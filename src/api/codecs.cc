// The codecs of codecs.h: check every argument, then the kernels.
#include "tutti/codecs.h"

#include <cstring>
#include <limits>
#include <string>

#include "src/api/caught.h"
#include "src/api/structure.h"
#include "src/base/decimal.h"
#include "src/codecs/bodies.h"
#include "src/codecs/codec.h"

namespace tutti::api {
namespace {

using codecs::Codec;

constexpr size_t kMostValues = std::numeric_limits<ptrdiff_t>::max() / sizeof(float);

tuttiCodec_t shown(const Codec& codec) {
  tuttiCodec_t value{};
  codec.family->name.copy(value.name, sizeof value.name - 1);
  value.block = codec.numbers.block;
  value.kept = codec.numbers.kept;
  value.bits = codec.numbers.bits;
  return value;
}

Status not_null(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return Status::invalid_argument(std::string(name) + " is null");
}

Result<Codec> codec_of(const tuttiCodec_t* given) {
  if (Status status = not_null(given, "codec"); !status.ok()) return status;
  const size_t length = strnlen(given->name, sizeof given->name);
  const Codec codec{codecs::find_codec({given->name, length}),
                    {given->block, given->kept, given->bits}};
  if (codec.family == nullptr || given->reserved != 0) {
    return Status::invalid_argument("this is no codec; make one by tuttiCodecParse()");
  }
  if (Status status = codec.family->check(codec.numbers); !status.ok()) return status;
  return codec;
}

/// Values and encoded bytes of a call.
struct CodedCall {
  const tuttiCodec_t* codec;
  const void* values;
  const char* name;  // of the values
  size_t count;
  const void* encoded;
};

Result<Codec> checked(const CodedCall& call) {
  Result<Codec> codec = codec_of(call.codec);
  if (!codec.ok()) return codec;
  if (call.count > kMostValues) {
    return Status::invalid_argument(std::to_string(call.count) +
                                    " values are more than an address space holds");
  }
  if (call.count == 0) return codec;
  if (Status status = not_null(call.values, call.name); !status.ok()) return status;
  if (Status status = not_null(call.encoded, "encoded"); !status.ok()) return status;
  const auto values = reinterpret_cast<uintptr_t>(call.values);
  const auto encoded = reinterpret_cast<uintptr_t>(call.encoded);
  const uint64_t bytes = codec.value().family->bytes(codec.value().numbers, call.count);
  if (values < encoded + bytes && encoded < values + call.count * sizeof(float)) {
    return Status::invalid_argument(std::string(call.name) + " and encoded overlap");
  }
  return codec;
}

Status cannot_carry(const Codec& codec, size_t index, float limit) {
  return Status::invalid_argument(
      "value " + std::to_string(index) + " is not finite or beyond " + three_digits(limit) +
      ", which " + codec_text(codec) +
      " cannot carry; leave this step out, clip the values, or take bf16");
}

Status parse(const char* text, tuttiCodec_t* codec) {
  if (Status status = not_null(text, "text"); !status.ok()) return status;
  if (Status status = not_null(codec, "codec"); !status.ok()) return status;
  const Result<Codec> parsed = codecs::parse_codec(text);
  if (parsed.ok()) *codec = shown(parsed.value());
  return parsed.status();
}

Status write_text(const tuttiCodec_t* given, char* text, size_t bytes) {
  const Result<Codec> codec = codec_of(given);
  if (!codec.ok()) return codec.status();
  if (Status status = not_null(text, "text"); !status.ok()) return status;
  const std::string whole = codec_text(codec.value());
  if (whole.size() >= bytes) {
    return Status::invalid_argument("the text needs " + std::to_string(whole.size() + 1) +
                                    " bytes");
  }
  std::memcpy(text, whole.c_str(), whole.size() + 1);
  return {};
}

Status list(int index, tuttiCodec_t* codec) {
  if (Status status = not_null(codec, "codec"); !status.ok()) return status;
  const auto families = codecs::codec_families();
  if (index < 0 || static_cast<size_t>(index) >= families.size()) {
    return Status::invalid_argument("there are " + std::to_string(families.size()) +
                                    " codecs, counted from 0");
  }
  const auto& family = families[static_cast<size_t>(index)];
  *codec = shown({&family, family.usual});
  return {};
}

Status get_facts(const tuttiCodec_t* given, tuttiCodecFacts_t* facts) {
  const Result<Codec> codec = codec_of(given);
  if (!codec.ok()) return codec.status();
  if (Status status = not_null(facts, "facts"); !status.ok()) return status;
  if (facts->size < sizeof *facts) {
    return Status::invalid_argument("facts.size is " + std::to_string(facts->size) +
                                    "; set it to sizeof(tuttiCodecFacts_t)");
  }
  const auto known = codec.value().family->facts(codec.value().numbers);
  facts->relative = known.relative;
  facts->of_largest = known.of_largest;
  facts->least = known.least;
  facts->saturates = known.saturates;
  facts->accepts = known.accepts;
  facts->conserves = known.conserves;
  return {};
}

Status get_bytes(const tuttiCodec_t* given, size_t count, size_t* bytes) {
  const Result<Codec> codec = codec_of(given);
  if (!codec.ok()) return codec.status();
  if (Status status = not_null(bytes, "bytes"); !status.ok()) return status;
  if (count > kMostValues) return Status::invalid_argument("count is beyond any memory");
  *bytes = codec.value().family->bytes(codec.value().numbers, count);
  return {};
}

Status encode(const CodedCall& call, void* encoded, int flags) {
  const Result<Codec> codec = checked(call);
  if (!codec.ok()) return codec.status();
  if (flags != TUTTI_CODEC_REFUSE && flags != TUTTI_CODEC_PROPAGATE) {
    return Status::invalid_argument("flags are " + std::to_string(flags) +
                                    "; give TUTTI_CODEC_REFUSE or TUTTI_CODEC_PROPAGATE");
  }
  const auto& [family, numbers] = codec.value();
  const std::span values(static_cast<const float*>(call.values), call.count);
  const float limit = family->facts(numbers).accepts;
  if (flags == TUTTI_CODEC_REFUSE) {
    const size_t found = codecs::find_beyond(values, limit);
    if (found < values.size()) return cannot_carry(codec.value(), found, limit);
  }
  family->kernels().encode(numbers, values, static_cast<std::byte*>(encoded));
  return {};
}

Status encode_stochastic(const CodedCall& call, const tuttiCodecDraws_t* given, void* encoded) {
  const Result<Codec> codec = checked(call);
  if (!codec.ok()) return codec.status();
  if (Status status = not_null(given, "draws"); !status.ok()) return status;
  tuttiCodecDraws_t draws{};
  constexpr size_t kFields[] = {sizeof(tuttiCodecDraws_t)};
  if (Status status = read_structure(given, kFields, &draws); !status.ok()) return status;
  const auto& [family, numbers] = codec.value();
  const codecs::StochasticKernel kernel = family->kernels().stochastic;
  if (kernel == nullptr) {
    return Status::unsupported(codec_text(codec.value()) +
                               " rounds to nearest only; take int8_block or int4_block");
  }
  if (draws.first % numbers.block != 0) {
    return Status::invalid_argument("the first value has index " + std::to_string(draws.first) +
                                    "; cut arrays at multiples of the block, " +
                                    std::to_string(numbers.block));
  }
  const std::span values(static_cast<const float*>(call.values), call.count);
  const float limit = family->facts(numbers).accepts;
  const size_t found = codecs::find_beyond(values, limit);
  if (found < values.size()) return cannot_carry(codec.value(), found, limit);
  const uint64_t key = codecs::draw_of(codecs::draw_of(draws.seed, draws.step), draws.rank);
  kernel(numbers, values, {key, draws.first}, static_cast<std::byte*>(encoded));
  return {};
}

Status decode(const CodedCall& call, float* values, codecs::Sink sink) {
  const Result<Codec> codec = checked(call);
  if (!codec.ok()) return codec.status();
  const auto& [family, numbers] = codec.value();
  const auto* const in = static_cast<const std::byte*>(call.encoded);
  const codecs::DecodeKernel kernel = family->kernels().decode[static_cast<int>(sink)];
  if (kernel(numbers, in, {values, call.count})) return {};
  return Status::invalid_argument("these bytes were not encoded by " + codec_text(codec.value()) +
                                  ": a scale or an index in them is impossible");
}

Status encode_with_feedback(const CodedCall& call, const tuttiCodecFeedback_t* given,
                            void* encoded) {
  const Result<Codec> codec = checked(call);
  if (!codec.ok()) return codec.status();
  if (Status status = not_null(given, "feedback"); !status.ok()) return status;
  tuttiCodecFeedback_t state{};
  constexpr size_t kFields[] = {sizeof(tuttiCodecFeedback_t)};
  if (Status status = read_structure(given, kFields, &state); !status.ok()) return status;
  if (state.reserved != 0) return Status::invalid_argument("feedback.reserved must be 0");
  if (state.count != call.count) {
    return Status::invalid_argument("there are " + std::to_string(call.count) +
                                    " values and errors of " + std::to_string(state.count) +
                                    "; a state belongs to one array of values");
  }
  if (!(state.beta >= 0 && state.beta <= 1)) {
    return Status::invalid_argument("beta is " + three_digits(state.beta) + "; give 0 to 1");
  }
  if (call.count == 0) return {};
  if (Status status = not_null(state.error, "feedback.error"); !status.ok()) return status;
  const codecs::Feedback feedback{
      {state.error, call.count}, {static_cast<const float*>(call.values), call.count}, state.beta};
  const float limit = codec.value().family->facts(codec.value().numbers).conserves;
  const size_t found = codecs::find_beyond(feedback, limit);
  if (found < call.count) return cannot_carry(codec.value(), found, limit);
  codecs::encode_feedback(codec.value(), feedback, static_cast<std::byte*>(encoded));
  return {};
}

template <class Work>
tuttiResult_t told(const char* call, const Work& work) {
  return caught(nullptr, [&] {
    const Status status = work();
    if (status.ok()) return tuttiSuccess;
    return report(nullptr,
                  Status(status.code(), std::string(call) + ": " + std::string(status.message())));
  });
}

}  // namespace
}  // namespace tutti::api

using tutti::api::told;

extern "C" {

tuttiResult_t tuttiCodecParse(const char* text, tuttiCodec_t* codec) {
  return told("tuttiCodecParse", [&] { return tutti::api::parse(text, codec); });
}

tuttiResult_t tuttiCodecText(const tuttiCodec_t* codec, char* text, size_t bytes) {
  return told("tuttiCodecText", [&] { return tutti::api::write_text(codec, text, bytes); });
}

tuttiResult_t tuttiCodecList(int index, tuttiCodec_t* codec) {
  return told("tuttiCodecList", [&] { return tutti::api::list(index, codec); });
}

tuttiResult_t tuttiCodecGetFacts(const tuttiCodec_t* codec, tuttiCodecFacts_t* facts) {
  return told("tuttiCodecGetFacts", [&] { return tutti::api::get_facts(codec, facts); });
}

tuttiResult_t tuttiCodecBytes(const tuttiCodec_t* codec, size_t count, size_t* bytes) {
  return told("tuttiCodecBytes", [&] { return tutti::api::get_bytes(codec, count, bytes); });
}

tuttiResult_t tuttiCodecEncode(const tuttiCodec_t* codec, const float* values, size_t count,
                               void* encoded, int flags) {
  return told("tuttiCodecEncode", [&] {
    return tutti::api::encode({codec, values, "values", count, encoded}, encoded, flags);
  });
}

tuttiResult_t tuttiCodecEncodeStochastic(const tuttiCodec_t* codec, const float* values,
                                         size_t count, const tuttiCodecDraws_t* draws,
                                         void* encoded) {
  return told("tuttiCodecEncodeStochastic", [&] {
    return tutti::api::encode_stochastic({codec, values, "values", count, encoded}, draws, encoded);
  });
}

tuttiResult_t tuttiCodecDecode(const tuttiCodec_t* codec, const void* encoded, size_t count,
                               float* values) {
  return told("tuttiCodecDecode", [&] {
    return tutti::api::decode({codec, values, "values", count, encoded}, values,
                              tutti::codecs::Sink::kStore);
  });
}

tuttiResult_t tuttiCodecDecodeAdd(const tuttiCodec_t* codec, const void* encoded, size_t count,
                                  float* sums) {
  return told("tuttiCodecDecodeAdd", [&] {
    return tutti::api::decode({codec, sums, "sums", count, encoded}, sums,
                              tutti::codecs::Sink::kAdd);
  });
}

tuttiResult_t tuttiCodecEncodeFeedback(const tuttiCodec_t* codec, const float* input, size_t count,
                                       const tuttiCodecFeedback_t* feedback, void* encoded) {
  return told("tuttiCodecEncodeFeedback", [&] {
    return tutti::api::encode_with_feedback({codec, input, "input", count, encoded}, feedback,
                                            encoded);
  });
}

}  // extern "C"
