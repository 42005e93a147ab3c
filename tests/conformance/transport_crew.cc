#include "tests/conformance/transport_crew.h"

#include <numeric>
#include <thread>
#include <utility>

#include "tests/software_verbs/software_verbs.h"
#include "tests/support/nap.h"

namespace tutti::transport {

// gtest would print the bytes of the entry otherwise.
void PrintTo(const Factory& entry, std::ostream* out) { *out << entry.name; }

}  // namespace tutti::transport

namespace tutti::conformance {

transport::Member make_member(int rank, int ranks, Distance distance) {
  transport::Member member;
  member.rank = rank;
  member.ranks = ranks;
  member.communicator = kCommunicator;
  member.epoch = 1;
  const bool same_host = distance != Distance::kHosts;
  const bool same_process = distance == Distance::kThreads;
  member.host_id = same_host ? "host" : "host" + std::to_string(rank);
  member.id.process = {0, same_process ? 1 : 1 + static_cast<uint64_t>(rank)};
  std::iota(member.key.begin(), member.key.end(), uint8_t{3});
  member.bind_address = "127.0.0.1";
  member.tcp_flows = 3;
  member.insecure = true;
  return member;
}

std::unique_ptr<Crew> Crew::at(const registry::TransportEntry& entry, int ranks, Distance distance,
                               const Adjust& adjust) {
  auto crew = std::make_unique<Crew>();
  for (int r = 0; r < ranks; ++r) {
    auto rank = std::make_unique<Rank>();
    Result<transport::Arena> arena = transport::Arena::create("tutti-test", kArenaBytes);
    if (!arena.ok()) return nullptr;
    rank->arena = std::move(arena).value();
    rank->member = make_member(r, ranks, distance);
    rank->member.arena = &rank->arena;
    if (adjust) adjust(rank->member);
    auto transport = entry.make(rank->member);
    if (!transport.ok()) return nullptr;
    rank->transport = std::move(transport).value();
    crew->ranks_.push_back(std::move(rank));
  }
  for (int r = 1; r < ranks; ++r) {
    if (!crew->rank(0).transport->reaches(crew->rank(r).transport->card())) return nullptr;
  }
  return crew->serve() ? std::move(crew) : nullptr;
}

std::unique_ptr<Crew> Crew::create(const registry::TransportEntry& entry, int ranks,
                                   const Adjust& adjust) {
  for (const Distance distance : {Distance::kHosts, Distance::kProcesses, Distance::kThreads}) {
    if (auto crew = at(entry, ranks, distance, adjust)) return crew;
  }
  return nullptr;
}

bool Crew::serve() {
  Result<std::unique_ptr<bootstrap::Watch>> watch = bootstrap::Watch::create();
  if (!watch.ok()) return false;
  watch_ = std::move(watch).value();
  for (const auto& rank : ranks_) {
    transport::Transport* transport = rank->transport.get();
    const int fd = transport->service_fd();
    if (fd < 0) continue;
    const auto serve = [transport] {
      transport->serve();
      return uint64_t{0};
    };
    if (!watch_->attend(fd, bootstrap::Watch::News::kInput, serve).ok()) return false;
  }
  return true;
}

Crew::~Crew() {
  // Links before any transport: a link may lean on what its peer's transport holds.
  for (const auto& rank : ranks_) rank->links.clear();
  watch_.reset();
}

Status Crew::connect_one(int from, int to, uint64_t deadline_ns) {
  return connect_one(from, to, rank(to).transport->card(), deadline_ns);
}

Status Crew::connect_one(int from, int to, const std::string& card, uint64_t deadline_ns) {
  auto link = rank(from).transport->connect(to, card, deadline_ns);
  if (!link.ok()) return link.status();
  if (Status status = link.value()->await(deadline_ns); !status.ok()) return status;
  rank(from).links[to] = std::move(link).value();
  return {};
}

Status Crew::connect_all() {
  std::vector<Status> statuses(ranks_.size());
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  in_parallel(size(), [&](int r) {
    Status& status = statuses[static_cast<size_t>(r)];
    auto& links = rank(r).links;
    for (int step = 1; step < size() && status.ok(); ++step) {
      const int peer = (r + step) % size();
      auto link = rank(r).transport->connect(peer, rank(peer).transport->card(), deadline_ns);
      status = link.status();
      if (link.ok()) links[peer] = std::move(link).value();
    }
    for (const auto& [peer, link] : links) {
      if (status.ok()) status = link->await(deadline_ns);
    }
  });
  for (Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return {};
}

void in_parallel(int count, const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(f, i);
  for (std::thread& thread : threads) thread.join();
}

bool drive(transport::Link& link, const std::function<bool()>& until) {
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  while (!until()) {
    if (!link.status().ok() || monotonic_ns() > deadline_ns) return until();
    if (!link.stream()->progress()) testing_support::nap(link);
  }
  return true;
}

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : data) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return data;
}

namespace {

/// Why this transport reaches nobody here; "" where it may.
std::string absence_of(const registry::TransportEntry& entry) {
  transport::Arena arena;
  transport::Member member = make_member(0, 2, Distance::kHosts);
  member.arena = &arena;
  const auto made = entry.make(member);
  return made.ok() ? made.value()->absence(made.value()->card()) : std::string();
}

}  // namespace

void TransportTest::SetUp() {
  const std::string why = absence_of(GetParam());
  if (!why.empty()) GTEST_SKIP() << GetParam().name << " cannot be used here: " << why;
}

std::unique_ptr<Crew> TransportTest::connected(int ranks) {
  auto crew = Crew::create(GetParam(), ranks);
  if (crew == nullptr) {
    ADD_FAILURE() << GetParam().name << " reaches nobody: no host, process or thread";
    return nullptr;
  }
  if (const Status status = crew->connect_all(); !status.ok()) {
    ADD_FAILURE() << status.message();
    return nullptr;
  }
  return crew;
}

std::unique_ptr<Crew> TransportTest::streaming(int ranks) {
  auto crew = connected(ranks);
  if (crew == nullptr || crew->link(0, 1).stream() != nullptr) return crew;
  [&] { GTEST_SKIP() << GetParam().name << " has no streams"; }();
  return nullptr;
}

namespace {

constexpr registry::TransportEntry kSoftware[] = {{"verbs", &software_verbs::make}};

}  // namespace

std::vector<registry::TransportEntry> transports_here() {
  std::vector<registry::TransportEntry> entries;
  for (const registry::TransportEntry& entry : registry::transports()) {
    entries.push_back(entry);
    for (const registry::TransportEntry& software : kSoftware) {
      if (software.name == entry.name && !absence_of(entry).empty()) entries.back() = software;
    }
  }
  return entries;
}

std::string name_of(const testing::TestParamInfo<registry::TransportEntry>& info) {
  return std::string(info.param.name);
}

}  // namespace tutti::conformance
