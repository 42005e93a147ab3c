// The parts of Membership about the network: the levels of a cluster file, and how ranks come to
// one model.
#include <string>
#include <utility>
#include <vector>

#include "src/comm/membership.h"

namespace tutti::comm {

// No rank is asked again: the cards hold what each has kept.
Status Membership::agree_on_model() {
  std::vector<std::string> hosts;
  for (const ClusterCard& card : cluster_cards_) hosts.push_back(card.host);
  Result<AgreedModel> agreed =
      offers_.agree(model_cards_, hosts, rank(), [this](int of) { return name_of(of); });
  if (!agreed.ok()) return agreed.status();
  model_ = std::move(agreed).value();
  model_cards_ = {};
  if (!model_.is_known && options_.inherited) {
    model_.model = *options_.inherited;
    model_.origin = "the model of the group that this one is part of";
    model_.is_known = true;
  }
  for (const std::string& line : model_.warnings) options_.env->log->warning("{}", line);
  options_.env->log->info("rank {} of id {:016x}: algorithms are chosen by {}", rank(),
                          self_.communicator, model_.origin);
  return {};
}

// The levels of the cluster stand in the place of the network that connects all, which they divide.
Status Membership::add_cluster_levels(std::vector<group::Level>& levels) {
  std::vector<uint32_t> domains;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) domains.push_back(rank);
  auto end = levels.begin();
  for (; end != levels.end() && end->reach.map; ++end) domains = end->nodes;
  Result<ClusterLevels> found = cluster_.levels(cluster_cards_, domains);
  if (!found.ok()) return found.status();
  cluster_cards_ = {};
  const bool has_network = end != levels.end() && end->reach.stream;
  if (found.value().levels.empty() || !has_network) return {};
  if (end != levels.begin()) (end - 1)->uplinks = std::move(found.value().uplinks);
  levels.erase(end, levels.end());
  for (group::Level& level : found.value().levels) levels.push_back(std::move(level));
  return {};
}

}  // namespace tutti::comm
