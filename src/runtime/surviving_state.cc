#include "tutti/runtime/surviving_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/elastic_plan.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/reshard.h"

namespace tutti::runtime {
namespace {

bool same(const tuttiMemberId& a, const tuttiMemberId& b) {
  return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

std::vector<tuttiMemberId> ids_of(const std::vector<StepMember>& members) {
  std::vector<tuttiMemberId> ids;
  for (const StepMember& member : members) ids.push_back(member.id);
  return ids;
}

/// The rank of a member, or -1.
int rank_in(const std::vector<tuttiMemberId>& members, const tuttiMemberId& member) {
  for (size_t rank = 0; rank < members.size(); ++rank) {
    if (same(members[rank], member)) return static_cast<int>(rank);
  }
  return -1;
}

uint64_t digest_of(std::span<const std::byte> bytes) {
  Fingerprint print;
  size_t from = 0;
  for (; from + sizeof(int64_t) <= bytes.size(); from += sizeof(int64_t)) {
    int64_t word = 0;
    std::memcpy(&word, bytes.data() + from, sizeof word);
    print.add(word);
  }
  for (; from < bytes.size(); ++from) print.add(static_cast<int64_t>(bytes[from]));
  print.add(std::ssize(bytes));
  return print.value();
}

constexpr size_t kIdWords = sizeof(tuttiMemberId) / sizeof(int64_t);

}  // namespace

SurvivingState::SurvivingState(StepGroup& group, SurvivingStateSpec spec)
    : group_(group), spec_(std::move(spec)) {
  require(spec_.elements >= 1, spec_.elements, " elements; give 1 or more");
  require(spec_.element.value >= 1, "an element has ", spec_.element.value, " bytes");
  require(spec_.stripe >= 1, "stripes of ", spec_.stripe, " elements; give 1 or more");
  require(spec_.partner >= 1, "the partner is ", spec_.partner, " ranks on; give 1 or more");
  require(spec_.initial != nullptr, "there is no initial state; pass a function");
  checked_product(spec_.elements, spec_.element.value, "the state in bytes");
}

/// Everybody that has no version, or one of other members, is told the one that counts.
void SurvivingState::share_version() {
  const tuttiComm_t comm = group_.comm();
  const int ranks = static_cast<int>(group_.members().size());
  const int64_t own = has_version_ ? present_.step : -2;
  std::vector<int64_t> steps(at(ranks));
  expect_success(tuttiAllGather(&own, steps.data(), 1, tuttiInt64, comm, tuttiBlocking()), comm,
                 "the versions of a state");
  const auto newest = std::max_element(steps.begin(), steps.end());
  if (*newest == -2) {
    present_.members = ids_of(group_.members());
    std::vector<int> owners(at((spec_.elements + spec_.stripe - 1) / spec_.stripe));
    for (size_t i = 0; i < owners.size(); ++i) owners[i] = static_cast<int>(i) % ranks;
    present_.sharding = blocks(std::span(&spec_.elements, 1), spec_.stripe, owners, ranks);
    has_version_ = true;
    present_.own = {};
    return;
  }
  const int root = static_cast<int>(newest - steps.begin());
  std::vector<int64_t> said = say_version();
  int64_t length = std::ssize(said);
  expect_success(tuttiBroadcast(&length, &length, 1, tuttiInt64, root, comm, tuttiBlocking()), comm,
                 "the length of a version");
  said.resize(at(length));
  expect_success(tuttiBroadcast(said.data(), said.data(), said.size(), tuttiInt64, root, comm,
                                tuttiBlocking()),
                 comm, "a version of a state");
  if (!has_version_) take_version(said);
}

std::vector<int64_t> SurvivingState::say_version() const {
  std::vector<int64_t> said{present_.step, std::ssize(present_.members),
                            std::ssize(present_.sharding.shards)};
  for (const tuttiMemberId& member : present_.members) {
    int64_t id[kIdWords];
    std::memcpy(id, member.bytes, sizeof id);
    said.insert(said.end(), id, id + kIdWords);
  }
  for (const Shard& shard : present_.sharding.shards) {
    said.insert(said.end(), {shard.rank, shard.begin, shard.length});
  }
  return said;
}

void SurvivingState::take_version(std::span<const int64_t> said) {
  size_t from = 3;
  present_.step = said[0];
  present_.members.assign(at(said[1]), {});
  for (tuttiMemberId& member : present_.members) {
    std::memcpy(member.bytes, said.data() + from, sizeof member.bytes);
    from += kIdWords;
  }
  present_.sharding = {static_cast<int>(said[1]), spec_.elements, spec_.stripe, 1, {}};
  for (int64_t i = 0; i < said[2]; ++i, from += 3) {
    present_.sharding.shards.push_back(
        {static_cast<int>(said[from]), said[from + 1], said[from + 2]});
  }
  validate(present_.sharding);
  has_version_ = true;
}

void SurvivingState::begin() {
  const std::vector<tuttiMemberId> members = ids_of(group_.members());
  // A newcomer is in none of the versions, so everybody sees that somebody needs one.
  const bool all_have = has_version_ && members.size() == present_.members.size() &&
                        std::equal(members.begin(), members.end(), present_.members.begin(), same);
  if (!all_have) share_version();
  next_.members = members;
  next_.step = group_.step();
  move_shards();
}

/// How far a partner is; not as far as oneself.
int SurvivingState::distance(int ranks) const {
  return spec_.partner % ranks == 0 ? 1 : spec_.partner % ranks;
}

/// For each rank of the present version, the rank of now that has its elements.
std::vector<int> SurvivingState::heirs() const {
  std::vector<int> heirs;
  const int ranks = static_cast<int>(present_.members.size());
  for (int rank = 0; rank < ranks; ++rank) {
    int heir = rank_in(next_.members, present_.members[at(rank)]);
    const int partner = (rank + distance(ranks)) % ranks;
    if (heir < 0 && present_.step < 0) heir = 0;  // anybody can make the initial state
    if (heir < 0) heir = rank_in(next_.members, present_.members[at(partner)]);
    if (heir < 0 ||
        (partner == rank && heir != rank_in(next_.members, present_.members[at(rank)]))) {
      infeasible("rank ", rank, " and its partner, rank ", partner, ", of step ", present_.step,
                 " are both gone, and with them a share of the state; begin from a checkpoint");
    }
    heirs.push_back(heir);
  }
  return heirs;
}

const SurvivingState::PartnerCopy& SurvivingState::checked_copy(int old_rank) const {
  const PartnerCopy& copy = present_.copy;
  const bool is_it = same(copy.owner, present_.members[at(old_rank)]) && copy.step == present_.step;
  if (!is_it || digest_of(copy.bytes) != copy.digest) {
    infeasible("the copy of rank ", old_rank, "'s share is of step ", copy.step, ", not ",
               present_.step, ", or its digest differs; begin from a checkpoint");
  }
  return copy;
}

/// This rank's elements in `held`, taken from its own share and from its partner's copy.
std::vector<std::byte> SurvivingState::source(const Sharding& held, std::span<const int> origin) {
  const int rank = group_.rank();
  const int old_rank = rank_in(present_.members, next_.members[at(rank)]);
  const std::vector<int64_t> offsets = present_.sharding.local_offsets();
  std::vector<std::byte> source(at(bytes(held.local_size(rank))));
  std::byte* place = source.data();
  for (size_t i = 0; i < held.shards.size(); ++i) {
    const Shard& shard = held.shards[i];
    if (shard.rank != rank) continue;
    const size_t length = at(bytes(shard.length)), offset = at(bytes(offsets[i]));
    if (present_.step < 0) {
      spec_.initial(shard.begin, shard.begin + shard.length, place);
    } else if (origin[i] == old_rank) {
      std::memcpy(place, present_.own.data() + offset, length);
    } else {
      std::memcpy(place, checked_copy(origin[i]).bytes.data() + offset, length);
      counters_.from_copies += Bytes(static_cast<int64_t>(length));
    }
    place += length;
  }
  return source;
}

void SurvivingState::move_shards() {
  const int ranks = static_cast<int>(next_.members.size());
  std::vector<int> origin;
  for (const Shard& shard : present_.sharding.shards) origin.push_back(shard.rank);
  const Sharding held = inherited(present_.sharding, heirs(), ranks);
  const std::vector<std::byte> from = source(held, origin);
  next_.sharding = rebalanced(held, ranks);
  const Resharding plan = reshard(held, next_.sharding);
  next_.own.resize(at(bytes(next_.sharding.local_size(group_.rank()))));
  if (moved(plan) == 0) {
    // Pieces of one rank may still lie in another order.
    for (const Parcel& parcel : plan.parcels) {
      if (parcel.target != group_.rank()) continue;
      std::memcpy(next_.own.data() + bytes(parcel.target_offset),
                  from.data() + bytes(parcel.source_offset), at(bytes(parcel.length)));
    }
    return;
  }
  Exchange(plan, spec_.element).run(group_.comm(), from.data(), next_.own.data());
  ++counters_.moves;
  for (const Parcel& parcel : plan.parcels) {
    const bool arrives = parcel.target == group_.rank() && parcel.source != group_.rank();
    if (arrives) counters_.moved += Bytes(bytes(parcel.length));
  }
}

void SurvivingState::end() {
  const int ranks = static_cast<int>(next_.members.size()), rank = group_.rank();
  if (ranks == 1) return;  // it would be its own partner
  const int away = distance(ranks);
  const int to = (rank + away) % ranks, from = (rank + ranks - away) % ranks;
  const tuttiComm_t comm = group_.comm();
  const uint64_t digest = digest_of(next_.own);
  PartnerCopy& copy = next_.copy;
  copy.owner = next_.members[at(from)];
  copy.step = next_.step;
  copy.bytes.resize(at(bytes(next_.sharding.local_size(from))));
  expect_success(tuttiGroupStart(), "tuttiGroupStart");
  tuttiSend(&digest, 1, tuttiUint64, to, comm, tuttiBlocking());
  tuttiRecv(&copy.digest, 1, tuttiUint64, from, comm, tuttiBlocking());
  tuttiSend(next_.own.data(), next_.own.size(), tuttiUint8, to, comm, tuttiBlocking());
  tuttiRecv(copy.bytes.data(), copy.bytes.size(), tuttiUint8, from, comm, tuttiBlocking());
  expect_success(tuttiGroupEnd(), comm, "the copy of a share");
  counters_.copied += Bytes(std::ssize(next_.own));
  if (digest_of(copy.bytes) == copy.digest) return;
  throw Error(ErrorKind::kCommunication,
              words("the copy of rank ", from, "'s share arrived with another digest"),
              tuttiSystemError);
}

void SurvivingState::committed() { std::swap(present_, next_); }

void SurvivingState::gather(std::span<std::byte> all) {
  require(std::ssize(all) == bytes(spec_.elements), "the state has ", bytes(spec_.elements),
          " bytes, and the buffer ", all.size());
  const int ranks = static_cast<int>(next_.members.size());
  Exchange(reshard(next_.sharding, replicated(spec_.elements, ranks)), spec_.element)
      .run(group_.comm(), next_.own.data(), all.data());
}

}  // namespace tutti::runtime
