#include "tests/device/newcomers.h"

#include <array>
#include <bit>

#include "tests/device/seat.h"

namespace tutti::device_programs {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;

namespace {

constexpr uint64_t kMostNs = 60'000'000'000;
constexpr uint64_t kNapNs = 1'000'000;

/// Numbers of the board: whether the id is there, how many members have gone on, the id's words.
enum { kHasId, kGoneOn, kId };
using IdWords = std::array<uint64_t, sizeof(tuttiUniqueId) / sizeof(uint64_t)>;
static_assert(kId + sizeof(IdWords) / sizeof(uint64_t) <= testing_support::kMaxRanks);

}  // namespace

void show_id(Member& member, const tuttiUniqueId& id) {
  std::atomic<uint64_t>* const numbers = member.board().numbers;
  const auto words = std::bit_cast<IdWords>(id);
  for (size_t i = 0; i < words.size(); ++i) numbers[kId + i].store(words[i]);
  numbers[kHasId].store(1);
}

tuttiComm_t come(Member& member) {
  std::atomic<uint64_t>* const numbers = member.board().numbers;
  while (numbers[kHasId].load() == 0) sleep_ns(kNapNs);
  IdWords words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = numbers[kId + i].load();
  const auto id = std::bit_cast<tuttiUniqueId>(words);
  tuttiComm_t comm = nullptr;
  went(member, tuttiCommJoin(&comm, &id, nullptr), nullptr, "tuttiCommJoin");
  return comm;
}

void go_on(Member& member) { member.board().numbers[kGoneOn].fetch_add(1); }

void leave(Member& member, int others, tuttiComm_t comm) {
  const uint64_t until_ns = now_ns() + kMostNs;
  while (member.board().numbers[kGoneOn].load() < static_cast<uint64_t>(others)) {
    if (now_ns() >= until_ns) return member.fail("the others do not go on");
    sleep_ns(kNapNs);
  }
  tuttiCommAbort(comm);
}

}  // namespace tutti::device_programs
