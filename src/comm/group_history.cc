#include "src/comm/group_history.h"

#include <algorithm>
#include <utility>

#include "src/base/words.h"
#include "src/bootstrap/secrets.h"
#include "src/comm/card.h"
#include "src/consensus/bytes.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kRetryMs = 100;  // ticks are milliseconds

}  // namespace

std::string write_place(const RankAddress& place) {
  const std::string texts[] = {place.host, std::to_string(place.process), place.address.text(),
                               std::to_string(place.port), place.host_id};
  return write_texts(texts);
}

Result<RankAddress> read_place(std::string_view text) {
  enum : size_t { kHost, kProcess, kAddress, kPort, kHostId, kTexts };
  const Status malformed = Status::remote_error("a member says in no known form where it is");
  Result<std::vector<std::string>> texts = read_texts(text);
  if (!texts.ok() || texts.value().size() != kTexts) return malformed;
  const std::vector<std::string>& read = texts.value();
  const auto process = parse_integer<int64_t>(read[kProcess]);
  const auto address = bootstrap::Address::parse(read[kAddress]);
  const auto port = parse_integer<uint16_t>(read[kPort]);
  if (!process || !address.ok() || !port || *port == 0) return malformed;
  return RankAddress{read[kHost], *process, address.value(), *port, read[kHostId]};
}

bootstrap::GroupKey key_of_epoch(const bootstrap::GroupKey& first, const consensus::View& view) {
  const consensus::Digest digest = view.digest();
  const std::string purpose =
      "epoch " + std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
  bootstrap::UniqueId named;
  named.job = bootstrap::derive_job(first.key, purpose);
  return {named.communicator(), bootstrap::derive_key(first.key, purpose)};
}

GroupHistory::GroupHistory(MemberId self, const bootstrap::GroupKey& first,
                           std::shared_ptr<const Roster> listener, consensus::View view,
                           std::map<MemberId, RankAddress> places)
    : self_(self),
      first_(first),
      listener_(std::move(listener)),
      view_(std::move(view)),
      places_(std::move(places)) {}

consensus::View GroupHistory::view() const {
  const MutexLock lock(mutex_);
  return view_;
}

int GroupHistory::rank() const {
  const MutexLock lock(mutex_);
  const auto at = std::find(view_.members.begin(), view_.members.end(), self_);
  return at == view_.members.end() ? -1 : static_cast<int>(at - view_.members.begin());
}

int GroupHistory::ranks() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(view_.members.size());
}

uint32_t GroupHistory::epoch() const {
  const MutexLock lock(mutex_);
  return view_.epoch;
}

bool GroupHistory::is_on_one_host() const {
  const std::string& mine = place(self_).host_id;
  const consensus::View present = view();
  return std::all_of(present.members.begin(), present.members.end(),
                     [&](const MemberId& member) { return place(member).host_id == mine; });
}

std::string GroupHistory::describe(const MemberId& member) const {
  const consensus::View present = view();
  const auto at = std::find(present.members.begin(), present.members.end(), member);
  const auto place = places_.find(member);
  std::string text = at == present.members.end()
                         ? "a member"
                         : "rank " + std::to_string(at - present.members.begin());
  if (place == places_.end()) return text;
  return text + " (process " + std::to_string(place->second.process) + " on " + place->second.host +
         ")";
}

void GroupHistory::remember_id(const bootstrap::GroupKey& id) {
  const MutexLock lock(mutex_);
  ids_.push_back(id);
}

std::vector<bootstrap::GroupKey> GroupHistory::ids() const {
  const MutexLock lock(mutex_);
  return ids_;
}

std::string GroupHistory::welcome(uint64_t id) const {
  const consensus::View present = view();
  consensus::ByteWriter out;
  out.number(first_.group);
  out.text({reinterpret_cast<const char*>(first_.key.data()), first_.key.size()});
  out.text(present.encode());
  for (const MemberId& member : present.members) out.text(write_place(place(member)));
  const MutexLock lock(mutex_);
  for (const bootstrap::GroupKey& known : ids_) {
    if (known.group == id) return bootstrap::seal(known.key, std::move(out).bytes());
  }
  return {};
}

Result<GroupWelcome> GroupWelcome::open(const transport::JobKey& id_key,
                                        const std::string& sealed) {
  const Status malformed = Status::remote_error("a member let this rank in with malformed words");
  const Result<std::string> words = bootstrap::open(id_key, sealed);
  if (!words.ok()) return words.status();
  consensus::ByteReader in(words.value());
  GroupWelcome welcome;
  welcome.first.group = in.number();
  const std::string key = in.text();
  if (key.size() != welcome.first.key.size()) return malformed;
  std::copy(key.begin(), key.end(), welcome.first.key.begin());
  Result<consensus::View> view = consensus::View::decode(in.text());
  if (!view.ok()) return view.status();
  welcome.view = std::move(view).value();
  for (const MemberId& member : welcome.view.members) {
    Result<RankAddress> place = read_place(in.text());
    if (!place.ok()) return place.status();
    welcome.places.emplace(member, std::move(place).value());
  }
  if (!in.finished()) return malformed;
  return welcome;
}

consensus::Agreement& GroupHistory::agreement(uint64_t seed) {
  if (agreement_ != nullptr) return *agreement_;
  const auto judge = is_on_one_host() ? consensus::Judge::kKernel : consensus::Judge::kMajority;
  consensus::Terms terms{view(), self_, judge, kRetryMs, seed};
  agreement_ = std::make_unique<consensus::Agreement>(std::move(terms), rules_);
  return *agreement_;
}

Status GroupHistory::advance(const consensus::View& next) {
  for (const consensus::Newcomer& newcomer : next.newcomers) {
    Result<RankAddress> place = read_place(newcomer.card);
    if (!place.ok()) return place.status();
    places_.insert_or_assign(newcomer.member, std::move(place).value());
  }
  const consensus::View present = next;  // it may live in the machine
  std::erase_if(places_, [&](const auto& entry) { return !present.holds(entry.first); });
  last_ = std::move(agreement_);
  is_built_ = false;
  const MutexLock lock(mutex_);
  view_ = present;
  return {};
}

}  // namespace tutti::comm
