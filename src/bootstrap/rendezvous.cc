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

/// One attempt to find the server at one address.
Result<Fd> meet_at(const Address& address, const UniqueId& id, int rank, uint64_t dial_deadline_ns,
                   uint64_t deadline_ns) {
  Result<Fd> fd = dial(address, id.port, dial_deadline_ns);
  if (!fd.ok()) return fd;
  const Status status =
      transport::handshake_connect(fd.value().get(), id.key, rank_identity(id, rank), deadline_ns);
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
  int refusals = 0;
  uint64_t dial_ns = kFirstDialNs;
  std::string reasons;
  for (;;) {
    reasons.clear();
    for (const Address& address : id.addresses) {
      const uint64_t dial_deadline_ns = std::min(deadline_ns, monotonic_ns() + dial_ns);
      Result<Fd> fd = meet_at(address, id, rank, dial_deadline_ns, deadline_ns);
      if (fd.ok()) return fd;
      if (fd.status().code() == Code::kRemoteError) ++refusals;
      if (listens_already && fd.status().code() == Code::kSystemError) {
        return Status::remote_error("nobody listens at " + address.text(id.port) + " any more (" +
                                    std::string(fd.status().message()) + ")");
      }
      reasons += "; " + address.text(id.port) + ": " + std::string(fd.status().message());
    }
    const bool late = monotonic_ns() >= deadline_ns;
    if (late || refusals >= kMaxRefusals) {
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

Status send_request(int fd, int ranks, std::string_view blob, uint64_t deadline_ns) {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  const Request request{ranks, blob.size(), left_ns / kNanosecondsPerMillisecond};
  const auto header = encode_request(request);
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  bytes += blob;
  return send_all(fd, bytes.data(), bytes.size(), deadline_ns);
}

Result<std::vector<std::string>> receive_answer(int fd, int ranks, uint64_t deadline_ns) {
  constexpr uint64_t kMaxMessageBytes = 4096;
  std::array<uint8_t, kAnswerBytes> header{};
  if (Status status = receive_exactly(fd, header.data(), header.size(), deadline_ns);
      !status.ok()) {
    return status;
  }
  const Answer answer = decode_answer(header.data());
  const bool good = answer.code == Code::kOk;
  const uint64_t most =
      good ? static_cast<uint64_t>(ranks) * (kMaxBlobBytes + sizeof(uint32_t)) : kMaxMessageBytes;
  if (answer.bytes > most) {
    return Status::remote_error("the rendezvous answered with too many bytes");
  }
  std::string body(answer.bytes, '\0');
  if (Status status = receive_exactly(fd, body.data(), body.size(), deadline_ns); !status.ok()) {
    return status;
  }
  if (good) return decode_blobs(body, ranks);
  const bool known = answer.code > Code::kOk && answer.code < Code::kInProgress;
  return Status(known ? answer.code : Code::kRemoteError, body);
}

Status explain(const Status& reason, int rank, const UniqueId& id) {
  return Status(reason.code(), "rank " + std::to_string(rank) + " at the rendezvous " + places(id) +
                                   ": " + std::string(reason.message()));
}

}  // namespace

Result<std::vector<std::string>> exchange(const UniqueId& id, int rank, int ranks,
                                          std::string_view blob, uint64_t deadline_ns) {
  return exchange(Visit{id, rank, ranks, deadline_ns}, blob);
}

Result<std::vector<std::string>> exchange(const Visit& visit, std::string_view blob) {
  const auto& [id, rank, ranks, deadline_ns, listens_already] = visit;
  if (Status status = check_arguments(rank, ranks, blob); !status.ok()) return status;
  const Result<Fd> fd = meet(visit);
  if (!fd.ok()) return fd.status();
  const int socket = fd.value().get();
  if (Status status = send_request(socket, ranks, blob, deadline_ns); !status.ok()) {
    return explain(status, rank, id);
  }
  Result<std::vector<std::string>> blobs = receive_answer(socket, ranks, deadline_ns);
  if (!blobs.ok()) return explain(blobs.status(), rank, id);
  return blobs;
}

}  // namespace tutti::bootstrap
