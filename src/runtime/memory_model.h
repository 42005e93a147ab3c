// The common part of memory plans and their timelines.
#pragma once

#include "tutti/runtime/memory_plan.h"

namespace tutti::runtime {

void check_model(const MemoryModel& model);
/// Throws for a plan that the model cannot have.
void check_plan(const MemoryModel& model, const MemoryPlan& plan);
int chunks_of(const MemoryModel& model);
/// As many as the chunks of one block that are on the host.
int least_buffers(const MemoryModel& model, int persist);

}  // namespace tutti::runtime
