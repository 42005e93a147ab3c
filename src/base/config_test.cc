#include "src/base/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <string>

#include "src/base/setting_values.h"

namespace tutti {
namespace {

constexpr char kHexKey[] = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

std::string refusal(const Variables& variables) {
  const Result<Config> config = Config::from_environment(variables);
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  return std::string(config.status().message());
}

Config accepted(const Variables& variables) {
  Result<Config> config = Config::from_environment(variables);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? config.value() : Config{};
}

/// A file that removes itself.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& text, mode_t mode) {
    const int fd = mkstemp(path_);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(fchmod(fd, mode), 0);
    close(fd);
  }
  ~TemporaryFile() { unlink(path_); }
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/tutti_config_XXXXXX";
};

TEST(Config, DefaultsNeedNoVariable) {
  const Config config = accepted({});
  EXPECT_EQ(config.timeout_ns, kNoDeadline);
  EXPECT_EQ(config.init_timeout_ns, kNoDeadline);
  EXPECT_EQ(config.inline_bytes, 1024u);
  EXPECT_EQ(config.frame_bytes, 524288u);
  EXPECT_EQ(config.ring_bytes, 4u << 20);
  EXPECT_FALSE(config.single_copy_bytes.has_value());
  EXPECT_EQ(config.staging_stores, StagingStores::kMeasured);
  EXPECT_TRUE(config.transports.empty());
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_TRUE(config.origins.empty());
}

TEST(Config, ReadsAlgorithmsInNcclsWords) {
  const auto wanted = [](const char* value) {
    return accepted({{"NCCL_ALGO", value}}).nccl_algorithms;
  };
  const std::vector<std::string> tree_or_ring = {"Tree", "Ring"};
  EXPECT_EQ(wanted("allreduce:tree,RING;AllGather: pat"),
            (NcclAlgorithms{{"all_gather", {"PAT"}}, {"all_reduce", tree_or_ring}}));
  const NcclAlgorithms all = wanted("Tree,Ring;broadcast:CollNetDirect,nvlstree");
  ASSERT_EQ(all.size(), 5u);
  for (const auto& [collective, names] : all) {
    const bool own = collective == "broadcast";
    EXPECT_EQ(names, own ? (std::vector<std::string>{"CollnetDirect", "NVLSTree"}) : tree_or_ring);
  }
  for (const char* odd : {"^Ring", "spiral", "", "allreduce:", ":ring", "scan:ring", "ring;tree",
                          "allreduce:^tree", "allreduce:ring;;", "all_reduce:ring"}) {
    const Config config = accepted({{"NCCL_ALGO", odd}});
    EXPECT_TRUE(config.nccl_algorithms.empty()) << odd;
    EXPECT_EQ(config.warnings.size(), 1u) << odd;
  }
  const Config both = accepted({{"NCCL_ALGO", "ring"}, {"TUTTI_ALGORITHM", "all_reduce:one_shot"}});
  EXPECT_EQ(both.algorithms.size(), 1u);  // they are told apart: src/select says which one counts
}

TEST(Config, ShowsAlgorithmsOfNccl) {
  const Config config = accepted({{"NCCL_ALGO", "allreduce:tree,ring;allgather:pat"}});
  for (const Setting& setting : settings()) {
    if (setting.name != "TUTTI_NCCL_ALGO") continue;
    EXPECT_EQ(setting.show(config), "all_gather:PAT;all_reduce:Tree,Ring");
    EXPECT_EQ(setting.show(Config{}), "(unset)");
  }
}

TEST(Config, ReadsEveryField) {
  const Config config = accepted({{"TUTTI_TRANSPORTS", "shm, tcp"},
                                  {"TUTTI_ALGORITHM", "all_reduce:ring,broadcast:binomial"},
                                  {"TUTTI_DETERMINISTIC", "yes"},
                                  {"TUTTI_TIMEOUT", "2.5"},
                                  {"TUTTI_INIT_TIMEOUT", "none"},
                                  {"TUTTI_KEEPALIVE", "7.5"},
                                  {"TUTTI_SPIN", "7"},
                                  {"TUTTI_RING_BYTES", "8MiB"},
                                  {"TUTTI_SINGLE_COPY_BYTES", "64K"},
                                  {"TUTTI_CTAS", "4"},
                                  {"TUTTI_LEAST_CTAS", "2"},
                                  {"TUTTI_STAGING_STORES", "streaming"},
                                  {"TUTTI_SOCKET_FAMILY", "ipv6"},
                                  {"TUTTI_CALLS_BEFORE", "4294967295"},
                                  {"TUTTI_LOG", "trace"},
                                  {"TUTTI_PORT", "4711"},
                                  {"TUTTI_KEY", kHexKey}});
  EXPECT_EQ(config.transports, (std::vector<std::string>{"shm", "tcp"}));
  ASSERT_EQ(config.algorithms.size(), 2u);
  EXPECT_EQ(config.algorithms[1].first, "broadcast");
  EXPECT_EQ(config.algorithms[1].second, "binomial");
  EXPECT_TRUE(config.deterministic);
  EXPECT_EQ(config.timeout_ns, 2'500'000'000u);
  EXPECT_EQ(config.init_timeout_ns, kNoDeadline);
  EXPECT_EQ(config.keepalive_ns, 7'500'000'000u);
  EXPECT_EQ(config.spin_polls, 7u);
  EXPECT_EQ(config.ring_bytes, 8u << 20);
  EXPECT_EQ(config.single_copy_bytes, std::optional<uint64_t>(65536));
  EXPECT_EQ(config.most_ctas, 4u);
  EXPECT_EQ(config.least_ctas, 2u);
  EXPECT_EQ(config.staging_stores, StagingStores::kStreaming);
  EXPECT_EQ(config.socket_family, SocketFamily::kIpv6);
  EXPECT_EQ(config.calls_before, 0xffffffffu);
  EXPECT_EQ(config.log_level, LogLevel::kTrace);
  EXPECT_EQ(config.port, 4711);
  ASSERT_TRUE(config.key.has_value());
  EXPECT_EQ((*config.key)[31], 0xff);
}

TEST(Config, RefusesMalformedValuesByName) {
  const Variables wrong = {{"TUTTI_TIMEOUT", "5s"},
                           {"TUTTI_INIT_TIMEOUT", "-1"},
                           {"TUTTI_SPIN", "many"},
                           {"TUTTI_INLINE_BYTES", "1M"},
                           {"TUTTI_FRAME_BYTES", "1"},
                           {"TUTTI_RING_BYTES", "4 MiB"},
                           {"TUTTI_PORT", "65536"},
                           {"TUTTI_DETERMINISTIC", "maybe"},
                           {"TUTTI_TRANSPORTS", "shm,,tcp"},
                           {"TUTTI_ALGORITHM", "ring"},
                           {"TUTTI_SOCKET_FAMILY", "ipx"},
                           {"TUTTI_LOG", "loud"},
                           {"TUTTI_HOST_ID", "a b"},
                           {"TUTTI_SINGLE_COPY_BYTES", "99999999999999999999"},
                           {"TUTTI_SOCKET_IFNAME", ""},
                           {"TUTTI_CTAS", "0"},
                           {"TUTTI_LEAST_CTAS", "4097"},
                           {"TUTTI_STAGING_STORES", "fast"},
                           {"TUTTI_CALLS_BEFORE", "4294967296"}};
  for (const auto& [name, value] : wrong) {
    const std::string message = refusal({{name, value}});
    EXPECT_NE(message.find(name + "='" + value + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("accepted: "), std::string::npos) << message;
  }
  EXPECT_NE(refusal({{"TUTTI_PORT", "0"}}), "");
  EXPECT_NE(refusal({{"TUTTI_TIMEOUT", "0"}}), "");
  EXPECT_NE(refusal({{"TUTTI_TIMEOUT", "1."}}), "");
  EXPECT_NE(refusal({{"TUTTI_KEEPALIVE", "0.9"}}), "");
  EXPECT_NE(refusal({{"TUTTI_INLINE_BYTES", "1025"}}), "");
  EXPECT_NE(refusal({{"TUTTI_TRANSPORTS", "shm,shm"}}), "");
  EXPECT_NE(refusal({{"TUTTI_ALGORITHM", "all_reduce:ring,all_reduce:tree"}}), "");
  for (const char* odd : {"all_reduce:ring,all_reduce/tree", "all_reduce", "all_reduce:",
                          "all_reduce:ring:", "all_reduce:ring:0", "all_reduce:ring:x",
                          "all_reduce:ring:2:2", "all_reduce:ring/2", ":ring", "ring:2,", ""}) {
    EXPECT_NE(refusal({{"TUTTI_ALGORITHM", odd}}), "") << odd;
  }
  const Config written =
      accepted({{"TUTTI_ALGORITHM", "all_reduce/ring, broadcast:chain:2,reduce/binomial:3"}});
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"all_reduce", "ring"}, {"broadcast", "chain:2"}, {"reduce", "binomial:3"}};
  EXPECT_EQ(written.algorithms, wanted);
}

// Ranks that each go on without it, or with another, wait for each other in vain.
TEST(Config, RefusesAPlaceThatIsNoneUnderEitherName) {
  for (const char* wrong :
       {"junk", "host", "host:", ":4000", "host:0", "host:70000", "host:4000x", "host:-1",
        "host:40 00", "ho st:4000", "2001:db8::1:4000", "[::1]", "[::1]4000", "[host]:4000",
        "[]:4000", "::1", "tcp://host:4000", "host:4000,other:4000", "deadbeef"}) {
    for (const char* name : {"TUTTI_ID", "NCCL_COMM_ID"}) {
      const std::string message = refusal({{name, wrong}});
      EXPECT_EQ(message.find(std::string(name) + "='" + wrong + "' is not understood"), 0u)
          << message;
      EXPECT_NE(message.find("accepted: HOST:PORT or [IPv6]:PORT"), std::string::npos) << message;
    }
  }
  EXPECT_EQ(accepted({{"NCCL_COMM_ID", " host:4000 "}}).id, "host:4000");
  for (const char* right : {"host:4000", "a-b.c_d.example:65535", "10.0.0.1:1", "[fd00::1]:4000"}) {
    EXPECT_EQ(accepted({{"NCCL_COMM_ID", right}}).id, right);
  }
  const Default file{"NCCL_COMM_ID", "junk", "/etc/nccl.conf"};
  const auto refused = Config::from_environment({}, {&file, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message().find("NCCL_COMM_ID in /etc/nccl.conf='junk'"), 0u);
  EXPECT_EQ(accepted({{"NCCL_COMM_ID", ""}}).id, "");  // NCCL's way to unset it
  EXPECT_NE(refusal({{"TUTTI_ID", ""}}), "");
}

TEST(Config, NeverShowsSecrets) {
  const std::string message = refusal({{"TUTTI_KEY", "correct horse battery staple"}});
  EXPECT_EQ(message.find("horse"), std::string::npos) << message;
  std::string id;
  while (id.size() < 256) id += "deadbeef";
  const Config config = accepted({{"TUTTI_KEY", kHexKey}, {"TUTTI_ID", id}});
  for (const std::string& damaged : {id + "0", id.substr(1), id.substr(0, 128), "id=" + id}) {
    const std::string refused = refusal({{"TUTTI_ID", damaged}});
    EXPECT_EQ(refused.find("deadbeef"), std::string::npos) << refused;
    EXPECT_EQ(refused.find("TUTTI_ID=(a value of"), 0u) << refused;
  }
  for (const Setting& setting : settings()) {
    const std::string shown = setting.show(config);
    EXPECT_EQ(shown.find("0011"), std::string::npos) << setting.name;
    EXPECT_EQ(shown.find("deadbeef"), std::string::npos) << setting.name;
    if (setting.name == "TUTTI_KEY" || setting.name == "TUTTI_ID") {
      EXPECT_EQ(shown, "(set)");
    }
  }
}

TEST(Config, WarnsAboutUnknownNames) {
  const Config config = accepted({{"TUTTI_TRANSPORT", "shm"}, {"TUTT_LOG", "x"}, {"HOME", "/"}});
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_NE(config.warnings[0].find("did you mean TUTTI_TRANSPORTS?"), std::string::npos);
}

TEST(Config, HonoursNcclNames) {
  const Config config = accepted({{"NCCL_SOCKET_IFNAME", "^docker,lo"},
                                  {"NCCL_SOCKET_FAMILY", "AF_INET"},
                                  {"NCCL_MAX_CTAS", "8"},
                                  {"NCCL_MIN_CTAS", "3"},
                                  {"NCCL_DEBUG", "INFO"}});
  EXPECT_EQ(config.most_ctas, 8u);
  EXPECT_EQ(config.least_ctas, 3u);
  EXPECT_EQ(config.socket_ifname, "^docker,lo");
  EXPECT_EQ(config.socket_family, SocketFamily::kIpv4);
  EXPECT_EQ(config.log_level, LogLevel::kInfo);
  EXPECT_EQ(config.origins.at("TUTTI_LOG"), "NCCL_DEBUG");

  const Config both = accepted({{"TUTTI_LOG", "error"}, {"NCCL_DEBUG", "TRACE"}});
  EXPECT_EQ(both.log_level, LogLevel::kError);

  const std::vector<Default> files = {{"NCCL_DEBUG", "INFO", "~/.nccl.conf"},
                                      {"NCCL_DEBUG", "TRACE", "/etc/nccl.conf"},
                                      {"NCCL_SOCKET_IFNAME", "lo", "/etc/nccl.conf"}};
  const auto mixed = Config::from_environment({{"NCCL_SOCKET_IFNAME", "eth0"}}, files);
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed.value().log_level, LogLevel::kInfo);  // the first default
  EXPECT_EQ(mixed.value().origins.at("TUTTI_LOG"), "NCCL_DEBUG in ~/.nccl.conf");
  EXPECT_EQ(mixed.value().socket_ifname, "eth0");  // the environment
  EXPECT_EQ(mixed.value().origins.at("TUTTI_SOCKET_IFNAME"), "NCCL_SOCKET_IFNAME");
  const auto own = Config::from_environment({{"TUTTI_LOG", "error"}}, files);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own.value().log_level, LogLevel::kError);

  const Config odd = accepted({{"NCCL_DEBUG", "LOUD"}});
  EXPECT_EQ(odd.log_level, LogLevel::kWarning);
  ASSERT_EQ(odd.warnings.size(), 1u);
  EXPECT_NE(odd.warnings[0].find("NCCL_DEBUG='LOUD'"), std::string::npos);
}

TEST(Config, TheEnvironmentWinsOverFilesUnderEitherName) {
  const std::vector<Default> files = {{"TUTTI_LOG", "error", "~/.nccl.conf"},
                                      {"TUTTI_PORT", "many", "~/.nccl.conf"},
                                      {"NCCL_DEBUG_SUBSYS", "INIT", "/etc/nccl.conf"},
                                      {"NCCL_SOCKET_FAMILY", "AF_X25", "/etc/nccl.conf"}};
  const auto mixed = Config::from_environment({{"NCCL_DEBUG", "INFO"}, {"TUTTI_PORT", "7"}}, files);
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  EXPECT_EQ(mixed.value().log_level, LogLevel::kInfo);
  EXPECT_EQ(mixed.value().port, 7);
  // A warning about a setting of a file names the place in it.
  EXPECT_EQ(mixed.value().warnings.size(), 2u);
  for (const std::string& warning : mixed.value().warnings) {
    EXPECT_NE(warning.find(" in /etc/nccl.conf"), std::string::npos) << warning;
  }
  // So does an unusable value: the file's is not wanted.
  const auto odd = Config::from_environment({{"NCCL_DEBUG", "LOUD"}, {"TUTTI_PORT", "7"}}, files);
  ASSERT_TRUE(odd.ok()) << odd.status().message();
  EXPECT_EQ(odd.value().log_level, LogLevel::kWarning);
  const auto refused = Config::from_environment({}, files);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("TUTTI_PORT in ~/.nccl.conf='many'"), std::string::npos)
      << refused.status().message();
}

// A variable that changes nothing here is accepted, and where a user may expect an effect of it, a
// line says that it has none.
TEST(Config, SaysWhereNcclsVariablesDoNothing) {
  const Config quiet = accepted({{"NCCL_P2P_DISABLE", "1"},
                                 {"NCCL_SHM_DISABLE", "1"},
                                 {"NCCL_NET", "socket"},
                                 {"NCCL_COMM_BLOCKING", "0"}});
  EXPECT_TRUE(quiet.warnings.empty());
  EXPECT_FALSE(quiet.shared_memory);
  EXPECT_FALSE(quiet.peer_access);
  EXPECT_TRUE(accepted({{"NCCL_P2P_DISABLE", "0"}}).peer_access);
  EXPECT_EQ(quiet.nccl_net, "Socket");
  EXPECT_EQ(quiet.nccl_blocking, false);
  EXPECT_EQ(accepted({{"NCCL_COMM_BLOCKING", "1"}}).nccl_blocking, true);
  EXPECT_EQ(accepted({}).nccl_blocking, std::nullopt);

  const std::pair<const char*, const char*> said[] = {{"NCCL_DEBUG_SUBSYS", "INIT,NET"},
                                                      {"NCCL_DEBUG_SUBSYS", "^COLL"}};
  for (const auto& [name, value] : said) {
    const Config config = accepted({{name, value}});
    ASSERT_EQ(config.warnings.size(), 1u) << name;
    EXPECT_EQ(config.warnings[0].find(std::string(name) + ": "), 0u) << config.warnings[0];
    EXPECT_EQ(config.warnings[0].find("ignored"), std::string::npos) << config.warnings[0];
  }
  const std::pair<const char*, const char*> odd[] = {{"NCCL_NET", "IB"},
                                                     {"NCCL_COMM_BLOCKING", "-1"},
                                                     {"NCCL_SHM_DISABLE", "perhaps"},
                                                     {"NCCL_P2P_DISABLE", ""},
                                                     {"NCCL_DEBUG_SUBSYS", "INIT,,NET"}};
  for (const auto& [name, value] : odd) {
    const Config config = accepted({{name, value}});
    ASSERT_EQ(config.warnings.size(), 1u) << name;
    EXPECT_NE(config.warnings[0].find("ignored"), std::string::npos) << config.warnings[0];
    EXPECT_TRUE(config.shared_memory);
  }
}

TEST(Config, KeyFileMustBePrivate) {
  const TemporaryFile good(std::string(kHexKey) + "\n", 0600);
  EXPECT_TRUE(accepted({{"TUTTI_KEY_FILE", good.path()}}).key.has_value());
  const TemporaryFile open_to_all(kHexKey, 0644);
  EXPECT_NE(refusal({{"TUTTI_KEY_FILE", open_to_all.path()}}).find("chmod 600"), std::string::npos);
  const TemporaryFile short_key("0011", 0600);
  const std::string message = refusal({{"TUTTI_KEY_FILE", short_key.path()}});
  EXPECT_NE(message.find("64 hexadecimal digits"), std::string::npos);
  EXPECT_EQ(message.find("0011"), std::string::npos);
  EXPECT_NE(refusal({{"TUTTI_KEY_FILE", good.path()}, {"TUTTI_KEY", kHexKey}}), "");
  EXPECT_NE(refusal({{"TUTTI_KEY_FILE", "/tmp"}}), "");

  const Result<Config> missing = Config::from_environment({{"TUTTI_KEY_FILE", "/no/such/file"}});
  EXPECT_EQ(missing.status().code(), Code::kSystemError);
}

TEST(Config, TableIsComplete) {
  std::set<std::string_view> names;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name << " twice";
    EXPECT_TRUE(setting.name.starts_with("TUTTI_"));
    EXPECT_FALSE(setting.effect.empty());
    EXPECT_FALSE(setting.accepts.empty());
  }
}

TEST(SettingValues, BytesAndSecondsGoBothWays) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1} << 10,
                               uint64_t{3} << 20, uint64_t{7} << 30}) {
    EXPECT_EQ(parse_bytes(show_bytes(bytes)), bytes);
  }
  for (const char* wrong : {"", "K", "1T", "-1", "0x10", "1K1", " 1", "18446744073709551616"}) {
    EXPECT_FALSE(parse_bytes(wrong).has_value()) << wrong;
  }
  EXPECT_EQ(show_seconds(*parse_seconds("0.000000001")), "0.000000001");
  EXPECT_EQ(show_seconds(*parse_seconds("60")), "60");
  for (const char* wrong : {"", ".", ".5", "1.0000000001", "1e3", "+1", "nan", "99999999999"}) {
    EXPECT_FALSE(parse_seconds(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace tutti
