#include "perf/collectives/host_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

std::string text_of(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) text += host.name + "=" + std::to_string(host.slots) + " ";
  return text;
}

/// A file of hosts that goes with it.
struct Hostfile {
  explicit Hostfile(const std::string& text)
      : path(testing::TempDir() + "hostfile." + std::to_string(getpid())) {
    std::ofstream(path) << text;
  }
  ~Hostfile() { std::remove(path.c_str()); }
  const std::string path;
};

TEST(HostList, NamesMayHaveSlots) {
  for (const auto& [text, said] : std::vector<std::pair<const char*, const char*>>{
           {"node1", "node1=1 "},
           {"user@node1.site:12", "user@node1.site=12 "},
           {"10.0.0.1:2", "10.0.0.1=2 "},
           {"2001:db8::1", "2001:db8::1=1 "},
           {"[2001:db8::1]:4", "2001:db8::1=4 "},
           {"[2001:db8::1]", "2001:db8::1=1 "}}) {
    EXPECT_EQ(text_of({parse_host(text)}), said);
  }
  for (const char* wrong :
       {"", ":2", "node1:", "node1:0", "node1:x", "-oProxyCommand=x", "a b", "$(reboot)", "a;b"}) {
    EXPECT_THROW(parse_host(wrong), PerfError) << wrong;
  }
}

TEST(HostList, FilesAreReadAsThoseOfMpi) {
  const Hostfile file("# all of them\nnode1 slots=4\n\n  node2:2  # the small one\nnode3\n");
  EXPECT_EQ(text_of(read_hostfile(file.path)), "node1=4 node2=2 node3=1 ");
  EXPECT_THROW(read_hostfile(file.path + ".missing"), PerfError);
  for (const char* wrong : {"", "# none\n", "node1\nnode2 cores=4\n", "node1\nnode2 slots=4 x\n",
                            "node1\nnode2 slots=0\n"}) {
    const Hostfile bad(wrong);
    try {
      read_hostfile(bad.path);
      FAIL() << wrong;
    } catch (const PerfError& error) {
      const std::string place = std::string(wrong).starts_with("node1") ? ":2: " : " names no host";
      EXPECT_NE(std::string(error.what()).find(bad.path + place), std::string::npos)
          << error.what();
    }
  }
}

TEST(HostList, SlotsAreTakenHostByHost) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 2}, {"a", 1}};
  EXPECT_EQ(text_of(take_slots(hosts, slots_of(hosts))), "a=2 b=2 a=1 ");
  EXPECT_EQ(text_of(take_slots(hosts, 3)), "a=2 b=1 ");
  EXPECT_EQ(text_of(take_slots(hosts, 2)), "a=2 ");
  EXPECT_THROW(take_slots(hosts, 6), PerfError);
}

}  // namespace
}  // namespace tutti::perf
