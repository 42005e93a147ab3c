// Assignments of work to ranks.
#include "tutti/runtime/assign.h"

#include "part.h"
#include "record.h"
#include "tutti/runtime/expert_moves.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void add_problem(nb::module_& module) {
  record<WorkItem>(
      module, "WorkItem",
      "A piece of work, of `units` equal parts.\n\n>>> tutti.WorkItem(units=4).units\n4",
      field("units", &WorkItem::units, "equal parts"),
      field("unit_cost", &WorkItem::unit_cost, "of each part, in any unit of work"),
      field("grain", &WorkItem::grain, "slices are multiples of it; 0: it stays whole"),
      field("unit_memory", &WorkItem::unit_memory, "of each part, in the unit of bins"),
      field("home", &WorkItem::home, "the bin where its data is; -1: nowhere yet"),
      field("move_fixed", &WorkItem::move_fixed, "bytes that a slice away from home moves"),
      field("move_per_unit", &WorkItem::move_per_unit, "bytes more for each unit of it"));
  record<WorkBin>(module, "WorkBin", "A place that does work, such as a rank.",
                  field("capacity", &WorkBin::capacity, "the most cost"),
                  field("memory", &WorkBin::memory, "the most memory"),
                  field("node", &WorkBin::node, "for two_level()"));
  record<WorkProblem>(module, "WorkProblem", "Items to be assigned to bins.",
                      field("items", &WorkProblem::items, "WorkItem objects"),
                      field("bins", &WorkProblem::bins, "WorkBin objects"));
  record<WorkSlice>(module, "WorkSlice", "Units begin .. end of an item are done in a bin.",
                    field("item", &WorkSlice::item, "its number"),
                    field("begin", &WorkSlice::begin, "its first unit"),
                    field("end", &WorkSlice::end, "one behind its last unit"),
                    field("bin", &WorkSlice::bin, "its bin's number"));
  record<Assignment>(module, "Assignment", "Which bin does which slices.",
                     field("slices", &Assignment::slices, "WorkSlice objects, by item"));
  record<Judgement>(module, "Judgement", "The loads and moves of an assignment.",
                    field("loads", &Judgement::loads, "cost in each bin"),
                    field("max_load", &Judgement::max_load, "the largest load"),
                    field("max_over_mean", &Judgement::max_over_mean, "1 is perfect"),
                    field("moved", &Judgement::moved, "bytes"),
                    field("moves", &Judgement::moves, "slices away from their home"),
                    field("splits", &Judgement::splits, "slices beyond one an item"));
}

void add_strategies(nb::module_& module) {
  module.def(
      "judge",
      [](const WorkProblem& problem, const Assignment& assignment) {
        return judge(problem, assignment);
      },
      "problem"_a, "assignment"_a,
      "The loads and moves of an assignment. Raises InvalidInput unless every unit is assigned "
      "exactly once and no limit is broken.\n\n"
      ">>> problem = tutti.WorkProblem(items=[tutti.WorkItem(units=n) for n in (5, 3, 3)],\n"
      "...                             bins=[tutti.WorkBin(), tutti.WorkBin()])\n"
      ">>> tutti.judge(problem, tutti.lpt(problem)).loads\n[5, 6]");
  module.def("lpt", &lpt, "problem"_a,
             "The largest item first, each as a whole in the least loaded bin (Graham): at most "
             "4/3 of the optimum.\n\n"
             ">>> problem = tutti.WorkProblem(items=[tutti.WorkItem(units=n) for n in (1, 2)],\n"
             "...                             bins=[tutti.WorkBin(), tutti.WorkBin()])\n"
             ">>> [s.bin for s in tutti.lpt(problem).slices]\n[1, 0]");
  module.def(
      "least_loaded_spill",
      [](const WorkProblem& problem, double alpha, int64_t min_units) {
        return least_loaded_spill(problem, {alpha, min_units});
      },
      "problem"_a, "alpha"_a = 1.0, "min_units"_a = 1,
      "A bin that is full at ceil(alpha * total / bins) spills units of its items to the least "
      "loaded others (LLEP). Items have a home and a unit cost of 1.\n\n"
      ">>> problem = tutti.WorkProblem(items=[tutti.WorkItem(units=6, grain=1, home=0),\n"
      "...                                    tutti.WorkItem(units=2, grain=1, home=1)],\n"
      "...                             bins=[tutti.WorkBin(), tutti.WorkBin()])\n"
      ">>> tutti.judge(problem, tutti.least_loaded_spill(problem)).loads\n[4, 4]");
  module.def("deficit_fill", &deficit_fill, "problem"_a, "epsilon"_a,
             "The bin that lacks most takes the slice with most work for its bytes, until none "
             "lacks more than `epsilon` of the mean (core attention disaggregation).\n\n"
             ">>> problem = tutti.WorkProblem(items=[tutti.WorkItem(units=8, grain=1, home=0)],\n"
             "...                             bins=[tutti.WorkBin(), tutti.WorkBin()])\n"
             ">>> tutti.judge(problem, tutti.deficit_fill(problem, 0.1)).loads\n[4, 4]");
  module.def("two_level", &two_level, "problem"_a,
             "To nodes first, and then to the bins of each node (Zeppelin).\n\n"
             ">>> problem = tutti.WorkProblem(items=[tutti.WorkItem(units=4) for _ in range(4)],\n"
             "...                             bins=[tutti.WorkBin(node=i // 2) for i in "
             "range(4)])\n"
             ">>> tutti.judge(problem, tutti.two_level(problem)).loads\n[4, 4, 4, 4]");
  module.def("exact", &exact, "problem"_a,
             "The best assignment of at most 16 whole items, by branch and bound.\n\n"
             ">>> problem = tutti.WorkProblem(items=[tutti.WorkItem(units=n)\n"
             "...                                    for n in (3, 3, 2, 2, 2)],\n"
             "...                             bins=[tutti.WorkBin(), tutti.WorkBin()])\n"
             ">>> tutti.judge(problem, tutti.exact(problem)).max_load\n6");
}

}  // namespace

void add_assign(nb::module_& module) {
  add_problem(module);
  add_strategies(module);
}

void add_expert_moves(nb::module_& module) {
  record<ExpertPlan>(module, "ExpertPlan", "Which ranks compute which tokens of which experts.",
                     field("ranks", &ExpertPlan::ranks, "how many ranks there are"),
                     field("experts", &ExpertPlan::experts, "how many experts there are"),
                     field("balanced", &ExpertPlan::balanced, "everything stays at home"),
                     field("assignment", &ExpertPlan::assignment, "slices of experts' tokens"));
  record<TokenRun>(module, "TokenRun", "Tokens of one source for one expert.",
                   field("source", &TokenRun::source, "rank"),
                   field("expert", &TokenRun::expert, "its number"),
                   field("begin", &TokenRun::begin, "in the source's own order"),
                   field("length", &TokenRun::length, "tokens"),
                   field("target", &TokenRun::target, "the rank that computes them"));
  module.def(
      "plan_experts",
      [](const Integers& loads, int ranks, double gate, double alpha, int64_t min_units) {
        return plan_experts(loads.values, ranks, {alpha, min_units}, gate);
      },
      "loads"_a, "ranks"_a, "gate"_a = 1.3, "alpha"_a = 1.0, "min_units"_a = 1,
      "Least-loaded expert parallelism: loads[expert] are tokens of all ranks; expert e lives on "
      "rank e / (experts / ranks). Nothing moves while the largest load of a rank is below `gate` "
      "times the mean.\n\n"
      ">>> plan = tutti.plan_experts([90, 2, 4, 4], ranks=2)\n"
      ">>> [(s.item, s.bin, s.end - s.begin) for s in plan.assignment.slices]\n"
      "[(0, 0, 48), (0, 1, 42), (1, 0, 2), (2, 1, 4), (3, 1, 4)]");
  module.def(
      "route_tokens",
      [](const ExpertPlan& plan, const Integers& counts) {
        return route_tokens(plan, counts.values);
      },
      "plan"_a, "counts"_a,
      "Where each run of tokens goes. counts[source * experts + expert] are tokens.\n\n"
      ">>> plan = tutti.plan_experts([6, 2], ranks=2)\n"
      ">>> [(r.source, r.expert, r.length, r.target)\n"
      "...  for r in tutti.route_tokens(plan, [3, 1, 3, 1])]\n"
      "[(0, 0, 3, 0), (1, 0, 1, 0), (1, 0, 2, 1), (0, 1, 1, 1), (1, 1, 1, 1)]");
  module.def("helper_slots", &helper_slots, "plan"_a,
             "For each rank the experts of which it holds a copy as a helper.\n\n"
             ">>> tutti.helper_slots(tutti.plan_experts([6, 2], ranks=2))\n[[], [0]]");
  module.def("push_weights", &push_weights, "plan"_a, "elements"_a,
             "Moves weights, `elements` for each expert, to helpers' slots.\n\n"
             ">>> tutti.moved(tutti.push_weights(tutti.plan_experts([6, 2], ranks=2), 10))\n10");
  module.def("pull_gradients", &pull_gradients, "plan"_a, "elements"_a,
             "Moves gradients from helpers back, to be run with a sum.\n\n"
             ">>> tutti.moved(tutti.pull_gradients(tutti.plan_experts([6, 2], ranks=2), 10))\n10");
}

}  // namespace tutti::python
