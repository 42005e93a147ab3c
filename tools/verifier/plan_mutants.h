// Wrong plans on purpose: a proof is worth what it refuses.
//
// A mutant is a set of plans in which one rank's plan has one fault. Some faults are none: a wait
// may be implied by another one. Whatever verify_plans() accepts is right, so an accepted mutant
// proves itself equivalent; the tests count those and name the faults that must never be.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/plan/verify_plan.h"

namespace tutti::plan {

enum class Fault : uint8_t {
  kNoEnd,  // the signal at the end of the slice
  kNoSignal,
  kNoCredit,
  kNoWait,
  kNoLaterWaits,  // for a peer, behind one: what a value wrongly taken for seen leaves out
  kNoRaise,
  kNoWaitCell,
  kNoEnter,
  kNoWaitEnter,
  kNoReaderWait,  // epilogue: nobody reads my buffers any more
  kNoWaitsFor,    // a peer: neither in the lanes nor in the epilogue
  kNoAfter,
  kNoPost,
  kNoArrived,
  kNoSent,
  kNoMove,  // or read
  kSmallerSignal,
  kLargerSignal,
  kSmallerWait,
  kLargerWait,
  kEarlierAfter,
  kOtherCell,       // flag of the next cell, raised or awaited
  kShiftedOperand,  // by a cell, a line or an element
  kShorter,
  kSwapped,       // with the next micro-operation of the lane
  kKeepsExact,    // who encodes a value goes on with what it was before
  kEncodesAgain,  // what was decoded, in its place
  kReadsEncoded,  // as if it were elements
};
inline constexpr int kFaults = static_cast<int>(Fault::kReadsEncoded) + 1;
const char* name_of(Fault fault);

struct Mutant {
  Fault fault;
  uint32_t rank;
  uint32_t op;       // of the prologue, epilogue or ops
  std::string what;  // in words
};

/// Calls `judge` for every mutant; `set` is the mutant during the call and as before afterwards.
void each_mutant(PlanSet& set, const std::function<void(const Mutant&)>& judge);

}  // namespace tutti::plan
