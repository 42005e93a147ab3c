#include "src/select/model_file.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::select {
namespace {

Model some_model() {
  Model model;
  model.costs.copy_ns_per_byte = 0.1234567890123;
  model.levels = {{"rack", 21'000.5, 0.3}, {"a \"zone\"", 1e6, 0}};
  return model;
}

TEST(ModelFile, IsReadAsItWasWritten) {
  const ModelFile file{name_of_hosts({"b", "a"}), some_model()};
  const auto read = parse_model(write_model(file), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().model, file.model);
  EXPECT_EQ(read.value().hosts, file.hosts);
  EXPECT_EQ(version_of(read.value().model), version_of(file.model));
}

TEST(ModelFile, EveryNumberIsPartOfTheVersion) {
  Model other = some_model();
  other.levels[0].ns_per_byte += 1e-9;
  EXPECT_NE(version_of(other), version_of(some_model()));
  other = some_model();
  other.costs.turn_ns = 4001;
  EXPECT_NE(version_of(other), version_of(some_model()));
  EXPECT_NE(version_of(Model()), 0u);
}

TEST(ModelFile, HostsAreASet) {
  EXPECT_EQ(name_of_hosts({"b", "a", "b"}), name_of_hosts({"a", "b"}));
  EXPECT_NE(name_of_hosts({"ab"}), name_of_hosts({"a", "b"}));
}

TEST(ModelFile, MistakesAreNamedByTheirLine) {
  const auto why = [](const std::string& text) {
    const auto read = parse_model(text, "f.json");
    return read.ok() ? "nothing is wrong" : std::string(read.status().message());
  };
  EXPECT_EQ(why("{}"), "f.json:1: this is no model of format 1");
  EXPECT_EQ(why("{\"tutti_model\": 2}"), "f.json:1: this is no model of format 1");
  EXPECT_EQ(why("{\"tutti_model\": 1,\n\"rank\": {}}"), "f.json:2: there is no field 'rank'");
  EXPECT_EQ(why("{\"tutti_model\": 1, \"ranks\": {\"copy\": 1}}"),
            "f.json:1: 'ranks' has no 'copy'");
  EXPECT_EQ(why("{\"tutti_model\": 1, \"ranks\": {\"turn_ns\": -1}}"),
            "f.json:1: 'turn_ns' is not from 0 to 1e15");
  EXPECT_EQ(why("{\"tutti_model\": 1, \"ranks\": {\"turn_ns\": \"1\"}}"),
            "f.json:1: 'turn_ns' is a string, not a number");
  EXPECT_EQ(why("{\"tutti_model\": 1, \"levels\": [{\"latency_ns\": 1}]}"),
            "f.json:1: a level without a name");
  EXPECT_EQ(why("{\"tutti_model\": 1, \"levels\": [{\"name\": \"x\"},\n{\"name\": \"x\"}]}"),
            "f.json:2: two levels 'x'");
  EXPECT_NE(why("{\"tutti_model\": 1,").find("f.json:1: "), std::string::npos);
}

}  // namespace
}  // namespace tutti::select
