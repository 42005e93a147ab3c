#include "src/sim/fold.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/prng.h"
#include "src/sim/colours.h"

namespace tutti::sim {

namespace {

constexpr int kMostRounds = 64;  // of refinement; a difference travels a peer a round

struct KnownProgram {
  RankProgram program;
  Mates mates;
  plan::Plan plan;
};

class Folder {
 public:
  Folder(const Job& job, const Network& network, const std::vector<RankFault>& faults,
         const FoldLimits& limits)
      : job_(job),
        network_(network),
        faults_(faults),
        limits_(limits),
        lowering_(job, network.group()) {
    known_.resize(static_cast<size_t>(network.ranks()));
  }

  Result<Cast> run(Folding folding) {
    Result<plan::Plan> first = lowering_.plan(0);
    if (!first.ok()) return first.status();
    const uint64_t each = std::max<uint64_t>(1, first.value().ops.size());
    const bool is_small = each * known_.size() <= limits_.proved;
    if (!is_small && folding != Folding::kSampled) return too_large(each);
    know(0, std::move(first).value());
    if (!is_small) return sample(each);
    for (size_t rank = 0; rank < known_.size(); ++rank) {
      if (Status status = know(rank); !status.ok()) return status;
    }
    cast_.checked = static_cast<uint32_t>(known_.size());
    // Connections of equal ranks take different links of an uplink that is several.
    const bool is_alike = network_.paths() == 1;
    if (folding == Folding::kNever || !is_alike || !refine()) keep_all();
    return finish();
  }

 private:
  Status too_large(uint64_t each) const {
    return Status::unsupported(
        std::to_string(known_.size()) + " ranks with " + std::to_string(each) +
        " micro-operations each are too many to be simulated or compared one by one; they can be "
        "folded into one by a sample of them");
  }

  Status know(size_t rank) {
    if (known_[rank] != nullptr) return {};
    const auto number = static_cast<int>(rank);
    Result<plan::Plan> plan = lowering_.plan(number);
    if (!plan.ok()) return plan.status();
    know(rank, std::move(plan).value());
    return {};
  }
  void know(size_t rank, plan::Plan plan) {
    const auto number = static_cast<int>(rank);
    RankProgram program = program_of(plan, number, network_);
    Mates mates(number, program);
    known_[rank] = std::make_unique<KnownProgram>(
        KnownProgram{std::move(program), std::move(mates), std::move(plan)});
  }

  // kNoMate for what is no message, and where the peer is not known.
  uint32_t mate(size_t rank, uint32_t index) const {
    const RankProgram& program = known_[rank]->program;
    const Reference& one = program.references[index];
    const KnownProgram* other = known_[one.peer].get();
    if (one.kind == ReferenceKind::kOther || other == nullptr) return kNoMate;
    return known_[rank]->mates.mate_in(other->mates, program, index);
  }

  // False: it is not known which ranks are equal.
  bool refine() {
    std::vector<uint64_t> colours;
    for (const auto& known : known_) colours.push_back(known->program.skeleton);
    for (const RankFault& fault : faults_) {
      uint64_t& colour = colours[static_cast<size_t>(fault.rank)];
      colour = mix(mix(colour, std::bit_cast<uint64_t>(fault.factor)), fault.dead_from);
    }
    std::vector<std::vector<uint32_t>> mates(known_.size());
    for (size_t rank = 0; rank < known_.size(); ++rank) {
      const auto count = static_cast<uint32_t>(known_[rank]->program.references.size());
      for (uint32_t i = 0; i < count; ++i) mates[rank].push_back(mate(rank, i));
    }
    Colours refined(network_, std::move(colours));
    const auto mix_peers = [&](size_t rank, uint64_t colour, const std::vector<uint64_t>& ranks) {
      const std::vector<Reference>& references = known_[rank]->program.references;
      for (size_t i = 0; i < references.size(); ++i) {
        colour = mix(mix(colour, ranks[references[i].peer]), mates[rank][i]);
      }
      return colour;
    };
    if (!refined.refine(mix_peers, kMostRounds)) {
      cast_.refused =
          "their differences are not told apart within " + std::to_string(kMostRounds) + " rounds";
      return false;
    }
    number_actors(refined.ranks());
    number_links([&](uint32_t link) { return refined.of_link(network_.link(link)); });
    return true;
  }

  // One class of ranks, and one of links for each level and way.
  Result<Cast> sample(uint64_t operations) {
    const auto refuse = [&](const std::string& why) {
      return Status::unsupported("the " + std::to_string(known_.size()) +
                                 " ranks are too many to be simulated one by one, and cannot be "
                                 "folded into one: " +
                                 why);
    };
    if (!network_.is_sound() || !faults_.empty()) return refuse("some are made slow, or end");
    if (!is_uniform()) return refuse("the tree of levels is not uniform");
    const uint64_t each = operations + static_cast<uint64_t>(job_.parameters.ranks);
    const uint64_t most = std::max<uint64_t>(8, limits_.sampled / each);
    for (const size_t rank : sampled_ranks(most)) {
      if (Status status = know(rank); !status.ok()) return status;
      ++cast_.checked;
    }
    if (const std::string difference = difference_in_sample(); !difference.empty()) {
      return refuse(difference);
    }
    cast_.is_proved = false;
    number_actors(std::vector<uint64_t>(known_.size(), 0));
    number_links([&](uint32_t id) {
      const NetworkLink& link = network_.link(id);
      return uint64_t{link.level} << 8 | static_cast<uint64_t>(link.way);
    });
    return finish();
  }

  bool is_uniform() const {
    Colours tree(network_, std::vector<uint64_t>(known_.size(), 0));
    tree.refine([](size_t, uint64_t colour, const auto&) { return colour; }, kMostRounds);
    const auto is_one = [](const std::vector<uint64_t>& colours) {
      return std::all_of(colours.begin(), colours.end(),
                         [&](uint64_t colour) { return colour == colours[0]; });
    };
    return is_one(tree.ranks()) && std::all_of(tree.nodes().begin(), tree.nodes().end(), is_one);
  }

  // Rank 0 and its peers always, whatever `most` says; then the first ranks of what lies beside it
  // on each level, and others. No rank twice.
  std::vector<size_t> sampled_ranks(uint64_t most) const {
    std::vector<size_t> ranks = {0};
    std::vector<bool> taken(known_.size(), false);
    taken[0] = true;
    const auto take = [&](size_t rank) {
      if (!taken[rank]) ranks.push_back(rank);
      taken[rank] = true;
    };
    for (const Reference& one : known_[0]->program.references) take(one.peer);
    const group::GroupView& group = *network_.group();
    const uint64_t share = std::max<uint64_t>(1, most / (2 * group.levels()));
    for (size_t level = 1; level < group.levels(); ++level) {
      std::vector<size_t> beside;
      for (const int rank : group.first_ranks(level - 1)) {
        if (group.node_of(level, rank) == group.node_of(level, 0)) {
          beside.push_back(static_cast<size_t>(rank));
        }
      }
      const uint64_t step = std::max<uint64_t>(1, beside.size() / share);
      for (size_t i = 0; i < beside.size(); i += step) take(beside[i]);
    }
    Prng random(known_.size());
    while (ranks.size() < std::min<uint64_t>(most, known_.size())) {
      take(random() % known_.size());
    }
    return ranks;
  }

  std::string difference_in_sample() const {
    const RankProgram& first = known_[0]->program;
    for (size_t rank = 0; rank < known_.size(); ++rank) {
      if (known_[rank] == nullptr) continue;
      const RankProgram& program = known_[rank]->program;
      const std::string words = "rank " + std::to_string(rank);
      if (program.skeleton != first.skeleton) return words + " runs another program than rank 0";
      for (uint32_t i = 0; i < program.references.size(); ++i) {
        const uint32_t own = mate(rank, i), expected = mate(0, i);
        if (own == kNoMate || own == expected) continue;
        return words + " is met at another step of rank " +
               std::to_string(program.references[i].peer) + " than rank 0 is of its peer";
      }
    }
    return {};
  }

  void number_actors(const std::vector<uint64_t>& colours) {
    std::map<uint64_t, uint32_t> numbers;
    for (size_t rank = 0; rank < colours.size(); ++rank) {
      const auto next = static_cast<uint32_t>(cast_.actors.size());
      const auto [found, is_new] = numbers.try_emplace(colours[rank], next);
      if (is_new) cast_.actors.push_back({static_cast<int>(rank), 0, {}, {}});
      ++cast_.actors[found->second].size;
      cast_.actor_of.push_back(found->second);
    }
  }

  template <class ColourOf>
  void number_links(ColourOf&& colour_of) {
    std::map<uint64_t, uint32_t> numbers;
    for (uint32_t link = 0; link < network_.links(); ++link) {
      const auto next = static_cast<uint32_t>(cast_.any_link.size());
      const auto [found, is_new] = numbers.try_emplace(colour_of(link), next);
      if (is_new) {
        cast_.any_link.push_back(link);
        cast_.class_size.push_back(0);
      }
      ++cast_.class_size[found->second];
      cast_.class_of.push_back(found->second);
    }
  }

  void keep_all() {
    std::vector<uint64_t> ranks(known_.size());
    for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
    number_actors(ranks);
    number_links([](uint32_t link) { return uint64_t{link}; });
  }

  Result<Cast> finish() {
    uint64_t ops = 0;
    for (Player& actor : cast_.actors) {
      actor.plan = std::move(known_[static_cast<size_t>(actor.rank)]->plan);
      for (uint32_t lane = 0; lane < actor.plan.lanes.size(); ++lane) {
        const plan::LanePlan& of = actor.plan.lanes[lane];
        ops += (of.end - of.begin) * plan::slices_of(actor.plan, lane) * job_.calls;
      }
      if (ops > limits_.simulated) {
        return Status::unsupported("more than " + std::to_string(limits_.simulated) +
                                   " micro-operations of ranks that are not equal");
      }
    }
    for (Player& actor : cast_.actors) {
      if (Status status = add_meetings(actor); !status.ok()) return status;
    }
    return std::move(cast_);
  }

  Status add_meetings(Player& actor) {
    const auto rank = static_cast<size_t>(actor.rank);
    const auto prologue = static_cast<uint32_t>(actor.plan.prologue.size());
    actor.meets.assign(actor.plan.ops.size(), kNoMate);
    const std::vector<Reference>& references = known_[rank]->program.references;
    for (uint32_t i = 0; i < references.size(); ++i) {
      if (references[i].kind != ReferenceKind::kReceive) continue;
      const uint32_t met = mate(rank, i);
      const Player& sender = cast_.actors[cast_.actor_of[references[i].peer]];
      if (met == kNoMate) {
        return Status::internal_error("rank " + std::to_string(rank) +
                                      " receives a message that rank " +
                                      std::to_string(references[i].peer) + " does not send");
      }
      actor.meets[references[i].op - prologue] =
          met - static_cast<uint32_t>(sender.plan.prologue.size());
    }
    return {};
  }

  const Job& job_;
  const Network& network_;
  const std::vector<RankFault>& faults_;
  const FoldLimits limits_;
  Lowering lowering_;
  std::vector<std::unique_ptr<KnownProgram>> known_;  // by rank
  Cast cast_;
};

}  // namespace

Result<Cast> cast(const Job& job, const Network& network, const std::vector<RankFault>& faults,
                  Folding folding, const FoldLimits& limits) {
  return Folder(job, network, faults, limits).run(folding);
}

}  // namespace tutti::sim
