#include "src/bootstrap/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/session.h"
#include "src/transport/handshake.h"

namespace tutti::bootstrap {
namespace {

constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;
// An address that does not answer (a firewall, another network) must not keep us from the next one.
constexpr uint64_t kFirstDialNs = 500 * kNanosecondsPerMillisecond;
constexpr uint64_t kLongestDialNs = 8 * kNanosecondsPerSecond;
constexpr int kPauseMs = 20;
// Whoever refuses the handshake this often means it, or is not our server.
constexpr int kMaxRefusals = 3;
// Where groups meet one after the other, an earlier one may not have left yet.
constexpr int kMaxRefusalsAtPlace = 250;

transport::Identity rank_identity(const UniqueId& id, int rank) {
  transport::Identity self;
  self.rank = rank;
  self.communicator = id.communicator();
  self.purpose = transport::Purpose::kRendezvous;
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
/// handshake is busy; one that cannot be dialled is not there (yet, or any more).
Result<Fd> meet_at(const Address& address, const Visit& visit, uint64_t dial_deadline_ns) {
  const UniqueId& id = visit.id;
  Result<Fd> fd = dial(address, id.port, dial_deadline_ns);
  if (!fd.ok()) {
    if (!visit.listens_already || fd.status().code() != Code::kSystemError) return fd;
    return Status::invalid_usage("nobody listens at " + address.text(id.port) + " any more (" +
                                 std::string(fd.status().message()) + ")");
  }
  const Status status = transport::handshake_connect(
      fd.value().get(), id.key, rank_identity(id, visit.rank), visit.deadline_ns);
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

/// Tries all addresses in turn until one answers: the server may not be there yet.
Result<Fd> meet(const Visit& visit) {
  const auto& [id, rank, ranks, deadline_ns, listens_already] = visit;
  const int most_refusals = id.rank_0_opens ? kMaxRefusalsAtPlace : kMaxRefusals;
  int refusals = 0;
  uint64_t dial_ns = kFirstDialNs;
  std::string reasons;
  for (;;) {
    reasons.clear();
    for (const Address& address : id.addresses) {
      const uint64_t dial_deadline_ns = std::min(deadline_ns, monotonic_ns() + dial_ns);
      Result<Fd> fd = meet_at(address, visit, dial_deadline_ns);
      if (fd.ok()) return fd;
      if (fd.status().code() == Code::kRemoteError) ++refusals;
      if (fd.status().code() == Code::kInvalidUsage) {
        return Status::remote_error(std::string(fd.status().message()));
      }
      reasons += "; " + address.text(id.port) + ": " + std::string(fd.status().message());
    }
    const bool late = monotonic_ns() >= deadline_ns;
    if (late || refusals >= most_refusals) {
      const Code code = late ? Code::kTimeout : Code::kRemoteError;
      return Status(code, "rank " + std::to_string(rank) +
                              " cannot reach the rendezvous (the process that made the unique id; "
                              "does it still run? may this host connect to it?)" +
                              reasons);
    }
    poll(nullptr, 0, kPauseMs);
    dial_ns = std::min(2 * dial_ns, kLongestDialNs);
  }
}

Status send_request(int fd, const Turn& turn, std::string_view blob, uint64_t deadline_ns) {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  const Request request{turn, blob.size(), left_ns / kNanosecondsPerMillisecond};
  const auto header = encode_request(request);
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  bytes += blob;
  return send_all(fd, bytes.data(), bytes.size(), deadline_ns);
}

/// Bytes of the answer: everybody's blobs.
Result<std::string> receive_answer(int fd, const Turn& turn, uint64_t deadline_ns) {
  constexpr uint64_t kMaxMessageBytes = 4096;
  std::array<uint8_t, kAnswerBytes> header{};
  if (Status status = receive_exactly(fd, header.data(), header.size(), deadline_ns);
      !status.ok()) {
    return status;
  }
  const Answer answer = decode_answer(header.data());
  const bool good = answer.code == Code::kOk;
  const uint64_t most_good =
      static_cast<uint64_t>(turn.ranks) * (turn.most_bytes() + sizeof(uint32_t));
  const uint64_t most = good ? most_good : kMaxMessageBytes;
  if (answer.bytes > most) {
    return Status::remote_error("the rendezvous answered with too many bytes");
  }
  std::string body(answer.bytes, '\0');
  if (Status status = receive_exactly(fd, body.data(), body.size(), deadline_ns); !status.ok()) {
    return status;
  }
  if (good) return body;
  const bool known = answer.code > Code::kOk && answer.code < Code::kInProgress;
  return Status(known ? answer.code : Code::kRemoteError, body);
}

Status explain(const Status& reason, int rank, const UniqueId& id) {
  return Status(reason.code(), "rank " + std::to_string(rank) + " at the rendezvous " + places(id) +
                                   ": " + std::string(reason.message()));
}

Result<std::vector<std::string>> take_turn(const Visit& visit, const Turn& turn,
                                           std::string_view blob) {
  const auto& [id, rank, ranks, deadline_ns, listens_already] = visit;
  const Result<Fd> fd = meet(visit);
  if (!fd.ok()) return fd.status();
  const int socket = fd.value().get();
  if (Status status = send_request(socket, turn, blob, deadline_ns); !status.ok()) {
    return explain(status, rank, id);
  }
  const Result<std::string> bytes = receive_answer(socket, turn, deadline_ns);
  if (!bytes.ok()) return explain(bytes.status(), rank, id);
  Result<std::vector<std::string>> blobs =
      decode_blobs(bytes.value(), turn.ranks, turn.most_bytes());
  if (!blobs.ok()) return explain(blobs.status(), rank, id);
  return blobs;
}

/// Everybody's blobs in one string, at the first rank of a part.
Result<std::string> merge(std::span<const UniqueId> ids, int index,
                          const std::vector<std::string>& part, uint64_t deadline_ns) {
  const Turn turn{static_cast<int>(ids.size()), 0, 1, 3};
  const Result<std::vector<std::string>> parts =
      take_turn({ids[0], index, turn.ranks, deadline_ns}, turn, encode_blobs(part));
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
                                          std::string_view blob, uint64_t deadline_ns) {
  return exchange(Visit{id, rank, ranks, deadline_ns}, blob);
}

Result<std::vector<std::string>> exchange(const Visit& visit, std::string_view blob) {
  const int ranks = visit.ranks;
  if (Status status = check_arguments(visit.rank, ranks, blob); !status.ok()) return status;
  return take_turn(visit, {ranks, 0, 0, 1}, blob);
}

Part part_of(int rank, int ranks, int parts) {
  const int least = ranks / parts, longer = ranks % parts;
  const int in_longer = longer * (least + 1);
  if (rank < in_longer) {
    const int index = rank / (least + 1);
    return {index, index * (least + 1), least + 1};
  }
  const int index = longer + (rank - in_longer) / least;
  return {index, in_longer + (index - longer) * least, least};
}

Result<std::vector<std::string>> exchange(std::span<const UniqueId> ids, int rank, int ranks,
                                          std::string_view blob, uint64_t deadline_ns) {
  if (Status status = check_arguments(rank, ranks, blob); !status.ok()) return status;
  if (ids.empty() || ids.size() > static_cast<size_t>(ranks)) {
    return Status::invalid_argument(std::to_string(ids.size()) + " unique ids for " +
                                    std::to_string(ranks) +
                                    " ranks: at least one, at most one each");
  }
  if (ids.size() == 1) return exchange(ids[0], rank, ranks, blob, deadline_ns);
  const Part part = part_of(rank, ranks, static_cast<int>(ids.size()));
  const Visit visit{ids[static_cast<size_t>(part.index)], rank, ranks, deadline_ns};
  const int stages = part.index == 0 ? 3 : 2;  // the first is where the parts are merged, too
  const Result<std::vector<std::string>> own =
      take_turn(visit, {part.ranks, part.first, 0, stages}, blob);
  if (!own.ok()) return own;
  std::string all;
  if (rank == part.first) {
    Result<std::string> merged = merge(ids, part.index, own.value(), deadline_ns);
    if (!merged.ok()) return merged.status();
    all = std::move(merged).value();
  }
  const Result<std::vector<std::string>> brought =
      take_turn(visit, {part.ranks, part.first, stages - 1, stages}, all);
  if (!brought.ok()) return brought;
  return decode_blobs(brought.value()[0], ranks);
}

}  // namespace tutti::bootstrap
