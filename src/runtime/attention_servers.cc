#include "tutti/runtime/attention_servers.h"

#include <algorithm>
#include <cmath>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_spec(std::span<const AttentionDocument> documents, const AttentionServerSpec& spec) {
  require(spec.servers >= 1, spec.servers, " servers; give 1 or more");
  require(!documents.empty(), "there are no documents; give at least one");
  require(std::isfinite(spec.epsilon) && spec.epsilon >= 0, "epsilon is ", spec.epsilon,
          "; give 0 or more");
  check_ranks(spec.servers);
  require(spec.grain >= 1 && spec.grain <= kNoLimit / 4, "the grain is ", spec.grain,
          " tokens; give 1 or more, less than 2^61");
  require(spec.tokens_per_server >= 1, spec.tokens_per_server,
          " tokens fit into a rank; give 1 or more");
  require(spec.query >= Bytes(1) && spec.key_value >= Bytes(1),
          "a row has no bytes; give 1 or more");
  int64_t tokens = 0;
  for (size_t d = 0; d < documents.size(); ++d) {
    const AttentionDocument& document = documents[d];
    require(document.tokens >= 1 && document.tokens <= kNoLimit / 4 - tokens, "document ", d,
            " has ", document.tokens, " tokens; give 1 or more, of all together less than 2^61");
    tokens += document.tokens;
    require(document.home >= 0 && document.home < spec.servers, "document ", d, " has home ",
            document.home, "; there are ", spec.servers, " servers");
    if ((document.tokens + spec.servers - 1) / spec.servers > spec.tokens_per_server) {
      infeasible("document ", d, " has ", document.tokens, " tokens, more than ", spec.servers,
                 " servers with room for ", spec.tokens_per_server,
                 " each; give more servers or memory");
    }
  }
}

bool is_divisible(const AttentionDocument& document, const AttentionServerSpec& spec) {
  return document.tokens % (2 * spec.grain) == 0;
}

/// A unit is one token of the head and one of the tail: tokens + 1 pairs.
WorkItem item_of(const AttentionDocument& document, const AttentionServerSpec& spec) {
  WorkItem item;
  item.home = document.home;
  item.move_fixed =
      Bytes(checked_product(document.tokens, spec.key_value.value, "what a document moves"));
  const Bytes row(checked_product(4, spec.query.value, "two rows with their outputs") / 2);
  if (is_divisible(document, spec)) {
    item.units = document.tokens / 2;
    item.unit_cost = document.tokens + 1;
    item.grain = spec.grain;
    item.unit_memory = 2;
    item.move_per_unit = row * 2;
  } else {
    item.unit_cost = causal_work(document.tokens, document.tokens);
    item.unit_memory = document.tokens;
    item.move_per_unit =
        Bytes(checked_product(document.tokens, row.value, "what a document's rows move"));
  }
  return item;
}

WorkProblem problem_of(std::span<const AttentionDocument> documents,
                       const AttentionServerSpec& spec) {
  WorkProblem problem;
  problem.bins.resize(at(spec.servers), {kNoLimit, spec.tokens_per_server, 0});
  double total = 0;
  for (const AttentionDocument& document : documents) {
    problem.items.push_back(item_of(document, spec));
    total += static_cast<double>(problem.items.back().units) *
             static_cast<double>(problem.items.back().unit_cost);
  }
  const double share = total / spec.servers * (1 + spec.epsilon);
  for (size_t d = 0; d < documents.size(); ++d) {
    const int64_t tokens = documents[d].tokens, step = 2 * spec.grain;
    require(problem.items[d].grain > 0 || static_cast<double>(problem.items[d].unit_cost) <= share,
            "document ", d, " has more attention than a server's share and must be cut, but its ",
            tokens, " tokens are no multiple of twice the grain ", spec.grain, "; pad it to ",
            (tokens + step - 1) / step * step);
  }
  return problem;
}

/// Turns the assignment into rows and parcels, a rank after the other.
class PlanMaker {
 public:
  PlanMaker(std::span<const AttentionDocument> documents, const AttentionServerSpec& spec)
      : documents_(documents), spec_(spec) {
    std::vector<int64_t> held(at(spec.servers), 0);
    for (const AttentionDocument& document : documents) {
      home_offset_.push_back(held[at(document.home)]);
      held[at(document.home)] += document.tokens;
    }
    for (Resharding* moves : {&plan_.queries, &plan_.keys}) {
      moves->ranks = spec.servers;
      moves->source_sizes = held;
      moves->target_sizes.assign(at(spec.servers), 0);
    }
    plan_.runs.resize(at(spec.servers));
  }

  AttentionPlan make() {
    const WorkProblem problem = problem_of(documents_, spec_);
    const Assignment assignment = deficit_fill(problem, spec_.epsilon);
    plan_.balance = judge(problem, assignment);
    for (int server = 0; server < spec_.servers; ++server) {
      last_document_ = -1;
      for (const WorkSlice& slice : assignment.slices) {
        if (slice.bin == server) add_slice(slice);
      }
    }
    const std::string_view what = "what all slices send";
    plan_.sent = Bytes(checked_sum(
        checked_product(checked_product(2, moved(plan_.queries), what), spec_.query.value, what),
        checked_product(moved(plan_.keys), spec_.key_value.value, what), what));
    return std::move(plan_);
  }

 private:
  void add_slice(const WorkSlice& slice) {
    const int64_t tokens = documents_[at(slice.item)].tokens;
    if (!is_divisible(documents_[at(slice.item)], spec_)) return add_run(slice, 0, tokens, tokens);
    const int64_t keys = tokens - slice.begin;
    if (slice.end == tokens / 2) return add_run(slice, slice.begin, keys, keys);
    add_run(slice, slice.begin, slice.end, keys);
    add_run(slice, tokens - slice.end, keys, keys);
  }

  void add_run(const WorkSlice& slice, int64_t begin, int64_t end, int64_t keys) {
    const int home = documents_[at(slice.item)].home, server = slice.bin;
    const int64_t offset = home_offset_[at(slice.item)], rows = end - begin;
    AttentionRun run{slice.item, begin, rows, home != server, offset + begin, offset};
    if (run.is_remote) {
      run.query_offset = add_parcel(plan_.queries, {home, server, offset + begin, 0, rows});
      // The first slice of a document needs the most of its keys: slices come by their begin.
      if (slice.item != last_document_) {
        key_offset_ = add_parcel(plan_.keys, {home, server, offset, 0, keys});
        last_document_ = slice.item;
      }
      run.key_offset = key_offset_;
    }
    plan_.runs[at(server)].push_back(run);
  }

  static int64_t add_parcel(Resharding& moves, Parcel parcel) {
    int64_t& filled = moves.target_sizes[at(parcel.target)];
    parcel.target_offset = filled;
    filled += parcel.length;
    moves.parcels.push_back(parcel);
    return parcel.target_offset;
  }

  std::span<const AttentionDocument> documents_;
  const AttentionServerSpec& spec_;
  AttentionPlan plan_;
  std::vector<int64_t> home_offset_;  // of each document
  int last_document_ = -1;            // whose keys are on their way to the rank at hand
  int64_t key_offset_ = 0;            // where they arrive
};

}  // namespace

AttentionRowBytes row_bytes(const AttentionShape& shape, Bytes element) {
  require(shape.q_heads >= 1 && shape.kv_heads >= 1 && shape.head_dim >= 1 && element >= Bytes(1),
          "a size is not positive");
  require(shape.q_heads % shape.kv_heads == 0, shape.q_heads, " query heads are not a multiple of ",
          shape.kv_heads, " heads of keys");
  const Bytes head(checked_product(shape.head_dim, element.value, "the bytes of a head"));
  return {Bytes(checked_product(shape.q_heads, head.value, "the bytes of a query row")),
          Bytes(checked_product(2, checked_product(shape.kv_heads, head.value, "a row's keys"),
                                "the bytes of keys and values"))};
}

AttentionPlan plan_attention(std::span<const AttentionDocument> documents,
                             const AttentionServerSpec& spec) {
  check_spec(documents, spec);
  return PlanMaker(documents, spec).make();
}

double most_hidden_slices(double ns_per_token, double bytes_per_ns,
                          const AttentionRowBytes& bytes) {
  require(std::isfinite(ns_per_token) && ns_per_token > 0 && std::isfinite(bytes_per_ns) &&
              bytes_per_ns > 0,
          "the time of a token and the bandwidth must be positive and finite");
  require(bytes.query >= Bytes(1) && bytes.key_value >= Bytes(1),
          "a row has no bytes; give 1 or more");
  const double spare = ns_per_token * bytes_per_ns - static_cast<double>(bytes.query.value);
  return 2 * spare / static_cast<double>(bytes.key_value.value) - 1;
}

}  // namespace tutti::runtime
