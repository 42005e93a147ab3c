// How the ranks of one reconfigure() agree on the way to their next communicator, by the store: the
// communicator of some of them is edited in place, and all others join it; or they make a new one.
//
// Threads: one. Errors: DistBackendError where somebody does not come in time.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "communicator.h"

namespace tutti_torch {

/// The part of a handle that all ranks read.
struct HandleParts {
  int rank = 0;
  int64_t uuid = -1;  // of the rank's present group; -1: it has none
};
HandleParts parts_of(const std::string& handle);

/// The way that all ranks take.
struct MembershipChange {
  bool edits = false;
  bool heals = false;  // the communicator has failed: it is edited without newcomers first
  /// For each rank to be: its rank in the communicator that is edited, or TUTTI_NEWCOMER.
  std::vector<int> order;

  int newcomers() const;
  /// The members that stay, by their ranks to be.
  std::vector<int> staying() const;
  /// The order as it is once `staying()` has been made.
  std::vector<int> order_once_healed() const;

  std::string text() const;
  static MembershipChange of(const std::string& text);
};

/// One rank's part in the agreement.
class MembershipMeeting {
 public:
  using Clock = std::chrono::steady_clock;

  /// `key` prefixes the names in the store; `own` is this rank's place in `handles`.
  MembershipMeeting(c10::intrusive_ptr<c10d::Store> store, std::string key,
                    const std::vector<std::string>& handles, int own,
                    std::chrono::milliseconds timeout);

  /// Whether this rank's group is the one that is edited, if any is.
  bool is_of_base() const;
  MembershipChange agree(const Standing& standing);
  /// The leader hands on the id by which newcomers join.
  bool leads() const { return own_ == leader_; }
  void hand_on(const tuttiUniqueId& id);
  tuttiUniqueId take_id();
  std::chrono::milliseconds left() const;

 private:
  MembershipChange decide();
  std::string read(const std::string& name, const std::string& who);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string key_;
  const std::vector<std::string>& handles_;
  const int own_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_;
  int64_t base_ = -1;  // uuid of the group that is edited
  int leader_ = -1;    // of its members the first of the ranks to be
};

}  // namespace tutti_torch
