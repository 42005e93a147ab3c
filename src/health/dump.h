// The last calls of a rank in whatever form they were left: records of communicators that failed,
// `tutti trace dump --json`, or PyTorch's flight recorder (a pickle, or JSON).
//
// Of PyTorch's dumps the rank is the number at the end of the file's name, as PyTorch names them
// (nccl_trace_rank_3); each process group is a communicator, whose calls are numbered by
// collective_seq_id. Its versions 2.x are known.
//
// Threads: pure. Units: nanoseconds of the clock of the process. Errors: kRemoteError and
// kInvalidArgument name the file and what is wrong with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/health/analysis.h"
#include "src/topology/json_value.h"

namespace tutti::health {

struct ReadDumps {
  std::vector<RankRecorder> recorders;
  std::vector<Status> refused;  // parts that could not be read
};

/// `file`: its name, for messages, and for PyTorch's rank.
Result<ReadDumps> read_dump(std::string_view content, const std::string& file);

Result<std::vector<RankRecorder>> recorders_of_trace(const topology::JsonValue& dump);
Result<std::vector<RankRecorder>> recorders_of_pytorch(const topology::JsonValue& dump, int rank);

}  // namespace tutti::health
