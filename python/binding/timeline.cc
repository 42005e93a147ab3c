// Timelines: values that are checked, simulated and drawn.
#include "tutti/runtime/timeline.h"

#include <nanobind/stl/pair.h>

#include "part.h"
#include "record.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void add_enums(nb::module_& module) {
  nb::enum_<Track>(module, "Track", "What runs the tasks of a rank one after the other.")
      .value("compute", Track::kCompute)
      .value("comm_high", Track::kCommHigh)
      .value("comm_low", Track::kCommLow)
      .value("copy", Track::kCopy);
  nb::enum_<TaskKind>(module, "TaskKind", "The kind of work that a task is.")
      .value("compute", TaskKind::kCompute)
      .value("copy", TaskKind::kCopy)
      .value("send", TaskKind::kSend)
      .value("recv", TaskKind::kRecv)
      .value("all_reduce", TaskKind::kAllReduce)
      .value("all_gather", TaskKind::kAllGather)
      .value("reduce_scatter", TaskKind::kReduceScatter)
      .value("all_to_all", TaskKind::kAllToAll);
}

void add_values(nb::module_& module) {
  record<TimelineTask>(
      module, "TimelineTask", "One piece of work of one rank.",
      field("rank", &TimelineTask::rank, "whose work it is"),
      field("track", &TimelineTask::track, "a Track"),
      field("kind", &TimelineTask::kind, "a TaskKind"),
      field("name", &TimelineTask::name, "for pictures and messages"),
      field("duration", &TimelineTask::duration, "ns, as planned"),
      field("after", &TimelineTask::after, "numbers of tasks of the same rank"),
      field("channel", &TimelineTask::channel, "of communication; -1: none"),
      field("bytes", &TimelineTask::bytes, "of the message or of each rank's part"),
      field("chunk", &TimelineTask::chunk, "bytes of each of several calls; 0: one call"),
      field("tag", &TimelineTask::tag, "says which message it is meant to be"),
      field("acquires", &TimelineTask::acquires, "bytes from its begin on"),
      field("releases", &TimelineTask::releases, "bytes at its end"),
      field("reads", &TimelineTask::reads, "numbers of buffers"),
      field("writes", &TimelineTask::writes, "numbers of buffers"),
      field("item", &TimelineTask::item, "the work item that it does; -1: none"));
  record<TaskSpan>(module, "TaskSpan", "When a task ran.",
                   field("ready", &TaskSpan::ready, "ns: all that it is after has ended"),
                   field("begin", &TaskSpan::begin, "ns"), field("end", &TaskSpan::end, "ns"));
  record<History>(module, "History", "When each task ran, simulated or measured.",
                  field("spans", &History::spans, "TaskSpan objects, in the order of tasks"));
  record<Finding>(module, "Finding", "A rule that a timeline breaks.",
                  field("rule", &Finding::rule, "1 to 7, as docs/runtime.md numbers them"),
                  field("task", &Finding::task, "a task's number; -1: none in particular"),
                  field("sentence", &Finding::sentence, "in words"));
  record<RankSummary>(
      module, "RankSummary", "Where a rank's time went.",
      field("computing", &RankSummary::computing, "ns"),
      field("communicating", &RankSummary::communicating, "ns: some transfer is under way"),
      field("exposed", &RankSummary::exposed, "ns of that, while nothing is computed"),
      field("idle", &RankSummary::idle, "ns: nothing is computed, until the end of all ranks"),
      field("peak", &RankSummary::peak, "bytes"));
  record<Summary>(module, "Summary", "Where the time of all ranks went.",
                  field("makespan", &Summary::makespan, "ns, from the first begin to the last end"),
                  field("ranks", &Summary::ranks, "RankSummary objects"));
}

using Named = std::vector<std::pair<std::string, History>>;

std::vector<NamedHistory> named(const Timeline& timeline, const Named& histories) {
  std::vector<NamedHistory> all;
  for (const auto& [name, history] : histories) all.push_back({name, history});
  if (all.empty()) all.push_back({"simulated", simulate(timeline)});
  return all;
}

std::vector<std::vector<int64_t>> items_by_rank(const Timeline& timeline) {
  std::vector<std::vector<int64_t>> items(static_cast<size_t>(timeline.ranks));
  for (const TimelineTask& task : timeline.tasks) {
    if (task.item >= 0 && task.track == Track::kCompute) {
      items[static_cast<size_t>(task.rank)].push_back(task.item);
    }
  }
  return items;
}

void add_timeline_class(nb::module_& module) {
  auto made = record<Timeline, false>(
      module, "Timeline",
      "Which work runs where and after what. In a notebook it shows itself, simulated.\n\n"
      ">>> plan = tutti.pipeline(ranks=2, micro_batches=4)\n"
      ">>> plan.check(), plan.summary().makespan\n([], 15000000)",
      field("ranks", &Timeline::ranks, "how many ranks there are"),
      field("items", &Timeline::items, "items 0 .. items - 1 are to be done, each once"),
      field("memory", &Timeline::memory, "bytes of each rank; 0: no limit"),
      field("channels", &Timeline::channels, "RankSet objects"),
      field("tasks", &Timeline::tasks, "TimelineTask objects; a track runs them in this order"));
  made.def("check", &check, nb::call_guard<nb::gil_scoped_release>(),
           "What is wrong with it: Finding objects, none if it can run.");
  made.def("simulate", &simulate, nb::call_guard<nb::gil_scoped_release>(),
           "When each task would run. Raises InvalidInput with the first finding of check().");
  made.def(
      "summary", [](const Timeline& self) { return summarize(self, simulate(self)); },
      nb::call_guard<nb::gil_scoped_release>(), "The Summary of its simulation.");
  made.def("summarize", &summarize, "history"_a, "The Summary of a history of it.");
  made.def(
      "svg",
      [](const Timeline& self, const Named& histories) {
        return draw_svg(self, named(self, histories));
      },
      "histories"_a = Named{},
      "A picture, as the text of an SVG file. `histories` are pairs of a name and a History; "
      "without any it is simulated.");
  made.def(
      "perfetto",
      [](const Timeline& self, const Named& histories) {
        return perfetto_json(self, named(self, histories));
      },
      "histories"_a = Named{}, "The same as a trace that ui.perfetto.dev opens.");
  made.def("_repr_svg_", [](const Timeline& self) { return draw_svg(self, named(self, {})); });
  made.def("items_by_rank", &items_by_rank,
           "The items that each rank's compute track does, in order.\n\n"
           ">>> tutti.pipeline(ranks=2, micro_batches=2).items_by_rank()\n"
           "[[0, 4, 1, 5], [2, 3, 6, 7]]");
  made.def_prop_ro(
      "fingerprint", [](const Timeline& self) { return fingerprint(self); },
      "A number that is equal on all ranks if the plan is.");
  made.def("__repr__", [](const Timeline& self) {
    return "<tutti.Timeline: " + std::to_string(self.ranks) + " ranks, " +
           std::to_string(self.tasks.size()) + " tasks>";
  });
}

}  // namespace

void add_timeline(nb::module_& module) {
  add_enums(module);
  add_values(module);
  add_timeline_class(module);
}

}  // namespace tutti::python
