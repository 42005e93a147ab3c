#include "src/select/model_file.h"

#include <gtest/gtest.h>

#include <string>

#include "generated/test_paths.h"
#include "src/topology/text_file.h"

namespace tutti::select {
namespace {

Model some_model() {
  Model model;
  model.costs.copy_ns_per_byte = 0.1234567890123;
  model.levels = {{"rack", 21'000.5, 0.3}, {"a \"zone\"", 1e6, 0}};
  model.crowds = {{2, 2, 186.25, 55, {{65536, 2804, 3560}, {262144, 8834, 0}}}, {4, 2, 5e3, 0, {}}};
  model.devices.link_us_per_mb = 2.5;
  model.devices.hand_over_us = 7.123456789;
  model.vendor = {{.collective = "all_reduce", .ranks = 8, .calls = {{8192, 9e3}, {65536, 1.5e4}}}};
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
  other = some_model();
  other.devices.wait_us += 0.1;
  EXPECT_NE(version_of(other), version_of(some_model()));
  other = some_model();
  other.crowds[0].copies[1].single_ns = 1;
  EXPECT_NE(version_of(other), version_of(some_model()));
  EXPECT_NE(version_of(Model()), 0u);
}

TEST(ModelFile, OfAnH100IsTheLibrarysOwn) {
  const std::string path = TUTTI_SOURCE_DIR "/src/select/device_models/h100.json";
  const Result<std::string> text = topology::read_text_file(path);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto read = parse_model(text.value(), path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().model, Model());
  for (const char* source : {"\"board page", "\"assumed\"", "\"public: "}) {
    EXPECT_NE(text.value().find(source), std::string::npos) << source;
  }
}

TEST(ModelFile, CrowdsAreWellFormedOrRefused) {
  const auto refusal = [](const std::string& crowds) {
    const auto read = parse_model("{\"tutti_model\": 1,\n \"crowds\": " + crowds + "}", "f");
    return read.ok() ? std::string() : std::string(read.status().message());
  };
  EXPECT_EQ(refusal(R"([{"ranks": 2, "cores": 1}])"), "");
  const std::string two = R"({"ranks": 2, "cores": 1})";
  EXPECT_NE(refusal("[" + two + ", " + two + "]").find("f:2: two crowds"), std::string::npos);
  for (const char* wrong :
       {R"([{"ranks": 2}])", R"([{"ranks": 1, "cores": 2}])", R"([{"ranks": 2.5, "cores": 2}])",
        R"([{"ranks": 1e12, "cores": 2}])"}) {
    EXPECT_NE(refusal(wrong).find("'ranks', from 2 on"), std::string::npos) << wrong;
  }
  EXPECT_NE(refusal(R"([{"ranks": 2, "cores": 2, "speed": 1}])").find("no 'speed'"),
            std::string::npos);
  const auto copies = [&](const std::string& text) {
    return refusal(R"([{"ranks": 2, "cores": 2, "copies": )" + text + "}]");
  };
  EXPECT_EQ(copies(R"([{"bytes": 1, "staged_ns": 1}, {"bytes": 2, "staged_ns": 1}])"), "");
  EXPECT_NE(copies(R"([{"bytes": 2, "staged_ns": 1}, {"bytes": 2, "staged_ns": 1}])").find("rise"),
            std::string::npos);
  EXPECT_NE(copies(R"([{"bytes": 2}])").find("above 0"), std::string::npos);
  EXPECT_NE(copies(R"([{"rate": 2}])").find("no 'rate'"), std::string::npos);
}

TEST(ModelFile, TermsOfDevicesAreKnownOrRefused) {
  const auto refusal = [](const std::string& devices) {
    const auto read = parse_model("{\"tutti_model\": 1, \"devices\": " + devices + "}", "f");
    return read.ok() ? std::string() : std::string(read.status().message());
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(refusal(R"({"name": "x", "terms": [{"name": "wait_us", "value": 1}]})"), "");
  EXPECT_TRUE(has(refusal(R"({"terms": [{"name": "wait_ms", "value": 1}]})"), "no term 'wait_ms'"));
  EXPECT_TRUE(has(refusal(R"({"terms": [{"name": "wait_us"}]})"), "a name and a value"));
  EXPECT_TRUE(has(refusal(R"({"terms": [{"name": "wait_us", "value": -1}]})"), "not from 0"));
  EXPECT_TRUE(has(refusal(R"({"terms": [{"name": "wait_us", "value": 1, "by": "me"}]})"), "'by'"));
  EXPECT_TRUE(has(refusal(R"({"rates": []})"), "'devices' has no 'rates'"));
}

TEST(LinkOf, DevicesIsTheDearerTheLongerTheWay) {
  const DeviceCosts costs;
  const LinkModel direct = link_of(costs, DeviceWay::kDirect);
  const LinkModel bus = link_of(costs, DeviceWay::kBus);
  EXPECT_LT(direct.wire_ns_per_byte, bus.wire_ns_per_byte);
  EXPECT_LT(bus.wire_ns_per_byte, link_of(costs, DeviceWay::kBetweenNodes).wire_ns_per_byte);
  EXPECT_EQ(direct.message_ns, 1500);
  EXPECT_EQ(direct.latency_ns, 10'000);
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
