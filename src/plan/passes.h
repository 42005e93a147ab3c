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

/// Which stores to the user's memory bypass the cache: none, plain copies to what the plan does not
/// read, or all.
enum class Bypass { kNone, kFinalCopies, kAll };

/// The absolute kernels, with stores that bypass the cache as told; both kinds for moves into
/// staging slots. Moves from slots learn whose they are (Op::peer). Returns whether any store to
/// the user's memory bypasses the cache.
bool choose_kernels(Plan& plan, const BindRequest& request, int rank, Bypass bypass);

}  // namespace tutti::plan
