#include "src/bootstrap/unique_id.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/prng.h"
#include "src/base/words.h"
#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/place.h"

namespace tutti::bootstrap {
namespace {

Address address(const char* text) { return Address::parse(text).value(); }

UniqueId sample() {
  UniqueId id;
  id.addresses = {address("10.1.2.3"), address("fd00::7")};
  id.port = 4711;
  EXPECT_TRUE(make_secrets(id).ok());
  return id;
}

TEST(UniqueId, GoesBothWays) {
  const UniqueId id = sample();
  const Result<UniqueId> back = UniqueId::decode(id.encode());
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back.value().addresses, id.addresses);
  EXPECT_EQ(back.value().port, id.port);
  EXPECT_EQ(back.value().job, id.job);
  EXPECT_EQ(back.value().key, id.key);
  EXPECT_FALSE(back.value().rank_0_opens || back.value().keyless);
}

TEST(UniqueId, SaysWhoOpensThePlaceAndWhetherThereIsAKey) {
  for (const bool opens : {false, true}) {
    for (const bool keyless : {false, true}) {
      UniqueId id = sample();
      id.rank_0_opens = opens;
      id.keyless = keyless;
      const Result<UniqueId> back = UniqueId::decode(id.encode());
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(back.value().rank_0_opens, opens);
      EXPECT_EQ(back.value().keyless, keyless);
    }
  }
}

TEST(UniqueId, PublicOnesHoldNoKeyAndNeedTheJobs) {
  UniqueId id = sample();
  SecretKey secret{};
  secret.fill(7);
  id.make_public(secret);
  const UniqueIdBytes bytes = id.encode();
  const auto key_in = std::search(bytes.begin(), bytes.end(), id.key.begin(), id.key.end());
  EXPECT_EQ(key_in, bytes.end());
  const Result<UniqueId> back = UniqueId::decode(bytes, &secret);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back.value().key, id.key);
  EXPECT_EQ(back.value().encode(), bytes);
  EXPECT_EQ(UniqueId::decode(bytes).status().code(), Code::kInvalidUsage);
  secret[0] = 8;
  const Result<UniqueId> other = UniqueId::decode(bytes, &secret);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other.value().key, id.key);
  UniqueId another = sample();
  secret[0] = 7;
  another.make_public(secret);
  EXPECT_NE(another.key, id.key);  // each job has its own
}

TEST(UniqueId, EveryChangedByteIsFound) {
  const UniqueIdBytes good = sample().encode();
  for (size_t i = 0; i < good.size(); ++i) {
    for (const uint8_t flip : {0x01, 0x80}) {
      UniqueIdBytes bad = good;
      bad[i] ^= flip;
      EXPECT_FALSE(UniqueId::decode(bad).ok()) << "byte " << i;
    }
  }
}

TEST(UniqueId, ImpossibleFieldsAreRefused) {
  const auto refused = [](auto change) {
    UniqueId id = sample();
    change(id);
    return !UniqueId::decode(id.encode()).ok();
  };
  EXPECT_FALSE(refused([](UniqueId&) {}));
  EXPECT_TRUE(refused([](UniqueId& id) { id.port = 0; }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses.clear(); }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses[0].family = 5; }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses[0] = address("0.0.0.0"); }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses[0] = address("224.0.0.1"); }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses[0].bytes[9] = 1; }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses[1] = address("::"); }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.addresses[1] = address("fe80::1"); }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.key = {}; }));
  EXPECT_TRUE(refused([](UniqueId& id) { id.job = {}; }));
}

TEST(UniqueId, RandomBytesNeverValidate) {
  Prng random(1);
  UniqueIdBytes bytes{};
  for (int i = 0; i < 20000; ++i) {
    for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
    EXPECT_FALSE(UniqueId::decode(bytes).ok());
    EXPECT_FALSE(UniqueId::decode(std::span(bytes).first(random.below(kUniqueIdBytes))).ok());
  }
}

TEST(UniqueId, TravelsAsText) {
  const UniqueId id = sample();
  const UniqueIdBytes bytes = id.encode();
  const std::string hex = to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_EQ(UniqueId::from_text(hex).value().key, id.key);
  EXPECT_FALSE(UniqueId::from_text("127.0.0.1:4000").ok());
  EXPECT_FALSE(UniqueId::from_text("").ok());
}

TEST(UniqueId, EverybodyFindsTheSameOneAtAPlace) {
  const SecretKey key = {1, 2, 3};
  const std::vector<Address> here = {address("127.0.0.1")};
  const UniqueId id = UniqueId::at(here, 4000, key, "job 1");
  EXPECT_EQ(id.port, 4000);
  EXPECT_EQ(id.addresses, here);
  EXPECT_TRUE(UniqueId::decode(id.encode()).ok());
  EXPECT_EQ(id.encode(), UniqueId::at(here, 4000, key, "job 1").encode());
  const UniqueId other = UniqueId::at(here, 4000, key, "job 2");
  EXPECT_NE(id.job, other.job);
  EXPECT_NE(id.key, other.key) << "one key file serves many jobs";
  EXPECT_NE(id.key, key);
}

TEST(UniqueId, AHostThatNobodyKnowsIsAskedForAgainUntilTheDeadline) {
  std::vector<std::string> said;
  const uint64_t until_ns = monotonic_ns() + 300'000'000;
  const WaitLimit wait_limit(until_ns, nullptr, 1,
                             [&](const std::string& what, uint64_t) { said.push_back(what); });
  const auto addresses = resolve("no.such.host.invalid", "rank 1 of 2", wait_limit);
  EXPECT_EQ(addresses.status().code(), Code::kTimeout);
  EXPECT_GE(monotonic_ns(), until_ns);
  said.emplace_back(addresses.status().message());
  EXPECT_GT(said.size(), 1u) << "nobody was told";
  for (const std::string& text : said) {
    EXPECT_TRUE(text.starts_with("rank 1 of 2 cannot resolve the host 'no.such.host.invalid'"))
        << text;
    EXPECT_NE(text.find("MASTER_ADDR"), std::string::npos) << text;
  }
  EXPECT_EQ(resolve("127.0.0.1", "", monotonic_ns()).value().size(), 1u);
}

TEST(UniqueId, PlacesAreHostAndPort) {
  EXPECT_EQ(parse_place("host.example:4000")->host, "host.example");
  EXPECT_EQ(parse_place("[::1]:4000")->host, "::1");
  EXPECT_EQ(parse_place("[::1]:4000")->port, 4000);
  for (const char* wrong :
       {"", ":1", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "h:70000", "::1:9"}) {
    EXPECT_FALSE(parse_place(wrong)) << wrong;
  }
}

TEST(Interfaces, AreChosenAsNcclDoes) {
  const std::vector<Interface> all = {
      {"lo", address("127.0.0.1")},   {"docker0", address("172.17.0.1")},
      {"eth0", address("fd00::1")},   {"eth0", address("10.0.0.1")},
      {"eth01", address("10.0.1.1")}, {"ib0", address("10.0.2.1")}};
  const auto names = [&](const std::string& pattern, SocketFamily family = SocketFamily::kAny) {
    Config config;
    config.socket_ifname = pattern;
    config.socket_family = family;
    const auto chosen = choose_interfaces(all, config);
    std::string text;
    if (!chosen.ok()) return std::string(chosen.status().message());
    for (const Interface& one : chosen.value()) text += one.address.text() + " ";
    return text;
  };
  EXPECT_EQ(names(""), "10.0.0.1 10.0.1.1 10.0.2.1 fd00::1 172.17.0.1 127.0.0.1 ");
  EXPECT_EQ(names("eth"), "10.0.0.1 10.0.1.1 fd00::1 ");
  EXPECT_EQ(names("=eth0"), "10.0.0.1 fd00::1 ");
  EXPECT_EQ(names("^docker,lo,eth"), "10.0.2.1 ");
  EXPECT_EQ(names("^=eth0,lo"), "10.0.1.1 10.0.2.1 172.17.0.1 ");
  EXPECT_EQ(names("", SocketFamily::kIpv6), "fd00::1 ");
  EXPECT_NE(names("wlan").find("TUTTI_SOCKET_IFNAME='wlan'"), std::string::npos);
  EXPECT_NE(names("wlan").find("ib0 10.0.2.1"), std::string::npos);
}

// Bridges have the same address everywhere, as the USB interfaces of BMCs have, and nobody answers
// at an interface without a cable.
TEST(Interfaces, OnlyTheBestKindIsAnnounced) {
  const std::vector<Interface> all = {
      {"eno1", address("10.9.0.1"), false}, {"lo", address("127.0.0.1")},
      {"usb0", address("169.254.3.1")},     {"docker0", address("172.17.0.1")},
      {"eth0", address("10.0.0.1")},        {"eth0", address("fd00::1")}};
  const auto announced = [&](const std::string& pattern) {
    Config config;
    config.socket_ifname = pattern;
    const auto chosen = choose_interfaces(all, config);
    EXPECT_TRUE(chosen.ok());
    std::string text;
    for (const Address& one : addresses_of(worth_announcing(chosen.value(), {}))) {
      text += one.text() + " ";
    }
    return text;
  };
  EXPECT_EQ(announced(""), "10.0.0.1 fd00::1 ");
  EXPECT_EQ(announced("^eth"), "172.17.0.1 ");
  EXPECT_EQ(announced("eno,usb,lo"), "169.254.3.1 ") << "a cluster may have nothing else";
  EXPECT_EQ(announced("eno,lo"), "10.9.0.1 ");
  EXPECT_EQ(announced("lo"), "127.0.0.1 ");
}

// Which route leads where is up to the machine; tests/launch/slow_hosts_test.py has hosts to choose
// on.
TEST(Interfaces, ThePlaceToMeetComesFirst) {
  const auto own = own_interfaces(Config{});
  ASSERT_TRUE(own.ok());
  if (own.value().size() < 2 || own.value()[1].address.loopback()) {
    GTEST_SKIP() << "this machine has one address that others can reach";
  }
  for (const Interface& one : own.value()) {
    if (one.address.loopback()) continue;
    int asked = 0;
    const auto first = worth_announcing(own.value(), [&] {
      ++asked;
      return std::vector{address("127.0.1.1"), one.address};
    });
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(first.front().name, one.name) << one.address.text();
  }
}

TEST(Interfaces, NobodyAsksForAPlaceWhereThereIsNoChoice) {
  const std::vector<Interface> chosen = {{"eth0", address("10.0.0.1")},
                                         {"lo", address("127.0.0.1")}};
  const auto places = [] {
    ADD_FAILURE() << "a name may take seconds to resolve";
    return std::vector<Address>();
  };
  EXPECT_EQ(worth_announcing(chosen, places).front().address, address("10.0.0.1"));
}

TEST(Interfaces, PlacesOfTheEnvironment) {
  Config config;
  const Variables variables = {{"MASTER_ADDR", "10.0.0.7"}};
  EXPECT_EQ(named_places(config, {}).size(), 0u);
  EXPECT_EQ(named_places(config, variables), std::vector{address("10.0.0.7")});
  EXPECT_EQ(named_places(config, {{"MASTER_ADDR", "no.such.host.invalid"}}).size(), 0u);
  config.id = "10.0.0.8:4000";
  EXPECT_EQ(named_places(config, variables), std::vector{address("10.0.0.8")});
}

TEST(Interfaces, ThisHostHasOne) {
  const auto all = list_interfaces();
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(choose_interfaces(all.value(), Config{}).ok());
}

}  // namespace
}  // namespace tutti::bootstrap
