// The levels of the cluster file that TUTTI_TOPOLOGY names.
#include <utility>

#include "src/comm/cluster.h"
#include "src/comm/level_source.h"

namespace tutti::comm::level_sources::cluster_file {
namespace {

class ClusterFile final : public LevelSource {
 public:
  explicit ClusterFile(Cluster cluster) : cluster_(std::move(cluster)) {}

  std::string card() const override { return to_text(cluster_.card()); }

  Result<DescribedLevels> levels(const LevelFacts& facts) const override {
    for (size_t rank = 0; rank < facts.cards.size(); ++rank) {
      const Status agreed =
          cluster_.agree(read_cluster_card(facts.cards[rank]), facts.name(facts.rank),
                         facts.name(static_cast<int>(rank)));
      if (!agreed.ok()) return agreed;
    }
    return cluster_.levels(facts.hosts, facts.domains);
  }

 private:
  Cluster cluster_;
};

}  // namespace

Result<std::unique_ptr<LevelSource>> make(const Config& config) {
  Result<Cluster> cluster = Cluster::read(config);
  if (!cluster.ok()) return cluster.status();
  return std::unique_ptr<LevelSource>(std::make_unique<ClusterFile>(std::move(cluster).value()));
}

}  // namespace tutti::comm::level_sources::cluster_file
