// Faults that lowering could have: changes of a plan that still looks like one.
//
// Each returns whether the plan had a place for it. Threads: no state.
#pragma once

#include "src/plan/plan.h"

namespace tutti::faults {

bool shift_offset_by_one_element(plan::Plan& plan);
bool leave_scratch_stale(plan::Plan& plan);
bool forget_credit(plan::Plan& plan);
bool forget_readers(plan::Plan& plan);  // the wait until peers have read my buffers
bool forget_end(plan::Plan& plan);
bool wait_for_one_less(plan::Plan& plan);
bool read_neighbour_cell(plan::Plan& plan);
bool cut_length_by_one(plan::Plan& plan);
bool swap_blocks(plan::Plan& plan);
bool advance_one_more(plan::Plan& plan);
// Between hosts:
bool forget_arrival(plan::Plan& plan);
bool forget_sent(plan::Plan& plan);  // the wait until what was sent may be overwritten
bool send_one_less(plan::Plan& plan);
bool forget_send(plan::Plan& plan);
bool sign_differently(plan::Plan& plan);

}  // namespace tutti::faults
