// Which plans are proved: an algorithm lowered in every way the library may lower it, on small
// groups and counts. `tutti verify --plans` and the tests run it.
//
// Errors:  the first counter-example of each case, with the case that gave it.
// Threads: pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/plan/bind.h"
#include "src/plan/match.h"
#include "src/plan/verify_plan.h"
#include "src/schedule/algorithm.h"

namespace tutti::plan {

/// Whose input is (part of) its output: nobody's, everybody's, or the even ranks'.
enum class Placing : uint8_t { kSeparate, kInPlace, kMixed };
const char* name_of(Placing placing);

/// Which ranks share memory. The last one has hosts, a network in each of two regions, and a level
/// "region" above.
enum class Spread : uint8_t { kOneDomain, kTwoDomains, kAllApart, kTwoRegions };
const char* name_of(Spread spread);
group::GroupPointer group_of(int ranks, Spread spread);

/// Everything a set of plans depends on before the count.
struct Lowering {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Parameters parameters;
  Spread spread = Spread::kOneDomain;
  Mode mode = Mode::kStaged;
  Placing placing = Placing::kSeparate;
  bool single_assignment = false;
  std::string wire = {};  // codecs::parse_wire()
  bool level_calls = false;
};
std::string print(const Lowering& lowering);

Result<std::vector<Match>> match_all(const Lowering& lowering);
PlanSet bind_all(std::span<const Match> matches, const BindRequest& request, const Tuning& tuning);
/// A v-collective: `vectors` of every rank in place of the request's count.
PlanSet bind_all(std::span<const Match> matches, std::vector<schedule::CountVectors> vectors,
                 BindRequest request, const Tuning& tuning);

/// Small frames, so that small counts run in several slices.
Tuning small_tuning(bool in_cells);

/// All lowerings of an algorithm with these parameters that the library supports.
std::vector<Lowering> lowerings(const schedule::Algorithm& algorithm,
                                const schedule::Parameters& parameters);

/// Those that are proved for a group of `ranks`: one and two lanes, first and last root, list
/// folds.
std::vector<Lowering> lowerings(const schedule::Algorithm& algorithm, int ranks);

/// Those that are proved with levels that encode: of all codecs one has blocks that pieces are cut
/// at, and a group of regions has two codecs, or one that crosses only some of its messages.
std::vector<Lowering> encoded_lowerings(const schedule::Algorithm& algorithm, int ranks);

/// Counts for a lowering: one element, fewer than ranks, odd, several slices.
std::vector<uint64_t> small_counts(const Lowering& lowering);

/// Rings in which everything is used again at once, and in which every second slice enters a new
/// region. Both so often that parts of cells are used again, too.
std::vector<VerifyPlanOptions> small_rings(const PlanSet& set);

struct Tally {
  uint64_t plan_sets = 0;
  uint64_t micro_operations = 0;
  uint64_t refused = 0;
};

using Report = std::function<void(const std::string& which, const Status& status)>;

/// Proves every plan of a lowering; `refused` hears of each that is not right.
Tally verify_lowering(const Lowering& lowering, const Report& refused);

}  // namespace tutti::plan
