// The pipeline of a step as a timeline of the runtime layer, which is simulated, drawn, and
// checked.
//
// A pass lasts as long as the computing and the exchanges within it; a message as long as that
// between its two stages. Exchanges of gradients and weights come behind the last pass and are no
// part of it.
//
// Threads: pure but for the prices. Units: nanoseconds. Errors: throws runtime::Error where times
// overflow.
#pragma once

#include "src/arrange/step_price.h"
#include "tutti/runtime/timeline.h"

namespace tutti::arrange {

/// Of the first `micro_batches` of a replica; stages of several ranks are one rank there.
runtime::Timeline step_timeline(const StepPricer& pricer, const Arrangement& arrangement,
                                const StepPricer::TimeOf& time_of, uint32_t micro_batches);

/// The price with the pipeline as the timeline has it. Of many micro-batches, which take turns of
/// equal length, the first few are simulated.
StepPrice timeline_price(const StepPricer& pricer, const Arrangement& arrangement,
                         const StepPricer::TimeOf& time_of);

}  // namespace tutti::arrange
