#include "src/arrange/training_model.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "src/base/words.h"
#include "src/topology/json_fields.h"
#include "src/topology/text_file.h"

namespace tutti::arrange {
namespace {

using topology::JsonValue;

// Numbers of the models' public descriptions; batches are those of a few million tokens a step.
const std::array<TrainingModel, 4> kModels = {{
    {.name = "llama-8b",
     .layers = 32,
     .hidden = 4096,
     .heads = 32,
     .kv_heads = 8,
     .feed_forward = 14336,
     .vocabulary = 128256,
     .sequence = 8192,
     .batch = 512},
    {.name = "llama-70b",
     .layers = 80,
     .hidden = 8192,
     .heads = 64,
     .kv_heads = 8,
     .feed_forward = 28672,
     .vocabulary = 128256,
     .sequence = 8192,
     .batch = 2048},
    {.name = "llama-405b",
     .layers = 126,
     .hidden = 16384,
     .heads = 128,
     .kv_heads = 8,
     .feed_forward = 53248,
     .vocabulary = 128256,
     .sequence = 8192,
     .batch = 2048},
    {.name = "mixtral-8x7b",
     .layers = 32,
     .hidden = 4096,
     .heads = 32,
     .kv_heads = 8,
     .experts = 8,
     .experts_per_token = 2,
     .expert_width = 14336,
     .vocabulary = 32000,
     .sequence = 4096,
     .batch = 1024},
}};

// Dense peaks and memory of the vendor's data sheets for bf16; the shares of the peak are assumed.
const std::array<ComputeDevice, 3> kDevices = {{
    {.name = "h100",
     .flops_per_ns = 989'000,
     .memory = 80e9,
     .matmul = 0.6,
     .attention = 0.45,
     .experts = 0.5},
    {.name = "h200",
     .flops_per_ns = 989'000,
     .memory = 141e9,
     .matmul = 0.6,
     .attention = 0.45,
     .experts = 0.5},
    {.name = "a100",
     .flops_per_ns = 312'000,
     .memory = 80e9,
     .matmul = 0.65,
     .attention = 0.5,
     .experts = 0.55},
}};

template <class Known>
std::vector<std::string_view> names_of(const Known& known) {
  std::vector<std::string_view> names;
  for (const auto& one : known) names.push_back(one.name);
  return names;
}

// A known value by its name, else what the file of this name says.
template <class Value, class Known, class Parse>
Result<Value> find(const Known& known, const std::string& name, const char* what, Parse parse) {
  for (const Value& one : known) {
    if (one.name == name) return one;
  }
  const Result<std::string> text = topology::read_text_file(name);
  if (text.ok()) return parse(text.value(), name);
  std::string names;
  for (const std::string_view one : names_of(known)) {
    names += (names.empty() ? "" : ", ") + std::string(one);
  }
  return Status::invalid_argument("there is no " + std::string(what) + " '" + name +
                                  "', and no such file; known are " + names);
}

Status check_format(const JsonValue& file, std::string_view field) {
  const JsonValue* format = file.find(field);
  if (format != nullptr && format->number == 1) return {};
  return topology::refuse(format == nullptr ? file : *format,
                          "'" + std::string(field) + "' is to be 1, the number of the format");
}

Result<TrainingModel> model_of(const JsonValue& file) {
  Status status = topology::expect_fields(
      file, "a model",
      {"tutti_model", "name", "layers", "hidden", "heads", "kv_heads", "feed_forward", "experts",
       "experts_per_token", "expert_width", "vocabulary", "sequence", "batch"});
  if (status.ok()) status = check_format(file, "tutti_model");
  TrainingModel model;
  if (status.ok()) status = topology::take_text(file, "name", model.name);
  const std::pair<const char*, uint32_t*> fields[] = {
      {"layers", &model.layers},
      {"hidden", &model.hidden},
      {"heads", &model.heads},
      {"kv_heads", &model.kv_heads},
      {"feed_forward", &model.feed_forward},
      {"experts", &model.experts},
      {"experts_per_token", &model.experts_per_token},
      {"expert_width", &model.expert_width},
      {"vocabulary", &model.vocabulary},
      {"sequence", &model.sequence},
      {"batch", &model.batch}};
  for (const auto& [name, value] : fields) {
    if (status.ok()) status = topology::take_number(file, name, *value);
  }
  if (file.find("kv_heads") == nullptr) model.kv_heads = model.heads;
  if (status.ok()) status = check(model);
  if (!status.ok()) return status;
  return model;
}

Result<ComputeDevice> device_of(const JsonValue& file) {
  Status status = topology::expect_fields(
      file, "a device",
      {"tutti_device", "name", "tflops", "memory_GB", "matmul", "attention", "experts"});
  if (status.ok()) status = check_format(file, "tutti_device");
  ComputeDevice device;
  if (status.ok()) status = topology::take_text(file, "name", device.name);
  if (status.ok()) status = topology::take_positive(file, "tflops", 1e3, device.flops_per_ns);
  if (status.ok()) status = topology::take_positive(file, "memory_GB", 1e9, device.memory);
  if (status.ok()) status = topology::take_positive(file, "matmul", 1, device.matmul);
  if (status.ok()) status = topology::take_positive(file, "attention", 1, device.attention);
  if (status.ok()) status = topology::take_positive(file, "experts", 1, device.experts);
  if (!status.ok()) return status;
  return device;
}

template <class Value, class Make>
Result<Value> parse_with(Make make, std::string_view text, const std::string& file) {
  const Result<JsonValue> parsed = topology::parse_json(text);
  if (!parsed.ok()) return topology::in_file(parsed.status(), file);
  Result<Value> made = make(parsed.value());
  if (!made.ok()) return topology::in_file(made.status(), file);
  return made;
}

}  // namespace

double TrainingModel::dense_layer() const {
  const double wide = hidden;
  return 2 * wide * wide + 2 * wide * kv_width() + 3 * wide * feed_forward;
}

double TrainingModel::parameters() const {
  return layers * (dense_layer() + experts * expert()) + 2 * embedding();
}

double TrainingModel::active_parameters() const {
  return layers * (dense_layer() + experts_per_token * expert()) + 2 * embedding();
}

double TrainingModel::flops_per_token() const {
  return 6 * (active_parameters() - embedding()) + 12.0 * layers * hidden * sequence;
}

Status check(const TrainingModel& model) {
  for (const uint32_t number : {model.layers, model.hidden, model.heads, model.kv_heads,
                                model.vocabulary, model.sequence, model.batch}) {
    if (number == 0) return Status::invalid_argument("a number of the model or its batch is 0");
  }
  if (model.hidden % model.heads != 0 || model.heads % model.kv_heads != 0) {
    return Status::invalid_argument("a hidden size of " + std::to_string(model.hidden) + ", " +
                                    std::to_string(model.heads) + " heads and " +
                                    std::to_string(model.kv_heads) +
                                    " of keys and values do not divide each other");
  }
  const bool has_experts = model.experts > 0;
  if (has_experts != (model.expert_width > 0) || has_experts != (model.experts_per_token > 0) ||
      model.experts_per_token > model.experts) {
    return Status::invalid_argument(
        "experts, experts_per_token and expert_width go together, and a token has at most as many "
        "experts as there are");
  }
  if (!has_experts && model.feed_forward == 0) {
    return Status::invalid_argument("a layer has neither a feed_forward width nor experts");
  }
  return {};
}

Status check(const ComputeDevice& device, const TrainingModel& model) {
  if (!(device.flops_per_ns > 0) || !(device.memory > 0)) {
    return Status::invalid_argument("the device has no tflops or no memory_GB");
  }
  const std::pair<const char*, double> shares[] = {
      {"matmul", device.matmul}, {"attention", device.attention}, {"experts", device.experts}};
  for (const auto& [name, share] : shares) {
    if (share > 1) {
      return Status::invalid_argument("'" + std::string(name) +
                                      "' is a share of the peak, at most 1");
    }
    const bool is_used = name != std::string_view("experts") || model.experts > 0;
    if (share > 0 || !is_used) continue;
    return Status::invalid_argument("the model uses '" + std::string(name) +
                                    "', of which the device has no profile: say which share of "
                                    "its peak it reaches there");
  }
  return {};
}

std::span<const TrainingModel> known_models() { return kModels; }
std::span<const ComputeDevice> known_devices() { return kDevices; }

Result<TrainingModel> parse_model(std::string_view text, const std::string& file) {
  return parse_with<TrainingModel>(model_of, text, file);
}

Result<ComputeDevice> parse_device(std::string_view text, const std::string& file) {
  return parse_with<ComputeDevice>(device_of, text, file);
}

Result<TrainingModel> find_model(const std::string& name_or_file) {
  return find<TrainingModel>(known_models(), name_or_file, "model", parse_model);
}

Result<ComputeDevice> find_device(const std::string& name_or_file) {
  return find<ComputeDevice>(known_devices(), name_or_file, "device", parse_device);
}

}  // namespace tutti::arrange
