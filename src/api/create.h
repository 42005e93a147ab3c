// All that a rank needs to be made, from the process and its environment.
//
// Threads: any. Errors: kInvalidUsage where the environment leaves no choice.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/api/config.h"
#include "src/api/process.h"
#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/unique_id.h"
#include "src/comm/communicator.h"

namespace tutti::api {

/// The group as the rank knows it before it has met the others.
struct CreateOptions {
  int rank = 0;
  int ranks = 1;
  uint64_t communicator = 0;  // equal on all ranks, unique in the job
  // Of the rank in the group that this one comes from (MemberId); else none.
  uint32_t member_number = MemberId::kNoNumber;
  // Of an epoch that follows an edit: its number, what the rank takes on, and the links of the
  // epoch before, of a rank that was in it.
  uint32_t epoch = 0;
  std::shared_ptr<comm::GroupHistory> history;
  const comm::Membership* previous = nullptr;
  transport::JobKey key{};
  comm::Exchange exchange;                 // how it meets them
  std::function<void()> decline;           // instead: tells them that it does not; may be null
  std::optional<select::Model> inherited;  // of the group that it is part of
  std::string origin;  // for people: who started the rank; "" where its caller did
  /// The places that the ranks call to meet: they show which of several networks the ranks share.
  std::vector<bootstrap::Address> places;
};

/// The refusal of a group that is larger than any can be.
Status check_size(const char* call, int ranks);

/// Where this rank listens for those of other hosts; `places`: that it calls.
Result<bootstrap::Interface> choose_interface(const Config& config,
                                              const std::vector<bootstrap::Address>& places);

/// All ranks of a group call this, in any threads.
Result<std::unique_ptr<comm::Communicator>> create_communicator(Process& process,
                                                                const CreateOptions& creation,
                                                                const CommConfig& config,
                                                                const WaitLimit& wait_limit);

/// A group that meets where the ids say, of which there is at least one. `config` lives as long as
/// the process.
CreateOptions create_options_of(const Config& config, const std::vector<bootstrap::UniqueId>& ids,
                                int ranks, int rank);

/// Behind an origin, where a key that anybody can compute is used.
inline constexpr const char* kWithoutKey =
    "; WITHOUT A KEY (TUTTI_INSECURE): whoever reaches the ports of the ranks can join";
/// Says it in the log, as a warning if there is no key.
void tell_origin(const Process& process, const CreateOptions& creation, bool keyless);

/// From the bytes of a caller or of a peer, with the job's key where they need it.
Result<bootstrap::UniqueId> decode_id(std::span<const uint8_t> bytes);
Result<bootstrap::UniqueId> decode_id(const tuttiUniqueId& bytes);
tuttiUniqueId encode_id(const bootstrap::UniqueId& id);

}  // namespace tutti::api
