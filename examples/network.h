// A small network with real gradients, in plain C++: what the examples train.
//
// A batch is cut into micro-batches. Everything about one micro-batch is a function of the
// parameters and its number, whoever computes it; gradients and losses of the micro-batches are the
// leaves of one balanced binary tree. A rank folds its part of the tree, a deterministic collective
// the rest, so the bits of a run do not depend on the number of ranks, as long as it is a power of
// two.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace examples {

constexpr int kMicroBatches = 8;  // of a step, over all ranks
constexpr int kSamples = 4;       // of a micro-batch
constexpr int kSteps = 60;
constexpr float kRate = 0.2f;

struct LayerShape {
  int inputs;
  int outputs;
  int weights() const { return inputs * outputs; }
  int parameters() const {
    return weights() + outputs;
  }  // the weights, row by row, then the biases
};
constexpr int kLayerCount = 4;
struct Layers {
  LayerShape shapes[kLayerCount];
  constexpr const LayerShape& operator[](int layer) const { return shapes[layer]; }
};

constexpr Layers layers_of(int width) {
  return {{{16, width}, {width, width}, {width, width}, {width, 1}}};
}
/// Of the network that the functions below are about, if nothing else is said.
constexpr Layers kLayers = layers_of(64);

using Values = std::vector<float>;

/// Equal on every machine, unlike the distributions of the standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 2 + 1) {}
  float next() {  // in [-1, 1)
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) / 2147483648.0f;
  }

 private:
  uint64_t state_;
};

inline Values initial_parameters(int layer, const Layers& layers = kLayers) {
  const LayerShape& shape = layers[layer];
  Dice dice(static_cast<uint64_t>(layer) + 1);
  Values parameters(static_cast<size_t>(shape.parameters()), 0.0f);
  for (int i = 0; i < shape.weights(); ++i) {
    parameters[static_cast<size_t>(i)] = dice.next() / std::sqrt(static_cast<float>(shape.inputs));
  }
  return parameters;
}

/// The results of one micro-batch so far in this step.
struct MicroBatch {
  Values activations[kLayerCount + 1];  // the inputs, then each layer's outputs
  Values slope;                         // of the loss, by the outputs of the layer at hand
  Values gradients[kLayerCount];
  float loss = 0;
};

/// The inputs of the n-th micro-batch of a step.
inline void begin(MicroBatch& batch, int step, int number) {
  Dice dice(static_cast<uint64_t>(step) * kMicroBatches + static_cast<uint64_t>(number) + 1000);
  batch.activations[0].resize(static_cast<size_t>(kSamples * kLayers[0].inputs));
  for (float& x : batch.activations[0]) x = dice.next();
}

inline void forward(MicroBatch& batch, int layer, const float* parameters,
                    const Layers& layers = kLayers) {
  const LayerShape& shape = layers[layer];
  const float* in = batch.activations[layer].data();
  Values& out = batch.activations[layer + 1];
  out.resize(static_cast<size_t>(kSamples * shape.outputs));
  for (int s = 0; s < kSamples; ++s) {
    for (int o = 0; o < shape.outputs; ++o) {
      float sum = parameters[shape.weights() + o];
      for (int i = 0; i < shape.inputs; ++i) {
        sum += parameters[o * shape.inputs + i] * in[s * shape.inputs + i];
      }
      out[static_cast<size_t>(s * shape.outputs + o)] =
          layer + 1 < kLayerCount ? std::tanh(sum) : sum;
    }
  }
}

/// The function to learn is x0 + x1 * x2; the loss is half the squared error.
inline void measure(MicroBatch& batch) {
  const Values& in = batch.activations[0];
  const Values& out = batch.activations[kLayerCount];
  batch.loss = 0;
  batch.slope.resize(static_cast<size_t>(kSamples));
  for (int s = 0; s < kSamples; ++s) {
    const size_t first = static_cast<size_t>(s * kLayers[0].inputs);
    const float wanted = in[first] + in[first + 1] * in[first + 2];
    const float error = out[static_cast<size_t>(s)] - wanted;
    batch.slope[static_cast<size_t>(s)] = error;
    batch.loss += error * error / 2;
  }
}

inline void backward(MicroBatch& batch, int layer, const float* parameters,
                     const Layers& layers = kLayers) {
  const LayerShape& shape = layers[layer];
  const float* in = batch.activations[layer].data();
  const Values& out = batch.activations[layer + 1];
  Values& gradient = batch.gradients[layer];
  gradient.assign(static_cast<size_t>(shape.parameters()), 0.0f);
  Values before(static_cast<size_t>(kSamples * shape.inputs), 0.0f);
  for (int s = 0; s < kSamples; ++s) {
    for (int o = 0; o < shape.outputs; ++o) {
      const size_t here = static_cast<size_t>(s * shape.outputs + o);
      const float bend = layer + 1 < kLayerCount ? 1 - out[here] * out[here] : 1.0f;
      const float slope = batch.slope[here] * bend;
      gradient[static_cast<size_t>(shape.weights() + o)] += slope;
      for (int i = 0; i < shape.inputs; ++i) {
        gradient[static_cast<size_t>(o * shape.inputs + i)] += slope * in[s * shape.inputs + i];
        before[static_cast<size_t>(s * shape.inputs + i)] +=
            slope * parameters[o * shape.inputs + i];
      }
    }
  }
  batch.slope = before;
}

/// The sum over a rank's micro-batches by the balanced tree over them: neighbours first. Their
/// number is a power of two. `add(a, b)` adds micro-batch b to a.
template <class Add>
void fold_tree(int count, const Add& add) {
  for (int stride = 1; stride < count; stride *= 2) {
    for (int i = 0; i + stride < count; i += 2 * stride) add(i, i + stride);
  }
}

inline void step_parameters(float* parameters, const float* gradient, size_t count,
                            float rate = kRate) {
  for (size_t i = 0; i < count; ++i) {
    parameters[i] -= rate * gradient[i] / (kMicroBatches * kSamples);
  }
}

}  // namespace examples
