#include "src/schedule/verify_program.h"

#include "src/schedule/text.h"
#include "src/schedule/verify_check.h"

namespace tutti::schedule::verifier {
namespace {

constexpr size_t kLongestQuote = 200;

}  // namespace

Result<Program> Program::of(const Shape& shape, std::span<const Schedule> schedules,
                            Placement placement) {
  if (Status s = check_shape(shape); !s.ok()) return s;
  if (schedules.size() != static_cast<size_t>(shape.ranks)) {
    return Status::invalid_argument(std::to_string(schedules.size()) + " schedules for " +
                                    std::to_string(shape.ranks) + " ranks");
  }
  Result<Geometry> geometry = Geometry::of(shape);
  if (!geometry.ok()) return geometry.status();
  Program program;
  program.shape_ = &shape;
  program.schedules_ = schedules;
  program.placement_ = placement;
  program.geometry_ = std::move(geometry).value();
  const uint64_t in = program.geometry_.input_atoms();
  const uint64_t out = program.geometry_.output_atoms();
  const bool separate = placement == Placement::kSeparate;
  program.user_atoms_ = static_cast<uint32_t>(separate ? in + out : std::max(in, out));
  const uint32_t per_count = program.geometry_.atoms_per_count();
  const Traits& traits = traits_of(shape.collective);
  if (separate) program.output_base_ = static_cast<uint32_t>(in);
  if (!separate && traits.nests(Space::kInput)) program.input_stride_ = per_count;
  if (!separate && traits.nests(Space::kOutput)) program.output_stride_ = per_count;

  uint64_t total_atoms = 0;
  uint64_t total_steps = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const Schedule& schedule = program.schedule(rank);
    if (Status s = check_header(shape, schedule, rank); !s.ok()) return s;
    uint64_t atoms = program.user_atoms_;
    auto& first = program.scratch_first_.emplace_back();
    for (Block like : schedule.scratch) {
      first.push_back(static_cast<uint32_t>(atoms));
      atoms += program.geometry_.region(like).count;
      if (total_atoms + atoms > kMaxAtoms) return Status::unsupported("too many blocks to verify");
    }
    program.atoms_.push_back(static_cast<uint32_t>(atoms));
    program.first_step_.push_back(static_cast<uint32_t>(total_steps));
    total_atoms += atoms;
    total_steps += schedule.steps.size();
    if (total_atoms > kMaxAtoms || total_steps >> 31 != 0) {
      return Status::unsupported("too many blocks or steps to verify");
    }
  }
  program.first_step_.push_back(static_cast<uint32_t>(total_steps));

  StepChecker checker(program);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (uint32_t i = 0; i < program.schedule(rank).steps.size(); ++i) {
      if (Status s = checker.check({rank, i}); !s.ok()) return s;
    }
  }
  return program;
}

bool Program::aliases_output(int rank, const AtomRange& input) const {
  const uint32_t begin = output_begin(rank);
  return placement_ == Placement::kInPlace && has_output(rank) && input.first >= begin &&
         input.first + input.count <= begin + geometry_.output_atoms();
}

std::string Program::where(StepRef ref) const {
  std::string text = print_step(schedule(ref.rank), ref.step);
  if (text.size() > kLongestQuote) text = text.substr(0, kLongestQuote) + " ...";
  return "rank " + std::to_string(ref.rank) + ", step " + std::to_string(ref.step) + " (" + text +
         ")";
}

Status Program::refuse(StepRef ref, const std::string& what) const {
  return Status::invalid_argument(where(ref) + ": " + what);
}

}  // namespace tutti::schedule::verifier
