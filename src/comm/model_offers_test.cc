// How ranks of hosts that have measured different things come to one model.
#include "src/comm/model_offers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/registry/algorithms.h"
#include "src/select/select.h"

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

/// Folders of several hosts, which are gone with it.
class Hosts {
 public:
  Hosts()
      : path_(testing::TempDir() + "tutti-models-" + std::to_string(getpid()) + "-" +
              std::to_string(reinterpret_cast<uintptr_t>(this))) {
    fs::create_directories(path_);
  }
  ~Hosts() { fs::remove_all(path_); }

  Config config_of(const std::string& host) const {
    Config config;
    config.host_id = host;
    config.cache_folder = path_ + "/" + host;
    return config;
  }
  void keep(const std::string& host, const select::Model& model,
            const std::vector<std::string>& hosts) const {
    const Status kept =
        ModelOffers::keep(config_of(host).cache_folder, {select::name_of_hosts(hosts), model});
    EXPECT_TRUE(kept.ok()) << kept.message();
  }
  /// The models on which ranks, one on each host, agree.
  std::vector<Result<AgreedModel>> agree(const std::vector<std::string>& hosts,
                                         const std::vector<std::string>& tunings = {}) const {
    std::vector<ModelOffers> offers;
    std::vector<std::string> cards;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      Config config = config_of(hosts[rank]);
      if (!tunings.empty()) config.tuning_file = tunings[rank];
      offers.push_back(ModelOffers::read(config).value());
      cards.push_back(offers.back().card());
    }
    std::vector<Result<AgreedModel>> agreed;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      agreed.push_back(offers[rank].agree(cards, hosts, static_cast<int>(rank),
                                          [](int of) { return "rank " + std::to_string(of); }));
    }
    return agreed;
  }
  std::string file(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

 private:
  const std::string path_;
};

select::Model network(double latency_ns, double ns_per_byte) {
  select::Model model;
  model.levels = {{"network", latency_ns, ns_per_byte}};
  return model;
}

std::string choice(const select::Model& model) {
  select::LevelPrices prices(group::group_on_hosts({0, 1, 2, 3}), 4, model);
  select::Query query;
  query.parameters = {.ranks = 4, .tree = prices.tree()};
  query.count = 16 << 10;
  query.prices = &prices;
  return std::string(select::choose(registry::algorithms(), query).value().algorithm->name);
}

// One network is all latency, the other all bytes: each host by itself would choose another
// algorithm, and the ranks would wait for each other.
TEST(ModelOffers, RanksWhoseHostsKeepDifferentModelsChooseAlike) {
  const std::vector<std::string> hosts = {"d", "b", "c", "a"};
  const select::Model slow = network(1e7, 0.01), narrow = network(10, 1000);
  ASSERT_NE(choice(slow), choice(narrow)) << "they tell nothing apart";
  const Hosts folders;
  folders.keep("b", slow, hosts);
  folders.keep("c", narrow, hosts);
  folders.keep("a", network(5, 5), {"a", "b"});  // of another set
  for (const Result<AgreedModel>& agreed : folders.agree(hosts)) {
    ASSERT_TRUE(agreed.ok());
    EXPECT_EQ(agreed.value().model, slow) << "the least rank that has one decides";
    EXPECT_EQ(choice(agreed.value().model), choice(slow));
    EXPECT_EQ(agreed.value().origin,
              "what rank 1 has kept of these hosts (1 ranks have other files)");
  }
}

TEST(ModelOffers, WithoutAnyTheModelIsTheLibrarysOwn) {
  for (const Result<AgreedModel>& agreed : Hosts().agree({"a", "b"})) {
    EXPECT_EQ(agreed.value().model, select::Model());
    EXPECT_TRUE(agreed.value().warnings.empty());
  }
}

TEST(ModelOffers, FilesThatCannotBeUsedAreALineAndNoMore) {
  const std::string name = "model-" + select::name_of_hosts({"a", "b"}) + ".json";
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"{", ":1: "},
           {"{\"tutti_model\": 7}", "this is no model of format 1"},
           {"{\"tutti_model\": 1, \"hosts\": \"1-0\"}", ": is of other hosts"},
           {std::string(5000, ' '), ": is longer than 4096 bytes"}}) {
    const Hosts folders;
    folders.file("a/" + name, text);
    const auto agreed = folders.agree({"a", "b"});
    EXPECT_EQ(agreed[0].value().model, select::Model());
    ASSERT_EQ(agreed[0].value().warnings.size(), 1u) << text;
    EXPECT_NE(agreed[0].value().warnings[0].find(name), std::string::npos);
    EXPECT_NE(agreed[0].value().warnings[0].find(said), std::string::npos)
        << agreed[0].value().warnings[0];
    EXPECT_TRUE(agreed[1].value().warnings.empty()) << "its host has no such file";
  }
}

TEST(ModelOffers, ATuningFileComesBeforeWhatIsKept) {
  const Hosts folders;
  folders.keep("a", network(1, 1), {"a", "b"});
  const std::string mine = folders.file("t.json", select::write_model({"", network(2, 2)}));
  const std::string other = folders.file("u.json", select::write_model({"", network(3, 3)}));
  for (const Result<AgreedModel>& agreed : folders.agree({"a", "b"}, {mine, mine})) {
    EXPECT_EQ(agreed.value().model, network(2, 2));
    EXPECT_TRUE(agreed.value().is_tuned);
  }
  for (const Result<AgreedModel>& agreed : folders.agree({"a", "b"}, {mine, other})) {
    ASSERT_FALSE(agreed.ok());
    const std::string why(agreed.status().message());
    EXPECT_NE(why.find("TUTTI_TUNING=" + mine), std::string::npos) << why;
    EXPECT_NE(why.find("TUTTI_TUNING=" + other), std::string::npos) << why;
  }
  EXPECT_NE(folders.agree({"a", "b"}, {mine, ""})[0].status().message().find(
                "rank 1 has no TUTTI_TUNING"),
            std::string::npos);
}

TEST(ModelOffers, ATuningFileOfOtherHostsIsIgnoredWithALine) {
  const Hosts folders;
  const std::string file =
      folders.file("t.json", select::write_model({select::name_of_hosts({"x"}), network(2, 2)}));
  const auto agreed = folders.agree({"a", "b"}, {file, file});
  EXPECT_EQ(agreed[1].value().model, select::Model());
  ASSERT_EQ(agreed[0].value().warnings.size(), 1u);
  EXPECT_NE(agreed[0].value().warnings[0].find(file + " is ignored: it is of the hosts 1-"),
            std::string::npos);
}

TEST(ModelOffers, ABrokenTuningFileIsAnError) {
  const Hosts folders;
  Config config = folders.config_of("a");
  config.tuning_file = folders.file("t.json", "{\n\"tutti_model\": 1, \"x\": 1}");
  const auto read = ModelOffers::read(config);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(),
            "TUTTI_TUNING: " + config.tuning_file + ":2: there is no field 'x'");
}

// A card comes from a peer: whatever it holds, all ranks make the same of it.
TEST(ModelOffers, CardsThatAreNoneOfferNothing) {
  const ModelOffers mine = ModelOffers::read(Config()).value();
  for (const std::string& card : {std::string(), std::string("xyz"), std::string(70'000, '\1')}) {
    const std::vector<std::string> cards = {mine.card(), card};
    const auto agreed = mine.agree(cards, {"a", "b"}, 0, [](int) { return "a rank"; });
    ASSERT_TRUE(agreed.ok()) << agreed.status().message();
    EXPECT_EQ(agreed.value().model, select::Model());
  }
}

TEST(ModelOffers, OldModelsMakeRoom) {
  const Hosts folders;
  for (int i = 0; i < 40; ++i) folders.keep("a", network(i, 1), {"a", std::to_string(i)});
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folders.config_of("a").cache_folder)) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 32u);
}

}  // namespace
}  // namespace tutti::comm
