#include "tutti/runtime/outer/optimizer.h"

#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

/// Set while a call runs, also if it throws.
class EntryMark {
 public:
  explicit EntryMark(bool& inside) : inside_(inside) {
    require(!inside,
            "this optimizer is called while another call of it runs, in another thread or "
            "from its own loss; call it from one thread at a time");
    inside_ = true;
  }
  ~EntryMark() { inside_ = false; }

 private:
  bool& inside_;
};

}  // namespace

OuterOptimizer::OuterOptimizer(OuterGroup group, int64_t elements)
    : group_(group), elements_(elements) {
  require(elements >= 1, elements, " parameters; give 1 or more");
  look_at_group();
}

void OuterOptimizer::look_at_group() {
  require(group_.comm != nullptr, "the group has no communicator; give one");
  require(group_.epoch >= 0, "epoch ", group_.epoch, "; count epochs from 0");
  expect_success(tuttiCommCount(group_.comm, &ranks_), group_.comm, "tuttiCommCount");
  expect_success(tuttiCommUserRank(group_.comm, &rank_), group_.comm, "tuttiCommUserRank");
}

void OuterOptimizer::check_params(std::span<float> params) const {
  require(std::ssize(params) == elements_, params.size(), " parameters where there were ",
          elements_, "; make a new optimizer for a model of another size");
}

OuterReport OuterOptimizer::boundary(int64_t step, std::span<float> params, bool commit) {
  const EntryMark mark(inside_);
  check_params(params);
  require(step >= 1, "step ", step, "; the first inner step is 1");
  require(last_step_ < 0 || step == last_step_ + 1, "step ", step, " after step ", last_step_,
          "; call boundary() once behind each inner step");
  last_step_ = step;
  return at_boundary(step, params, commit);
}

OuterReport OuterOptimizer::finish(std::span<float> params) {
  const EntryMark mark(inside_);
  check_params(params);
  return take_rest(params);
}

void OuterOptimizer::regroup(OuterGroup group) {
  const EntryMark mark(inside_);
  require(group.epoch > group_.epoch, "epoch ", group.epoch, " follows epoch ", group_.epoch,
          "; an edit makes a higher one");
  group_ = group;
  last_step_ = -1;
  look_at_group();
  join_group();
}

void broadcast_state(tuttiComm_t comm, int root, std::span<float> params, int64_t& step) {
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  require(root >= 0 && root < ranks, "root ", root, " of ", ranks, " ranks");
  expect_success(tuttiBroadcast(&step, &step, 1, tuttiInt64, root, comm, tuttiBlocking()), comm,
                 "the broadcast of the step");
  expect_success(tuttiBroadcast(params.data(), params.data(), params.size(), tuttiFloat32, root,
                                comm, tuttiBlocking()),
                 comm, "the broadcast of the parameters");
}

}  // namespace tutti::runtime
