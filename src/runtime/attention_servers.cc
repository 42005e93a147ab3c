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

/// An item of the problem: pairs of a token of a document's head and one of its tail, or the rows
/// begin .. end, which stay together.
struct AttentionPiece {
  int document = 0;
  bool is_pairs = false;
  int64_t begin = 0;
  int64_t end = 0;
};

/// The documents' pieces and the problem of which they are the items.
struct AttentionPieces {
  std::vector<AttentionPiece> pieces;
  WorkProblem problem;
};

class PieceMaker {
 public:
  PieceMaker(std::span<const AttentionDocument> documents, const AttentionServerSpec& spec)
      : documents_(documents), spec_(spec), row_(checked_product(2, spec.query.value, "a row")) {
    double total = 0;
    for (const AttentionDocument& document : documents) {
      total += static_cast<double>(causal_work(document.tokens, document.tokens));
    }
    share_ = total / spec.servers * (1 + spec.epsilon);
    made_.problem.bins.resize(at(spec.servers), {kNoLimit, spec.tokens_per_server, 0});
  }

  AttentionPieces make() {
    for (int d = 0; d < std::ssize(documents_); ++d) add_document(d);
    return std::move(made_);
  }

 private:
  /// A document of whole grains is pairs; another one stays whole if a server may have it all, and
  /// else consists of pairs, and rows between them.
  void add_document(int d) {
    const int64_t tokens = documents_[at(d)].tokens;
    const int64_t pairs = tokens / 2 / spec_.grain * spec_.grain;
    if (tokens == 2 * pairs) return add_pairs(d, pairs);
    const bool fits = static_cast<double>(causal_work(tokens, tokens)) <= share_;
    require(fits || pairs > 0, "document ", d,
            " has more attention than a server's share and must "
            "be cut, but its ",
            tokens, " tokens are fewer than two grains of ", spec_.grain,
            "; give a grain of at most ", tokens / 2);
    if (!fits) add_pairs(d, pairs);
    add_rows(d, fits ? 0 : pairs, tokens - (fits ? 0 : pairs));
  }

  WorkItem item_of(int d) const {
    WorkItem item;
    item.home = documents_[at(d)].home;
    item.move_fixed = Bytes(
        checked_product(documents_[at(d)].tokens, spec_.key_value.value, "what a document moves"));
    return item;
  }

  /// A unit is one token of the head and one of the tail: tokens + 1 pairs of the mask.
  void add_pairs(int d, int64_t pairs) {
    WorkItem item = item_of(d);
    item.units = pairs;
    item.unit_cost = documents_[at(d)].tokens + 1;
    item.grain = spec_.grain;
    item.unit_memory = 2;
    item.move_per_unit = row_ * 2;
    made_.problem.items.push_back(item);
    made_.pieces.push_back({d, true, 0, 0});
  }

  void add_rows(int d, int64_t begin, int64_t end) {
    WorkItem item = item_of(d);
    item.unit_cost = causal_work(end - begin, end);
    item.unit_memory = end - begin;
    item.move_per_unit = Bytes(checked_product(end - begin, row_.value, "what rows move"));
    made_.problem.items.push_back(item);
    made_.pieces.push_back({d, false, begin, end});
  }

  std::span<const AttentionDocument> documents_;
  const AttentionServerSpec& spec_;
  Bytes row_;  // of a query and its output
  double share_ = 0;
  AttentionPieces made_;
};

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
    const AttentionPieces made = PieceMaker(documents_, spec_).make();
    const Assignment assignment = deficit_fill(made.problem, spec_.epsilon);
    plan_.balance = judge(made.problem, assignment);
    for (int server = 0; server < spec_.servers; ++server) {
      last_document_ = -1;
      for (const WorkSlice& slice : assignment.slices) {
        if (slice.bin == server) add_slice(made.pieces[at(slice.item)], slice);
      }
    }
    const std::string_view what = "what all slices send";
    plan_.sent = Bytes(checked_sum(
        checked_product(checked_product(2, moved(plan_.queries), what), spec_.query.value, what),
        checked_product(moved(plan_.keys), spec_.key_value.value, what), what));
    return std::move(plan_);
  }

 private:
  void add_slice(const AttentionPiece& piece, const WorkSlice& slice) {
    const int64_t tokens = documents_[at(piece.document)].tokens;
    const int d = piece.document, server = slice.bin;
    if (!piece.is_pairs) return add_run(d, server, piece.begin, piece.end, piece.end);
    const int64_t keys = tokens - slice.begin;
    if (slice.end == tokens - slice.end) return add_run(d, server, slice.begin, keys, keys);
    add_run(d, server, slice.begin, slice.end, keys);
    add_run(d, server, tokens - slice.end, keys, keys);
  }

  void add_run(int document, int server, int64_t begin, int64_t end, int64_t keys) {
    const int home = documents_[at(document)].home;
    const int64_t offset = home_offset_[at(document)], rows = end - begin;
    AttentionRun run{document, begin, rows, home != server, offset + begin, offset};
    if (run.is_remote) {
      run.query_offset = add_parcel(plan_.queries, {home, server, offset + begin, 0, rows});
      // The first slice of a document needs the most of its keys: slices come by their begin, and
      // the rows between pairs come last.
      if (document != last_document_) {
        key_offset_ = add_parcel(plan_.keys, {home, server, offset, 0, keys});
        last_document_ = document;
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
