#include "src/group/view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/group/members.h"

namespace tutti::group {
namespace {

// Gives the nodes numbers from 0 in the order of their first ranks, which it returns.
std::vector<int> number_nodes(std::vector<uint32_t>& nodes) {
  std::map<uint32_t, uint32_t> numbers;
  std::vector<int> first_ranks;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto next = static_cast<uint32_t>(first_ranks.size());
    const auto [found, is_new] = numbers.try_emplace(nodes[rank], next);
    if (is_new) first_ranks.push_back(static_cast<int>(rank));
    nodes[rank] = found->second;
  }
  return first_ranks;
}

Status contradiction(const Level& level, size_t rank, const std::string& why) {
  return Status::invalid_argument("the level '" + level.name + "' of a group: rank " +
                                  std::to_string(rank) + " " + why);
}

// Every node of `inner` lies within one node of `outer`. Both are numbered.
Status check_nested(const Level& inner, const std::vector<int>& first_ranks, const Level& outer) {
  for (size_t rank = 0; rank < inner.nodes.size(); ++rank) {
    const auto first = static_cast<size_t>(first_ranks[inner.nodes[rank]]);
    if (outer.nodes[rank] == outer.nodes[first]) continue;
    return contradiction(outer, rank,
                         "is apart from rank " + std::to_string(first) +
                             ", with which it shares a node of '" + inner.name + "'");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const GroupView>> GroupView::make(uint64_t communicator, uint32_t epoch,
                                                         std::vector<MemberId> members,
                                                         std::vector<Level> levels) {
  if (members.empty()) return Status::invalid_argument("a group without members");
  if (levels.empty()) return Status::invalid_argument("a group without levels");
  const std::shared_ptr<GroupView> made(new GroupView());
  made->communicator_ = communicator;
  made->epoch_ = epoch;
  made->members_ = std::move(members);
  made->levels_ = std::move(levels);
  for (size_t i = 0; i < made->levels_.size(); ++i) {
    Level& level = made->levels_[i];
    if (level.nodes.size() != made->members_.size()) {
      return contradiction(level, level.nodes.size(), "has no node, or is none of the group");
    }
    if (!level.uplinks.empty() && level.uplinks.size() != level.nodes.size()) {
      return contradiction(level, level.uplinks.size(), "has no uplink, or is none of the group");
    }
    made->first_ranks_.push_back(number_nodes(level.nodes));
    if (i == 0) continue;
    Status nested = check_nested(made->levels_[i - 1], made->first_ranks_[i - 1], level);
    if (!nested.ok()) return nested;
  }
  if (made->nodes(made->levels() - 1) != 1) {
    return contradiction(made->levels_.back(), static_cast<size_t>(made->first_ranks_.back()[1]),
                         "is apart from rank 0, and no level is above: nothing connects them");
  }
  made->number_hosts();
  made->sort_by_host();
  return std::shared_ptr<const GroupView>(made);
}

void GroupView::number_hosts() {
  for (size_t i = 0; i < levels_.size() && levels_[i].reach.map; ++i) {
    hosts_ = levels_[i].nodes;
    host_count_ = nodes(i);
  }
  if (!hosts_.empty()) return;
  host_count_ = static_cast<uint32_t>(members_.size());
  for (uint32_t rank = 0; rank < host_count_; ++rank) hosts_.push_back(rank);
}

void GroupView::sort_by_host() {
  host_begins_.assign(host_count_ + 1, 0);
  for (const uint32_t host : hosts_) ++host_begins_[host + 1];
  for (uint32_t host = 0; host < host_count_; ++host) host_begins_[host + 1] += host_begins_[host];
  std::vector<uint32_t> next(host_begins_.begin(), host_begins_.end() - 1);
  by_host_.resize(hosts_.size());
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    near_places_.push_back(next[hosts_[rank]] - host_begins_[hosts_[rank]]);
    by_host_[next[hosts_[rank]]++] = static_cast<int>(rank);
  }
}

std::vector<int> GroupView::host_first_ranks() const {
  std::vector<int> first;
  for (uint32_t host = 0; host < host_count_; ++host) first.push_back(by_host_[host_begins_[host]]);
  return first;
}

int GroupView::first_of_largest_host() const {
  const std::vector<int> first = host_first_ranks();
  return *std::max_element(first.begin(), first.end(), [this](int a, int b) {
    return near_ranks(a).size() < near_ranks(b).size();
  });
}

GroupPointer group_on_hosts(const std::vector<int>& hosts) {
  Level host{"host", {.map = true}, {}};
  for (const int number : hosts) host.nodes.push_back(static_cast<uint32_t>(number));
  Level network{"network", {.stream = true}, std::vector<uint32_t>(hosts.size(), 0)};
  std::vector<Level> levels = {std::move(host), std::move(network)};
  return GroupView::make(0, 0, placeholder_members(hosts.size()), std::move(levels)).value();
}

}  // namespace tutti::group
