#include "tutti/runtime/outer/diloco.h"

#include <algorithm>
#include <utility>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/outer/specs.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

int64_t size_of(const Fragment& fragment) {
  int64_t elements = 0;
  for (const FragmentPart& part : fragment) elements += part.end - part.begin;
  return elements;
}

void check_cover(const std::vector<Fragment>& fragments, int64_t elements) {
  std::vector<FragmentPart> all;
  for (const Fragment& fragment : fragments) {
    require(size_of(fragment) > 0, "a fragment has no elements; leave it out");
    all.insert(all.end(), fragment.begin(), fragment.end());
  }
  std::sort(all.begin(), all.end(), [](const FragmentPart& a, const FragmentPart& b) -> bool {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t covered = 0;
  for (const FragmentPart& part : all) {
    require(part.begin <= part.end, "a fragment has elements ", part.begin, " to ", part.end,
            "; begin before the end");
    require(part.begin >= covered, "fragments overlap at element ", part.begin,
            "; give each element to one fragment");
    require(part.begin == covered, "no fragment has element ", covered,
            "; give each element to one fragment");
    covered = part.end;
  }
  require(covered == elements, "fragments end at element ", covered, " of ", elements,
          "; give each element to one fragment");
}

void check_spec(const StreamingSpec& spec, int64_t fragments) {
  require(spec.period >= 1, "a period of ", spec.period, " steps; give 1 or more");
  require(fragments >= 1 && spec.period % fragments == 0, fragments,
          " fragments do not divide a period of ", spec.period,
          " steps; choose a period that is a multiple of their number");
  const int64_t between = spec.period / fragments;
  require(spec.delay >= 0 && spec.delay < between, "a delay of ", spec.delay,
          " steps where a fragment has its turn every ", between, "; give 0 to ", between - 1,
          ", so that one exchange is under way at a time");
  require(spec.mixing >= 0 && spec.mixing <= 1, "a mixing of ", spec.mixing, "; give 0 to 1");
  require(spec.mixing < 1 || spec.keeps_local,
          "with a mixing of 1 a rank never takes over what all ranks share; give less, or set "
          "keeps_local if this is meant");
  check_rate(spec.rate, "rate");
  check_momentum(spec.momentum, "momentum");
}

}  // namespace

std::vector<Fragment> strided_fragments(std::span<const int64_t> layer_elements, int fragments) {
  require(fragments >= 1 && fragments <= std::ssize(layer_elements), fragments, " fragments of ",
          layer_elements.size(), " layers; give 1 to as many as there are layers");
  std::vector<Fragment> made(at(fragments));
  int64_t begin = 0;
  for (size_t layer = 0; layer < layer_elements.size(); ++layer) {
    require(layer_elements[layer] >= 0, "layer ", layer, " has ", layer_elements[layer],
            " elements");
    made[layer % at(fragments)].push_back({begin, begin + layer_elements[layer]});
    begin += layer_elements[layer];
  }
  return made;
}

class StreamingDiLoCo::Impl {
 public:
  Impl(std::span<const float> params, std::vector<Fragment> fragments, StreamingSpec spec)
      : fragments_(std::move(fragments)),
        spec_(std::move(spec)),
        outer_(params.begin(), params.end()),
        momentum_(params.size(), 0.0f) {
    check_cover(fragments_, std::ssize(params));
    check_spec(spec_, std::ssize(fragments_));
  }

  void join(const OuterGroup& group) {
    drop();
    gathers_.clear();
    agree(group.comm, plan(), "the plan of Streaming DiLoCo");
    for (const Fragment& fragment : fragments_) {
      gathers_.push_back(std::make_unique<CodedGather>(group.comm, spec_.codec, size_of(fragment),
                                                       Normalise::kWorld));
    }
    epoch_ = group.epoch;
  }

  /// The fragment whose turn it is; -1: none's.
  int turn_of(int64_t step) const {
    const int64_t between = spec_.period / std::ssize(fragments_);
    if (step % between != 0) return -1;
    return static_cast<int>((step / between - 1) % std::ssize(fragments_));
  }

  /// The bytes that it sends.
  int64_t launch(int fragment, int64_t step, std::span<const float> params, bool commit) {
    std::vector<float> gone;
    for_each(fragment, [&](size_t i) { gone.push_back(outer_[i] - params[i]); });
    gathers_[at(fragment)]->begin({epoch_, step, fragment, commit}, gone);
    pending_ = fragment;
    due_ = step + spec_.delay;
    return gathers_[at(fragment)]->bytes_of_exchange();
  }

  bool is_due(int64_t step) const { return pending_ >= 0 && step >= due_; }
  bool is_pending() const { return pending_ >= 0; }

  void apply(std::span<float> params, OuterReport& report) {
    const int fragment = std::exchange(pending_, -1);
    std::vector<float> gradient(at(size_of(fragments_[at(fragment)])));
    GatherOutcome outcome = gathers_[at(fragment)]->finish(gradient);
    if (!outcome.commit) {
      report.skipped = std::move(outcome.why);
      return;
    }
    report.applied = fragment;
    size_t k = 0;
    for_each(fragment, [&](size_t i) {
      const float g = gradient[k++];
      momentum_[i] = spec_.momentum * momentum_[i] + g;
      outer_[i] -= spec_.rate * (g + spec_.momentum * momentum_[i]);
      params[i] = spec_.mixing * params[i] + (1 - spec_.mixing) * outer_[i];
    });
  }

  void drop() {
    if (pending_ >= 0) gathers_[at(std::exchange(pending_, -1))]->drop();
  }

  std::span<const float> outer() const { return outer_; }

 private:
  template <class Body>
  void for_each(int fragment, const Body& body) const {
    for (const FragmentPart& part : fragments_[at(fragment)]) {
      for (int64_t i = part.begin; i < part.end; ++i) body(at(i));
    }
  }

  uint64_t plan() const {
    Fingerprint print;
    print.add(spec_.period);
    print.add(spec_.delay);
    for (const float number : {spec_.mixing, spec_.rate, spec_.momentum}) add_bits(print, number);
    for (const Fragment& fragment : fragments_) {
      print.add(std::ssize(fragment));
      for (const FragmentPart& part : fragment) print.add(part.begin), print.add(part.end);
    }
    add_bits(print, outer_);
    return print.value();
  }

  std::vector<Fragment> fragments_;
  StreamingSpec spec_;
  std::vector<float> outer_, momentum_;
  std::vector<std::unique_ptr<CodedGather>> gathers_;  // of each fragment
  int64_t epoch_ = 0;
  int pending_ = -1;  // the fragment that is under way
  int64_t due_ = 0;
};

StreamingDiLoCo::StreamingDiLoCo(OuterGroup group, std::span<const float> params,
                                 std::vector<Fragment> fragments, StreamingSpec spec)
    : OuterOptimizer(group, std::ssize(params)),
      impl_(std::make_unique<Impl>(params, std::move(fragments), std::move(spec))) {
  impl_->join(group);
}
StreamingDiLoCo::~StreamingDiLoCo() = default;

std::span<const float> StreamingDiLoCo::outer() const { return impl_->outer(); }

OuterReport StreamingDiLoCo::at_boundary(int64_t step, std::span<float> params, bool commit) {
  OuterReport report;
  if (impl_->is_due(step)) impl_->apply(params, report);
  report.launched = impl_->turn_of(step);
  if (report.launched >= 0) count_bytes(impl_->launch(report.launched, step, params, commit));
  if (impl_->is_due(step)) impl_->apply(params, report);
  return report;
}

OuterReport StreamingDiLoCo::take_rest(std::span<float> params) {
  OuterReport report;
  if (impl_->is_pending()) impl_->apply(params, report);
  return report;
}

void StreamingDiLoCo::join_group() { impl_->join(group()); }

DiLoCo::DiLoCo(OuterGroup group, std::span<const float> params, const DiLoCoSpec& spec)
    : StreamingDiLoCo(group, params, {{{0, std::ssize(params)}}},
                      {.period = spec.period,
                       .rate = spec.rate,
                       .momentum = spec.momentum,
                       .codec = spec.codec}) {}

}  // namespace tutti::runtime
