// footprint: how much memory an all_to_all of many ranks on one host holds.
//
//   --ranks N   processes (default 64)
//   --bytes N   to every peer (default 256 KiB)
//
// Prints, over all ranks, the resident memory and what of the shared arenas was ever touched
// (shared pages count once). Exit status: 0 the arenas hold at most 16 MiB and a page for every
// peer a rank, and the results are right; 1 they are not; 2 the command line is wrong.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::ranks_test {
namespace {

using testing_support::Member;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 300'000'000'000;
constexpr uint64_t kStagingKiB = 16 << 10;
constexpr uint64_t kPageKiB = 4;

struct Footprint {
  uint64_t resident_kib = 0;  // of the process
  uint64_t arenas_kib = 0;    // its share of the arenas' touched pages
};

Footprint footprint_of_this_process() {
  Footprint found;
  std::ifstream smaps("/proc/self/smaps");
  bool in_arena = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    words >> key;
    if (key.find('-') != std::string::npos) {
      in_arena = line.find("memfd:tutti") != std::string::npos;
    } else if (words >> kib) {
      if (key == "Rss:") found.resident_kib += kib;
      if (key == "Pss:" && in_arena) found.arenas_kib += kib;
    }
  }
  return found;
}

uint8_t element(int source, int target, size_t i) {
  return static_cast<uint8_t>(static_cast<size_t>(source) * 31 + static_cast<size_t>(target) * 7 +
                              i);
}

bool exchange(Member& member, tuttiComm_t comm, size_t bytes) {
  const auto ranks = static_cast<size_t>(member.ranks());
  std::vector<uint8_t> send(ranks * bytes), recv(ranks * bytes);
  for (size_t at = 0; at < send.size(); ++at) {
    send[at] = element(member.rank(), static_cast<int>(at / bytes), at % bytes);
  }
  const tuttiResult_t result =
      tuttiAllToAll(send.data(), recv.data(), bytes, tuttiUint8, comm, tuttiBlocking());
  if (result != tuttiSuccess) {
    member.fail(tuttiGetLastError(comm));
    return false;
  }
  for (size_t at = 0; at < recv.size(); ++at) {
    if (recv[at] == element(static_cast<int>(at / bytes), member.rank(), at % bytes)) continue;
    member.fail("a wrong byte at " + std::to_string(at));
    return false;
  }
  return true;
}

void run_rank(Member& member, size_t bytes) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id)) return;
  if (tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  for (const size_t size : {size_t{8}, bytes, size_t{1000}}) {
    if (!exchange(member, comm, size)) return;
  }
  if (!member.meet()) return;
  const Footprint footprint = footprint_of_this_process();
  member.board().numbers[member.rank()].store(footprint.resident_kib << 32 | footprint.arenas_kib);
  if (!member.meet()) return;
  if (member.rank() == 0) {
    uint64_t resident = 0, arenas = 0;
    for (int rank = 0; rank < member.ranks(); ++rank) {
      const uint64_t both = member.board().numbers[rank].load();
      resident += both >> 32;
      arenas += both & 0xffffffff;
    }
    const auto ranks = static_cast<uint64_t>(member.ranks());
    const uint64_t bound = ranks * (kStagingKiB + kPageKiB * ranks);
    std::printf(
        "%llu ranks, all_to_all of 8, %zu and 1000 bytes a peer: resident %llu KiB a rank, "
        "arenas %llu KiB a rank (at most %llu)\n",
        static_cast<unsigned long long>(ranks), bytes,
        static_cast<unsigned long long>(resident / ranks),
        static_cast<unsigned long long>(arenas / ranks),
        static_cast<unsigned long long>(bound / ranks));
    if (arenas == 0) member.fail("no arena was found: the check would see nothing");
    if (arenas > bound) member.fail("the arenas hold more than they may");
  }
  tuttiCommDestroy(comm);
}

}  // namespace
}  // namespace tutti::ranks_test

int main(int argc, char** argv) {
  using namespace tutti::ranks_test;
  int ranks = 64;
  size_t bytes = 256 << 10;
  using tutti::testing_support::into;
  const bool understood = tutti::testing_support::read_options(
      argc, argv,
      {{"--ranks", into(ranks, 1, tutti::testing_support::kMaxRanks)}, {"--bytes", into(bytes)}});
  if (!understood || bytes < 1) return 2;
  const auto result = tutti::testing_support::run_team(
      TeamShape::processes(ranks), [bytes](Member member) { run_rank(member, bytes); },
      [](uint64_t) { return std::string("the exchange"); }, kLimitNs);
  if (!result.ok) std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
