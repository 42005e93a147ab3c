// The model that is to be trained, the device that computes, and one job of both: what a search for
// an arrangement is given.
//
// Reconstructed: the sizes of activations (34 bytes of a token and hidden value in a layer with
// fused attention, "Reducing Activation Recomputation in Large Transformer Models", of which 19
// grow with the width of the feed-forward part) and 16 bytes of state for a parameter (weights,
// gradients, Adam in mixed precision). They rank arrangements; they do not predict a product.
//
// Threads: values, pure functions. Units: tokens, bytes, floating point operations, nanoseconds.
// Errors: kInvalidArgument names the number that cannot be, files with "FILE:LINE: ".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tutti::arrange {

struct TrainingModel {
  std::string name;
  uint32_t layers = 1;
  uint32_t hidden = 1;
  uint32_t heads = 1;
  uint32_t kv_heads = 1;      // of keys and values, which heads share
  uint32_t feed_forward = 0;  // width of the dense gated part of a layer; 0: it has none
  uint32_t experts = 0;       // of a layer; 0: the model is dense
  uint32_t experts_per_token = 0;
  uint32_t expert_width = 0;
  uint32_t vocabulary = 1;
  uint32_t sequence = 1;  // tokens
  uint32_t batch = 1;     // sequences of a step

  double kv_width() const { return 1.0 * hidden / heads * kv_heads; }
  /// Parameters of one layer that every token uses.
  double dense_layer() const;
  /// Parameters of one expert of a layer.
  double expert() const { return 3.0 * hidden * expert_width; }
  /// Of the token embedding, or of the output layer.
  double embedding() const { return 1.0 * vocabulary * hidden; }
  double parameters() const;
  /// Those that one token uses.
  double active_parameters() const;
  /// Forward and backward: 6 N + 12 L H Q T.
  double flops_per_token() const;
};

Status check(const TrainingModel& model);

/// How a device computes: the profile of each operator that a model may use.
struct ComputeDevice {
  std::string name;
  double flops_per_ns = 0;  // peak, dense, of the type that is trained in
  double memory = 0;        // bytes
  // Of the peak that an operator reaches; 0: nobody has measured it.
  double matmul = 0;
  double attention = 0;
  double experts = 0;
};

Status check(const ComputeDevice& device, const TrainingModel& model);

/// Known by name: "llama-8b", "llama-70b", "llama-405b", "mixtral-8x7b".
std::span<const TrainingModel> known_models();
/// Known by name: "h100", "h200", "a100".
std::span<const ComputeDevice> known_devices();

/// A name of known_models(), or a file. docs/planning.md has the format.
Result<TrainingModel> find_model(const std::string& name_or_file);
Result<TrainingModel> parse_model(std::string_view text, const std::string& file);
/// A name of known_devices(), or a file.
Result<ComputeDevice> find_device(const std::string& name_or_file);
Result<ComputeDevice> parse_device(std::string_view text, const std::string& file);

}  // namespace tutti::arrange
