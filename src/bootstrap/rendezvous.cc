#include "src/bootstrap/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "src/base/clock.h"
#include "src/base/fork.h"
#include "src/base/io.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/session.h"
#include "src/transport/door/handshake.h"

namespace tutti::bootstrap {
namespace {

// An address that does not answer (a firewall, another network) must not keep us from the next one.
constexpr uint64_t kFirstDialNs = 500 * kNanosecondsPerMillisecond;
constexpr uint64_t kLongestDialNs = 8 * kNanosecondsPerSecond;
constexpr uint64_t kPauseNs = 20 * kNanosecondsPerMillisecond;
// The time in which a rank that leaves may reach the server to say so.
constexpr uint64_t kFarewellNs = 500 * kNanosecondsPerMillisecond;
// A caller that the kernel has let in, and that hears nothing for so long, has reached no server.
constexpr uint64_t kSilenceNs = 60 * kNanosecondsPerSecond;
// A server that refuses the handshake this often does not take this caller, or is another job's.
constexpr int kMaxRefusals = 3;
// Where groups meet one after the other, an earlier one may not have left yet.
constexpr int kMaxRefusalsAtPlace = 250;
// A thread without a descriptor for a socket may get one when another thread closes its own.
constexpr int kMostWithoutSocket = 50;

transport::door::Identity rank_identity(const UniqueId& id, int rank) {
  transport::door::Identity self;
  self.rank = rank;
  self.communicator = id.communicator();
  self.purpose = transport::door::kRendezvous;
  return self;
}

Status check_arguments(int rank, int ranks, std::string_view blob) {
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    return Status::invalid_argument("rank " + std::to_string(rank) + " of " +
                                    std::to_string(ranks) + " ranks is no rank");
  }
  if (blob.size() > kMaxBlobBytes) {
    return Status::invalid_argument("the blob for the rendezvous has " +
                                    std::to_string(blob.size()) + " bytes, more than " +
                                    std::to_string(kMaxBlobBytes));
  }
  return {};
}

/// One attempt to find the server at one address. A server that hangs up in the middle of the
/// handshake is busy; one that cannot be dialled is not there (yet, or any more). kInvalidUsage: it
/// is not worth another attempt.
Result<KeptFd> meet_at(const Address& address, const JoinOptions& join, uint64_t dial_ns) {
  const UniqueId& id = join.id;
  Result<KeptFd> fd = dial(address, id.port, join.wait_limit.at_most(dial_ns));
  if (!fd.ok()) {
    if (fd.status().code() != Code::kRemoteError) return fd;  // kUnsupported: no socket
    const std::string reason = "nobody listens at " + address.text(id.port) + " (" +
                               std::string(fd.status().message()) + ")";
    return join.listens_already ? Status::invalid_usage(reason) : Status::system_error(reason);
  }
  const WaitLimit wait_limit =
      join.listens_already ? join.wait_limit : join.wait_limit.at_most(kSilenceNs);
  const Status status = transport::door::handshake_connect(
      fd.value().get(), id.key, rank_identity(id, join.rank), wait_limit);
  if (status.code() == Code::kTimeout && !join.wait_limit.over()) {
    return Status::invalid_usage("whoever listens at " + address.text(id.port) +
                                 " has not answered for a minute");
  }
  if (!status.ok()) return status;
  return fd;
}

std::string places(const UniqueId& id) {
  std::string text;
  for (const Address& address : id.addresses) {
    text += (text.empty() ? "" : ", ") + address.text(id.port);
  }
  return text;
}

std::string place_of(const JoinOptions& join) {
  return "rank " + std::to_string(join.rank) + " of " + std::to_string(join.ranks) +
         " at the rendezvous " + places(join.id);
}

/// Tells the user of a rank that finds no server where to look.
std::string doubts(const UniqueId& id) {
  if (id.at_place || id.rank_0_opens) {
    return " (rank 0 opens that place: does it run? may this host connect to it? is it at the same "
           "making of a communicator as this rank?)";
  }
  return " (the process that made the unique id opens that place: does it still run? may this host "
         "connect to it? was the id used already?)";
}

/// Tries all addresses in turn until one answers: the server may not be there yet.
Result<KeptFd> meet(const JoinOptions& join) {
  const UniqueId& id = join.id;
  const WaitLimit& wait_limit = join.wait_limit;
  const int most_refusals = id.rank_0_opens || id.at_place ? kMaxRefusalsAtPlace : kMaxRefusals;
  int refusals = 0, without_socket = 0;
  uint64_t dial_ns = kFirstDialNs;
  std::string reasons;
  wait_limit.waits_for(place_of(join) + ": " +
                       (join.awaited.empty() ? "its server has not answered yet" : join.awaited));
  for (;;) {
    reasons.clear();
    size_t hopeless = 0, unopened = 0;
    bool is_turned_away = false;
    for (const Address& address : id.addresses) {
      Result<KeptFd> fd = meet_at(address, join, dial_ns);
      if (fd.ok()) return fd;
      if (wait_limit.cancelled() || wait_limit.has_lost_purpose()) return wait_limit.reason("");
      if (fd.status().code() == Code::kRemoteError) ++refusals;
      if (fd.status().code() == Code::kInvalidUsage) ++hopeless;
      if (fd.status().code() == Code::kUnsupported) ++unopened;
      // The listener is there: the process that serves it hangs up.
      const bool is_answered = fd.status().code() == Code::kSystemError;
      is_turned_away = is_turned_away || (join.listens_already && is_answered);
      reasons += "; " + address.text(id.port) + ": " + std::string(fd.status().message());
    }
    const std::string awaited = join.awaited.empty() ? "nobody answers" + doubts(id) : join.awaited;
    const std::string turned_away =
        "the rank that serves it is there, but cannot let this one in (it may have no descriptors "
        "left: ulimit -n)";
    wait_limit.waits_for(place_of(join) + ": " + (is_turned_away ? turned_away : awaited) +
                         reasons);
    without_socket = unopened == id.addresses.size() ? without_socket + 1 : 0;
    if (without_socket >= kMostWithoutSocket) {
      return Status::system_error("rank " + std::to_string(join.rank) +
                                  " cannot open a socket to go to the rendezvous" + reasons);
    }
    const bool late = wait_limit.over();
    const bool gone = hopeless == id.addresses.size();
    if (late || gone || refusals >= most_refusals) {
      const Code code = late && !gone ? Code::kTimeout : Code::kRemoteError;
      return Status(code, "rank " + std::to_string(join.rank) + " cannot reach the rendezvous" +
                              doubts(id) + reasons);
    }
    wait_limit.pause(kPauseNs);
    dial_ns = std::min(2 * dial_ns, kLongestDialNs);
  }
}

/// `after` is what the rank says behind its request.
Status send_request(int fd, const ExchangeKey& exchange_key, std::string_view blob,
                    const WaitLimit& wait_limit, std::string_view after = {}) {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t left_ns = std::max(wait_limit.deadline_ns(), now_ns) - now_ns;
  RequestHeader request{exchange_key, blob.size(), left_ns / kNanosecondsPerMillisecond};
  if (wait_limit.slow_ns() != kNoDeadline) {
    constexpr uint64_t kNoticesPerReport = 4;  // so that what is said is not old
    const uint64_t slow_ms = wait_limit.slow_ns() / kNanosecondsPerMillisecond;
    request.notice_ms = std::max(slow_ms / kNoticesPerReport, uint64_t{1});
  }
  const auto header = encode_request(request);
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  bytes += blob;
  bytes += after;
  return send_all(fd, bytes.data(), bytes.size(), wait_limit);
}

/// The server tells the others, and says by its answer that it has.
void say_aborted(int fd) {
  (void)send_all(fd, &kAborted, sizeof kAborted, monotonic_ns() + kFarewellNs);
  (void)wait_ready(fd, POLLIN, monotonic_ns() + kFarewellNs);
}

void decline(const JoinOptions& join, const ExchangeKey& exchange_key) {
  JoinOptions last = join;
  last.wait_limit = monotonic_ns() + join.farewell_ns;
  const Result<KeptFd> fd = meet(last);
  if (!fd.ok()) return;
  const char farewell = static_cast<char>(join.twin ? kTwin : kAborted);
  if (!send_request(fd.value().get(), exchange_key, "", last.wait_limit, {&farewell, 1}).ok())
    return;
  (void)wait_ready(fd.value().get(), POLLIN, last.wait_limit);  // it has been heard
}

/// Waits until there is something to read. Meanwhile this rank looks whether the others can come.
Status await_answer(int fd, const JoinOptions& join) {
  const WaitLimit& wait_limit = join.wait_limit;
  while (!wait_ready(fd, POLLIN, wait_limit.at_most(join.look_ns))) {
    if (wait_limit.cancelled()) say_aborted(fd);
    if (wait_limit.over()) return wait_limit.reason("the rendezvous did not answer in time");
    join.look();
  }
  return {};
}

/// Whether the other end has closed or broken the connection, and everything that it had sent is
/// read.
bool has_hung_up(int fd) {
  char byte = 0;
  const ssize_t count = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

/// The bytes of the answer: all ranks' blobs.
Result<std::string> receive_answer(int fd, const ExchangeKey& exchange_key,
                                   const WaitLimit& wait_limit) {
  std::array<uint8_t, kAnswerBytes> header{};
  if (Status status = receive_exactly(fd, header.data(), header.size(), wait_limit); !status.ok()) {
    return status;
  }
  const AnswerHeader answer = decode_answer(header.data());
  const bool good = answer.code == Code::kOk;
  const uint64_t most_good =
      static_cast<uint64_t>(exchange_key.ranks) * (exchange_key.most_bytes() + sizeof(uint32_t));
  const uint64_t most = good ? most_good : kMaxMessageBytes;
  if (answer.bytes > most) {
    return Status::remote_error("the rendezvous answered with too many bytes");
  }
  std::string body(answer.bytes, '\0');
  if (Status status = receive_exactly(fd, body.data(), body.size(), wait_limit); !status.ok()) {
    return status;
  }
  if (good) return body;
  const bool known = answer.code > Code::kOk && answer.code <= Code::kInProgress;
  return Status(known ? answer.code : Code::kRemoteError, body);
}

/// The good answer that the server gave before it heard of the abort: nobody knows of that yet, and
/// where this rank is waited for next it says so.
std::optional<std::string> crossed_answer(int fd, const ExchangeKey& exchange_key) {
  const WaitLimit wait_limit(monotonic_ns() + kFarewellNs);
  for (;;) {
    Result<std::string> answer = receive_answer(fd, exchange_key, wait_limit);
    if (answer.ok()) return std::move(answer).value();
    if (answer.status().code() != Code::kInProgress) return {};
  }
}

/// Reads the answer; those before the last one are notices of missing ranks. Returns none if the
/// server held another meeting, and has hung up.
Result<std::optional<std::string>> receive_last_answer(int fd, const ExchangeKey& exchange_key,
                                                       const JoinOptions& join) {
  const std::string prefix = place_of(join) + ": ";
  join.wait_limit.waits_for(prefix + "the others have not come yet");
  for (;;) {
    if (Status status = await_answer(fd, join); !status.ok()) {
      if (!join.wait_limit.cancelled()) return status;
      if (std::optional<std::string> crossed = crossed_answer(fd, exchange_key)) return crossed;
      return status;
    }
    if (join.listens_already && has_hung_up(fd)) return std::optional<std::string>();
    Result<std::string> answer =
        receive_answer(fd, exchange_key, join.wait_limit.without_purpose());
    if (answer.ok()) return std::optional(std::move(answer).value());
    if (answer.status().code() != Code::kInProgress) return answer.status();
    join.wait_limit.waits_for(prefix + std::string(answer.status().message()));
  }
}

Status explain(const Status& reason, int rank, const UniqueId& id) {
  return Status(reason.code(), "rank " + std::to_string(rank) + " at the rendezvous " + places(id) +
                                   ": " + std::string(reason.message()));
}

/// Bytes of the answer; none if the server was there for another meeting.
Result<std::optional<std::string>> ask(const JoinOptions& join, const ExchangeKey& exchange_key,
                                       std::string_view blob) {
  const WaitLimit& wait_limit = join.wait_limit;
  const Result<KeptFd> fd = meet(join);
  if (!fd.ok()) {
    if (wait_limit.cancelled()) decline(join, exchange_key);
    return fd.status();
  }
  const int socket = fd.value().get();
  if (Status status = send_request(socket, exchange_key, blob, wait_limit); !status.ok()) {
    if (wait_limit.cancelled()) decline(join, exchange_key);
    return explain(status, join.rank, join.id);
  }
  auto bytes = receive_last_answer(socket, exchange_key, join);
  if (!bytes.ok()) return explain(bytes.status(), join.rank, join.id);
  return bytes;
}

Result<std::vector<std::string>> run_exchange(const JoinOptions& join,
                                              const ExchangeKey& exchange_key,
                                              std::string_view blob) {
  for (;;) {
    const Result<std::optional<std::string>> bytes = ask(join, exchange_key, blob);
    if (!bytes.ok()) return bytes.status();
    if (!bytes.value()) {
      join.wait_limit.pause(kPauseNs);
      continue;
    }
    auto blobs = decode_blobs(*bytes.value(), exchange_key.ranks, exchange_key.most_bytes());
    if (!blobs.ok()) return explain(blobs.status(), join.rank, join.id);
    return blobs;
  }
}

/// The parts are merged at the first one's server, where the others wait for this one.
void decline_merge(std::span<const UniqueId> ids, int index) {
  const auto parts = static_cast<int>(ids.size());
  if (index != 0) decline(JoinOptions{ids[0], index, parts, {0}}, {parts, 0, 1, 3});
}

void decline_last_stage(std::span<const UniqueId> ids, const RanksOfId& part, int ranks,
                        uint64_t farewell_ns) {
  JoinOptions join{ids[static_cast<size_t>(part.index)], part.first, ranks, {0}};
  join.farewell_ns = farewell_ns;
  const int stages = part.index == 0 ? 3 : 2;
  decline(join, {part.ranks, part.first, stages - 1, stages});
}

/// Tells the parts, which wait for what their first ranks bring: first this rank's own part, then
/// those where the first rank may be what failed, as many as can be told in a second.
void decline_last_stages(std::span<const UniqueId> ids, int own, int ranks) {
  const auto parts = static_cast<int>(ids.size());
  decline_last_stage(ids, part_at(own, ranks, parts), ranks, kNanosecondsPerSecond);
  const uint64_t end_ns = monotonic_ns() + kNanosecondsPerSecond;
  for (int i = 1; i < parts && monotonic_ns() < end_ns; ++i) {
    decline_last_stage(ids, part_at((own + i) % parts, ranks, parts), ranks,
                       end_ns - std::min(end_ns, monotonic_ns()));
  }
}

/// The blobs of all ranks in one string, at the first rank of a part.
Result<std::string> merge(std::span<const UniqueId> ids, int index,
                          const std::vector<std::string>& part, const WaitLimit& wait_limit) {
  const ExchangeKey exchange_key{static_cast<int>(ids.size()), 0, 1, 3};
  const Result<std::vector<std::string>> parts = run_exchange(
      {ids[0], index, exchange_key.ranks, wait_limit}, exchange_key, encode_blobs(part));
  if (!parts.ok()) {
    return Status(parts.status().code(), "merging the parts of " + std::to_string(ids.size()) +
                                             " unique ids (a rank is a part here): " +
                                             std::string(parts.status().message()));
  }
  std::string all;
  for (const std::string& bytes : parts.value()) all += bytes;
  return all;
}

}  // namespace

Result<std::vector<std::string>> exchange(const UniqueId& id, int rank, int ranks,
                                          std::string_view blob, const WaitLimit& wait_limit) {
  return exchange(JoinOptions{id, rank, ranks, wait_limit}, blob);
}

Result<std::vector<std::string>> exchange(const JoinOptions& join, std::string_view blob) {
  const int ranks = join.ranks;
  if (Status status = check_arguments(join.rank, ranks, blob); !status.ok()) return status;
  return run_exchange(join, {ranks, 0, 0, 1, join.members, join.meeting_number}, blob);
}

void decline(const JoinOptions& join) {
  decline(join, {join.ranks, 0, 0, 1, join.members, join.meeting_number});
}

void decline(std::span<const UniqueId> ids, int rank, int ranks) {
  if (ids.size() == 1) return decline(JoinOptions{ids[0], rank, ranks, {0}});
  const RanksOfId part = part_of(rank, ranks, static_cast<int>(ids.size()));
  const JoinOptions join{ids[static_cast<size_t>(part.index)], rank, ranks, {0}};
  decline(join, {part.ranks, part.first, 0, part.index == 0 ? 3 : 2});
  decline_merge(ids, part.index);
}

RanksOfId part_at(int index, int ranks, int parts) {
  const int least = ranks / parts, longer = ranks % parts;
  return {index, index * least + std::min(index, longer), least + (index < longer ? 1 : 0)};
}

RanksOfId part_of(int rank, int ranks, int parts) {
  const int least = ranks / parts, longer = ranks % parts;
  const int in_longer = longer * (least + 1);
  const bool is_longer = rank < in_longer;
  return part_at(is_longer ? rank / (least + 1) : longer + (rank - in_longer) / least, ranks,
                 parts);
}

Result<std::vector<std::string>> exchange(std::span<const UniqueId> ids, int rank, int ranks,
                                          std::string_view blob, const WaitLimit& wait_limit) {
  if (Status status = check_arguments(rank, ranks, blob); !status.ok()) return status;
  if (ids.empty() || ids.size() > static_cast<size_t>(ranks)) {
    return Status::invalid_argument(std::to_string(ids.size()) + " unique ids for " +
                                    std::to_string(ranks) +
                                    " ranks: at least one, at most one each");
  }
  if (ids.size() == 1) return exchange(ids[0], rank, ranks, blob, wait_limit);
  const RanksOfId part = part_of(rank, ranks, static_cast<int>(ids.size()));
  const JoinOptions join{ids[static_cast<size_t>(part.index)], rank, ranks, wait_limit};
  const int stages = part.index == 0 ? 3 : 2;  // the first is where the parts are merged, too
  const Result<std::vector<std::string>> own =
      run_exchange(join, {part.ranks, part.first, 0, stages}, blob);
  if (!own.ok()) {
    decline_merge(ids, part.index);  // each rank of the part does: the first may have failed
    return own;
  }
  std::string all;
  if (rank == part.first) {
    Result<std::string> merged = merge(ids, part.index, own.value(), wait_limit);
    if (!merged.ok()) {
      decline_last_stages(ids, part.index, ranks);
      return merged.status();
    }
    all = std::move(merged).value();
  }
  const Result<std::vector<std::string>> brought =
      run_exchange(join, {part.ranks, part.first, stages - 1, stages}, all);
  if (!brought.ok()) return brought;
  return decode_blobs(brought.value()[0], ranks);
}

}  // namespace tutti::bootstrap
