#include "membership.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "errors.h"

namespace tutti_torch {
namespace {

constexpr auto kStoreNap = std::chrono::milliseconds(1);

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// A uuid may be used again by mistake, and a store may outlive groups; handles are new each time.
std::string digest_of(const std::vector<std::string>& handles) {
  uint64_t state = 14695981039346656037u;  // FNV-1a
  for (const auto& handle : handles) {
    for (const char c : handle + "\n") {
      state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
  }
  return std::to_string(state);
}

std::string written(const Standing& standing) {
  return std::to_string(standing.exists ? 1 : 0) + " " + std::to_string(standing.well ? 1 : 0) +
         " " + std::to_string(standing.rank) + " " + std::to_string(standing.epoch);
}

Standing standing_of(const std::string& text) {
  std::istringstream in(text);
  Standing read;
  in >> read.exists >> read.well >> read.rank >> read.epoch;
  if (!in) read.exists = false;
  return read;
}

}  // namespace

HandleParts parts_of(const std::string& handle) {
  HandleParts parts;
  long long uuid = -1;
  if (std::sscanf(handle.c_str(), "tutti:%d:%lld:", &parts.rank, &uuid) == 2) parts.uuid = uuid;
  return parts;
}

int MembershipChange::newcomers() const {
  return static_cast<int>(std::count(order.begin(), order.end(), TUTTI_NEWCOMER));
}

std::vector<int> MembershipChange::staying() const {
  std::vector<int> ranks;
  for (const int rank : order) {
    if (rank != TUTTI_NEWCOMER) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> MembershipChange::order_once_healed() const {
  std::vector<int> healed = order;
  int next = 0;
  for (int& rank : healed) {
    if (rank != TUTTI_NEWCOMER) rank = next++;
  }
  return healed;
}

std::string MembershipChange::text() const {
  std::string text = edits ? heals ? "heal" : "edit" : "make";
  for (const int rank : order) text += " " + std::to_string(rank);
  return text;
}

MembershipChange MembershipChange::of(const std::string& text) {
  std::istringstream in(text);
  std::string way;
  in >> way;
  MembershipChange read;
  read.heals = way == "heal";
  read.edits = read.heals || way == "edit";
  for (int rank = 0; in >> rank;) read.order.push_back(rank);
  return read;
}

MembershipMeeting::MembershipMeeting(c10::intrusive_ptr<c10d::Store> store, std::string key,
                                     const std::vector<std::string>& handles, int own,
                                     std::chrono::milliseconds timeout)
    : store_(std::move(store)),
      key_(std::move(key) + digest_of(handles) + "/"),
      handles_(handles),
      own_(own),
      timeout_(timeout),
      deadline_(Clock::now() + timeout) {
  // Fewest connections are made where the largest group is edited; of equals the first one's.
  std::map<int64_t, int> sizes;
  for (const auto& handle : handles) ++sizes[parts_of(handle).uuid];
  for (size_t i = 0; i < handles.size(); ++i) {
    const int64_t uuid = parts_of(handles[i]).uuid;
    if (uuid < 0 || (base_ >= 0 && sizes[uuid] <= sizes[base_])) continue;
    base_ = uuid;
    leader_ = static_cast<int>(i);
  }
}

bool MembershipMeeting::is_of_base() const {
  return base_ >= 0 && parts_of(handles_[static_cast<size_t>(own_)]).uuid == base_;
}

std::chrono::milliseconds MembershipMeeting::left() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

// A store's get() holds its connection while it waits.
std::string MembershipMeeting::read(const std::string& name, const std::string& who) {
  while (!store_->check({key_ + name})) {
    TORCH_CHECK_WITH(DistBackendError, Clock::now() < deadline_,
                     "tutti: reconfigure() timed out after ", timeout_.count(), " ms: ", who,
                     " has not come");
    std::this_thread::sleep_for(kStoreNap);
  }
  const std::vector<uint8_t> bytes = store_->get(key_ + name);
  return {bytes.begin(), bytes.end()};
}

MembershipChange MembershipMeeting::agree(const Standing& standing) {
  if (base_ < 0) return {};
  if (is_of_base())
    store_->set(key_ + "state/" + std::to_string(own_), bytes_of(written(standing)));
  if (leads()) {
    const MembershipChange change = decide();
    store_->set(key_ + "way", bytes_of(change.text()));
    return change;
  }
  return MembershipChange::of(read("way", "rank " + std::to_string(leader_)));
}

MembershipChange MembershipMeeting::decide() {
  MembershipChange change;
  change.edits = true;
  std::set<int> ranks;
  std::set<uint32_t> epochs;
  for (size_t i = 0; i < handles_.size(); ++i) {
    if (parts_of(handles_[i]).uuid != base_) {
      change.order.push_back(TUTTI_NEWCOMER);
      continue;
    }
    const Standing standing =
        standing_of(read("state/" + std::to_string(i), "rank " + std::to_string(i)));
    change.edits = change.edits && standing.exists && ranks.insert(standing.rank).second;
    change.heals = change.heals || !standing.well;
    epochs.insert(standing.epoch);
    change.order.push_back(standing.rank);
  }
  return change.edits && epochs.size() == 1 ? change : MembershipChange();
}

void MembershipMeeting::hand_on(const tuttiUniqueId& id) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&id);
  store_->set(key_ + "id", std::vector<uint8_t>(bytes, bytes + sizeof id));
}

tuttiUniqueId MembershipMeeting::take_id() {
  const std::string bytes = read("id", "rank " + std::to_string(leader_));
  tuttiUniqueId id{};
  TORCH_CHECK_WITH(DistBackendError, bytes.size() == sizeof id,
                   "tutti: the store has no id of Tutti; all ranks need one version");
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

}  // namespace tutti_torch
