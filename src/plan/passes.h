// Named passes over a plan's micro-operations. None knows an algorithm or a transport; each is
// named in Plan::passes when it changed something, and the plan verifier runs over the result.
#pragma once

#include "src/plan/bind.h"

namespace tutti::plan {

/// Store forwarding: a move whose target is copied on by the next micro-operation stores to all
/// targets itself: one pass over memory instead of two.
bool forward_stores(Plan& plan);

/// Pre/post operations: averages of floats scale each raw contribution where it first enters a
/// fold, averages of integers divide where the complete value is stored.
bool scale_contributions(Plan& plan, const Match& match, const BindRequest& request);

/// Which moves to the user's memory store in another way than through the cache, and in which.
struct UserStores {
  enum class Of { kNone, kFinalCopies, kAll };  // final: to what the plan does not read
  Of of = Of::kNone;
  types::StoreHint hint = types::StoreHint::kCached;
};

/// How each move stores: to the user's memory as told; moves into staging slots alone are marked
/// (Op::stages). Moves from slots learn whose they are (Op::peer). Returns whether any move to the
/// user's memory is one that was told of.
bool choose_stores(Plan& plan, int rank, UserStores stores);

/// Turns: a plan of one lane becomes one of `lanes`, each of which does every `lanes`-th piece, so
/// that an engine may copy one piece while it folds another. Each lane has a ring and a counter of
/// its own, and none waits for another. Of several slices the last ones are short (Plan::tapers).
/// Nothing happens to a plan of one slice, of several lanes, in cells, or with messages between
/// hosts unless all of these land (`lands`, Tuning::lands). The same on all ranks.
bool take_turns(Plan& plan, uint32_t lanes, bool lands = false);

}  // namespace tutti::plan
