// Ranks must agree when a communicator is made, though each sees its own links only.
#include "src/comm/membership.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/exec/pairs.h"
#include "src/registry/level_sources.h"
#include "src/registry/transports.h"

namespace tutti::comm {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kPatienceNs = 30'000'000'000;

/// A link of threads of which it is said whether it can make single copies.
class Told final : public transport::Link {
 public:
  Told(std::unique_ptr<transport::Link> inner, bool single_copy)
      : inner_(std::move(inner)), capabilities_(inner_->capabilities()) {
    capabilities_.single_copy = single_copy;
  }
  const transport::Capabilities& capabilities() const override { return capabilities_; }
  transport::Mapped* mapped() override { return inner_->mapped(); }
  Status status() const override { return inner_->status(); }

 private:
  const std::unique_ptr<transport::Link> inner_;
  transport::Capabilities capabilities_;
};

/// kBarred: ranks 0 and 1 cannot copy from each other; all other pairs can. kHeld: the last rank
/// connects with all, and then stays where it is until it is cancelled.
enum class Kind { kFree, kBarred, kHeld };

template <Kind kKind>
class Threads final : public transport::Transport {
 public:
  static Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
    for (const transport::Factory& factory : registry::transports()) {
      if (factory.name != "loopback") continue;
      auto inner = factory.make(member);
      if (!inner.ok()) return inner.status();
      return std::unique_ptr<transport::Transport>(new Threads(std::move(inner).value(), member));
    }
    return Status::internal_error("there is no transport of threads");
  }

  std::string_view name() const override { return "threads"; }
  std::string card() const override { return inner_->card(); }
  bool reaches(std::string_view card) const override { return inner_->reaches(card); }
  std::string neighborhood(std::string_view card) const override {
    return inner_->neighborhood(card);
  }
  bool maps_memory() const override { return inner_->maps_memory(); }
  std::string_view level() const override { return inner_->level(); }
  size_t descriptors_per_link() const override { return inner_->descriptors_per_link(); }
  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view card,
                                                   const WaitLimit& wait_limit) override {
    auto link = inner_->connect(peer, card, wait_limit);
    if (!link.ok()) return link.status();
    if (kKind == Kind::kHeld && rank_ == kRanks - 1 && peer == kRanks - 2) {
      wait_limit.pause(kNoDeadline);
      return wait_limit.reason("nobody cancelled it");
    }
    const bool can = kKind != Kind::kBarred || rank_ + peer != 1;
    return std::unique_ptr<transport::Link>(std::make_unique<Told>(std::move(link).value(), can));
  }

 private:
  Threads(std::unique_ptr<transport::Transport> inner, const transport::Member& member)
      : inner_(std::move(inner)), rank_(member.rank) {}

  const std::unique_ptr<transport::Transport> inner_;
  const int rank_;
};

/// A network beside TCP, which connects the ranks whose host ids begin with the same letter.
class Fabric final : public transport::Transport {
 public:
  static Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
    auto inner = tcp_factory().make(member);
    if (!inner.ok()) return inner.status();
    return std::unique_ptr<transport::Transport>(
        new Fabric(std::move(inner).value(), member.host_id.substr(0, 1)));
  }
  static const transport::Factory& tcp_factory() {
    const auto known = registry::transports();
    return *std::find_if(known.begin(), known.end(),
                         [](const transport::Factory& one) { return one.name == "tcp"; });
  }

  std::string_view name() const override { return "fabric"; }
  std::string card() const override { return fabric_ + inner_->card(); }
  bool reaches(std::string_view card) const override { return card.substr(0, 1) == fabric_; }
  std::string neighborhood(std::string_view card) const override {
    return std::string(card.substr(0, 1));
  }
  std::string_view level() const override { return inner_->level(); }
  size_t descriptors_per_link() const override { return inner_->descriptors_per_link(); }
  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view card,
                                                   const WaitLimit& wait_limit) override {
    return inner_->connect(peer, card.substr(1), wait_limit);
  }
  int service_fd() const override { return inner_->service_fd(); }
  void serve() override { inner_->serve(); }

 private:
  Fabric(std::unique_ptr<transport::Transport> inner, std::string fabric)
      : inner_(std::move(inner)), fabric_(std::move(fabric)) {}

  const std::unique_ptr<transport::Transport> inner_;
  const std::string fabric_;
};

/// Threads that make one membership each, and say whether it may copy.
class Group {
 public:
  std::vector<bool> single_copies(transport::Factory factory) {
    const std::vector<transport::Factory> transports = {factory};
    std::vector<char> can(kRanks, 2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        auto made = Membership::create(options_of(rank, transports));
        EXPECT_TRUE(made.ok()) << made.status().message();
        if (made.ok()) can[static_cast<size_t>(rank)] = made.value()->single_copy() ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::count(can.begin(), can.end(), 2), 0);
    return {can.begin(), can.end()};
  }

  /// By rank: the times of codecs that a group of ranks knows, of which each measures or none does.
  std::vector<std::string> codecs_on(const char* wire, bool measures) {
    const std::vector<transport::Factory> tcp = {Fabric::tcp_factory()};
    const auto watch = bootstrap::Watch::create().value();
    config_.measures_host = measures;
    std::vector<std::string> texts(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        MembershipOptions options = options_of(rank, tcp);
        options.wire = wire;
        options.watch = watch.get();
        const auto made = Membership::create(std::move(options));
        texts[static_cast<size_t>(rank)] = made.ok()
                                               ? codecs::to_text(made.value()->model().model.codecs)
                                               : made.status().message();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return texts;
  }

  /// By rank: the names of the levels of a group of ranks that talk by sockets, and the levels at
  /// which rank 0 and each of the others meet; or why there is none.
  std::vector<std::string> levels_on(
      const std::vector<std::string>& hosts, const std::vector<std::string>& files,
      std::span<const LevelSourceEntry> sources = registry::level_sources()) {
    const std::vector<transport::Factory> tcp = {Fabric::tcp_factory()};
    const auto watch = bootstrap::Watch::create().value();
    std::vector<Config> configs(kRanks);
    std::vector<Env> envs;
    std::vector<std::string> texts(kRanks);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      configs[rank].host_id = hosts[rank];
      configs[rank].topology_file = files[rank];
      envs.push_back({&configs[rank], &log_, monotonic_ns});
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank, at = static_cast<size_t>(rank)] {
        MembershipOptions options = options_of(rank, tcp);
        options.env = &envs[at];
        options.watch = watch.get();
        options.level_sources = sources;
        const auto made = Membership::create(std::move(options));
        texts[at] = made.ok() ? text_of(*made.value()->group()) : made.status().message();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return texts;
  }

  /// The transports are the fabric and TCP. By rank: the text that `look` gives of its membership.
  std::vector<std::string> on_two_networks(
      const std::vector<std::string>& hosts,
      const std::function<std::string(const Membership&)>& look) {
    const std::vector<transport::Factory> networks = {{"fabric", Fabric::make},
                                                      Fabric::tcp_factory()};
    const auto watch = bootstrap::Watch::create().value();
    std::vector<std::string> texts(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank, at = static_cast<size_t>(rank)] {
        MembershipOptions options = options_of(rank, networks);
        options.watch = watch.get();
        options.self.host_id = hosts[at];
        const auto made = Membership::create(std::move(options));
        texts[at] = made.ok() ? look(*made.value()) : made.status().message();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return texts;
  }

  /// Why the others gave up. Each has asked twice whether it makes sense.
  std::vector<std::string> reasons_while_the_last_is_held() {
    const std::vector<transport::Factory> transports = {{"held", Threads<Kind::kHeld>::make}};
    const std::shared_ptr<Cancellation> end = Cancellation::create().value();
    std::thread held([&] {
      MembershipOptions options = options_of(kRanks - 1, transports);
      options.wait_limit = WaitLimit(kNoDeadline, end, kNoDeadline, [](const auto&, uint64_t) {});
      EXPECT_FALSE(Membership::create(std::move(options)).ok());
    });
    std::vector<std::string> reasons(kRanks - 1);
    std::vector<std::thread> waiting;
    for (int rank = 0; rank < kRanks - 1; ++rank) {
      waiting.emplace_back([&, rank] {
        MembershipOptions options = options_of(rank, transports);
        int asked = 0;
        options.wait_limit = options.wait_limit.as_long_as(
            [&] { return ++asked < 2 ? Status() : Status::remote_error("rank 2 is gone"); });
        const auto made = Membership::create(std::move(options));
        reasons[static_cast<size_t>(rank)] = made.status().message();
      });
    }
    for (std::thread& thread : waiting) thread.join();
    end->cancel();
    held.join();
    return reasons;
  }

 private:
  static std::string text_of(const group::GroupView& group) {
    std::string text;
    for (size_t level = 0; level < group.levels(); ++level) text += group.level(level).name + " ";
    for (int peer = 1; peer < group.ranks(); ++peer) {
      text += std::to_string(group.common_level(0, peer));
    }
    return text;
  }

  MembershipOptions options_of(int rank, std::span<const transport::Factory> transports) {
    MembershipOptions options;
    options.env = &env_;
    options.transports = transports;
    options.layout = exec::ArenaLayout(4 << 20, exec::PairExecutor::kPairBytes, kRanks);
    options.wait_limit = WaitLimit(monotonic_ns() + kPatienceNs);
    options.self.rank = rank;
    options.self.ranks = kRanks;
    options.self.communicator = 0xba88ed;
    options.self.host_id = "here";
    options.self.id.process = {0, 1};
    options.self.bind_address = "127.0.0.1";
    options.exchange = [this, rank](std::string_view card, const WaitLimit&) {
      std::unique_lock lock(mutex_);
      cards_[static_cast<size_t>(rank)] = card;
      if (++brought_ == kRanks) all_here_.notify_all();
      constexpr auto kPatience = std::chrono::nanoseconds(kPatienceNs);
      const bool all = all_here_.wait_for(lock, kPatience, [&] { return brought_ == kRanks; });
      if (!all) return Result<std::vector<std::string>>(Status::timeout("cards are missing"));
      return Result<std::vector<std::string>>(cards_);
    };
    return options;
  }

  Config config_;
  Logger log_{LogLevel::kOff};
  const Env env_{&config_, &log_, monotonic_ns};
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::string> cards_ = std::vector<std::string>(kRanks);  // under mutex_
  int brought_ = 0;                                                    // under mutex_
};

// A plan reads peers' memory on all ranks or on none, so rank 2 must know of the others' link.
TEST(Membership, SingleCopiesAreAgreedOnByAllRanksOfAHost) {
  const std::vector<bool> none(kRanks, false), all(kRanks, true);
  EXPECT_EQ(Group().single_copies({"barred", Threads<Kind::kBarred>::make}), none);
  EXPECT_EQ(Group().single_copies({"free", Threads<Kind::kFree>::make}), all);
}

constexpr const char* kTwoRacks = R"({"tutti_topology": 1,
  "levels": [{"name": "zone"}, {"name": "rack"}, {"name": "host"}],
  "tree": {"children": [{"children": [{"name": "a"}, {"name": "b"}]},
                        {"children": [{"name": "c"}]}]}})";

TEST(Membership, LevelsOfAClusterFileStandInTheGroupOfEveryRank) {
  const std::string file = testing::TempDir() + "tutti-racks-" + std::to_string(getpid());
  const std::string other = file + "-other";
  std::ofstream(file) << kTwoRacks;
  std::string text = kTwoRacks;
  std::ofstream(other) << text.replace(text.find("zone"), 4, "site");
  const std::vector<std::string> all(kRanks, file), none(kRanks, "");
  for (const std::string& levels : Group().levels_on({"a", "c", "b"}, all)) {
    EXPECT_EQ(levels, "rack zone 10");
  }
  for (const std::string& levels : Group().levels_on({"a", "c", "b"}, none)) {
    EXPECT_EQ(levels, "network 00");
  }
  // Each of the three sees a rank whose file differs from its own.
  for (const std::string& why : Group().levels_on({"a", "c", "b"}, {file, other, file})) {
    EXPECT_NE(why.find(file + " (fingerprint "), std::string::npos) << why;
    EXPECT_NE(why.find(other + " (fingerprint "), std::string::npos) << why;
  }
  for (const std::string& why : Group().levels_on({"a", "x", "b"}, all)) {
    EXPECT_NE(why.find("rank 1 is on a host with the name 'x'"), std::string::npos) << why;
  }
  unlink(file.c_str());
  unlink(other.c_str());
}

TEST(Membership, RanksMeasureTheCodecsOfTheirMessagesAndAgree) {
  const std::vector<std::string> none(kRanks, "");
  const std::vector<std::string> measured = Group().codecs_on("network:int8_block", true);
  EXPECT_EQ(measured[0].rfind("int8_block:256 ", 0), 0u) << measured[0];
  EXPECT_EQ(measured, std::vector<std::string>(kRanks, measured[0]));
  EXPECT_EQ(Group().codecs_on("", true), none);
  EXPECT_EQ(Group().codecs_on("network:int8_block", false), none);
}

/// Hosts whose names begin alike stand in one row; every rank says how thin the cables of its row
/// are.
class Rows final : public LevelSource {
 public:
  static Result<std::unique_ptr<LevelSource>> make(const Config& config) {
    if (config.host_id == "nowhere") return Status::invalid_usage("this host stands in no row");
    return std::unique_ptr<LevelSource>(std::make_unique<Rows>());
  }
  std::string card() const override { return "5"; }
  Result<DescribedLevels> levels(const LevelFacts& facts) const override {
    DescribedLevels result;
    group::Level& row = result.levels.emplace_back();
    row.name = "row";
    for (size_t rank = 0; rank < facts.hosts.size(); ++rank) {
      const auto is_of_row = [&](const std::string& host) {
        return host[0] == facts.hosts[rank][0];
      };
      row.nodes.push_back(static_cast<uint32_t>(
          std::find_if(facts.hosts.begin(), facts.hosts.end(), is_of_row) - facts.hosts.begin()));
      row.uplinks.push_back(std::stod(facts.cards[rank]));
    }
    return result;
  }
};

TEST(Membership, ASourceOfLevelsIsARowOfATable) {
  const std::vector<std::string> none(kRanks, "");
  const LevelSourceEntry rows[] = {{"rows", &Rows::make}};
  for (const std::string& levels : Group().levels_on({"a1", "b1", "a2"}, none, rows)) {
    EXPECT_EQ(levels, "row network 10");
  }
  const std::vector<LevelSourceEntry> no_sources;
  for (const std::string& levels : Group().levels_on({"a1", "b1", "a2"}, none, no_sources)) {
    EXPECT_EQ(levels, "network 00");
  }
  for (const std::string& why : Group().levels_on({"nowhere", "nowhere", "nowhere"}, none, rows)) {
    EXPECT_EQ(why, "this host stands in no row");
  }
}

TEST(Membership, SourcesOfLevelsDivideWhatOthersLeaveWhole) {
  const std::string file = testing::TempDir() + "tutti-zones-" + std::to_string(getpid());
  std::ofstream(file) << R"({"tutti_topology": 1, "levels": [{"name": "zone"}, {"name": "host"}],
    "tree": {"children": [{"name": "a1"}, {"name": "a2"}, {"name": "b1"}]}})";
  const std::vector<std::string> all(kRanks, file);
  const LevelSourceEntry file_first[] = {registry::level_sources()[0], {"rows", &Rows::make}};
  const LevelSourceEntry rows_first[] = {{"rows", &Rows::make}, registry::level_sources()[0]};
  for (const std::span<const LevelSourceEntry> sources :
       {std::span<const LevelSourceEntry>(file_first), {rows_first}}) {
    for (const std::string& levels : Group().levels_on({"a1", "b1", "a2"}, all, sources)) {
      EXPECT_EQ(levels, "row zone 10");
    }
  }
  // Racks of the file that cut a row in two, as the row cuts the rack.
  std::ofstream(file) << R"({"tutti_topology": 1,
    "levels": [{"name": "zone"}, {"name": "rack"}, {"name": "host"}],
    "tree": {"children": [{"children": [{"name": "a1"}, {"name": "b1"}]},
                          {"children": [{"name": "a2"}]}]}})";
  for (const std::string& why : Group().levels_on({"a1", "b1", "a2"}, all, file_first)) {
    EXPECT_EQ(why.rfind("what rows says of the network: the level 'row' ", 0), 0u) << why;
    EXPECT_NE(why.find("overlap, and neither holds the other"), std::string::npos) << why;
  }
  unlink(file.c_str());
}

// Ranks 0 and 1 have a network that rank 2 is not on.
TEST(Membership, TwoNetworksAreTwoLevelsEachWithItsLinksAndItsPrice) {
  select::Model model;
  model.levels = {{"network", 2000, 0.1}, {"network-tcp", 30000, 1}};
  const auto look = [&](const Membership& made) {
    const group::GroupView& group = *made.group();
    std::string text;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == made.rank()) continue;
      const group::Level& level = group.level(group.common_level(made.rank(), peer));
      text += made.profiles()[static_cast<size_t>(peer)].transport + "/" + level.transport + ":" +
              std::to_string(static_cast<int>(select::link_of(model, level, {}).latency_ns)) + " ";
    }
    return text;
  };
  const std::vector<std::string> seen = Group().on_two_networks({"a", "ab", "b"}, look);
  EXPECT_EQ(seen[0], "fabric/fabric:2000 tcp/tcp:30000 ");
  EXPECT_EQ(seen[1], "fabric/fabric:2000 tcp/tcp:30000 ");
  EXPECT_EQ(seen[2], "tcp/tcp:30000 tcp/tcp:30000 ");
  for (const std::string& one : Group().on_two_networks({"a", "ab", "ac"}, look)) {
    EXPECT_EQ(one, "fabric/fabric:2000 fabric/fabric:2000 ");
  }
}

// A rank that has connected and does not join may have died, and its link shows nothing of it.
TEST(Membership, WhoWaitsForAMemberAsksWhetherItStillMakesSense) {
  for (const std::string& reason : Group().reasons_while_the_last_is_held()) {
    EXPECT_EQ(reason, "rank 2 is gone");
  }
}

}  // namespace
}  // namespace tutti::comm
