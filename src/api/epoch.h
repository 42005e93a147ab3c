// The next epoch of an edited group, as one of its ranks builds it: a member that stays, or a
// newcomer.
//
// Threads: the one that edits or joins. Errors: as those of making a communicator; the other
// members are told.
#pragma once

#include <memory>
#include <optional>

#include "src/api/create.h"
#include "src/comm/edit_session.h"
#include "src/comm/memory_table.h"

namespace tutti::api {

/// Of a rank, for the epoch that its session's members have adopted.
struct EpochMaking {
  Process& process;
  const CommConfig& config;
  std::shared_ptr<comm::GroupHistory> history;
  comm::EditSession& session;
  comm::MemorySource memory;
  const comm::Membership* previous = nullptr;  // of a member that stays
  std::optional<select::Model> inherited;
};

struct EpochMade {
  std::unique_ptr<comm::Communicator> communicator;
  comm::KeptMemory kept;
};

Result<EpochMade> build_epoch(const EpochMaking& pending, const WaitLimit& wait_limit);

}  // namespace tutti::api
