// Targets for what peers send.
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "src/base/io.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/session.h"
#include "src/comm/card.h"
#include "src/registry/transports.h"
#include "src/transport/arena.h"
#include "src/transport/door/handshake.h"
#include "src/transport/stream/exchange.h"
#include "src/transport/stream/frame.h"
#include "tests/fuzz/targets.h"
#include "transports/shm/card.h"

namespace tutti::fuzz {
namespace {

namespace stream = transport::stream;

constexpr uint64_t kCommunicator = 77;
constexpr size_t kTargetBytes = 3000;

std::string to_string(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string frame(const stream::FrameHeader& header) {
  std::vector<std::byte> bytes(stream::kHeaderBytes + header.length);
  stream::encode(header, bytes.data());
  return to_string(bytes);
}

stream::FrameHeader data(uint32_t lane, uint32_t length, uint64_t message_bytes,
                         uint64_t position) {
  stream::FrameHeader header;
  header.channel = {1, 1, lane};
  header.signature = 3;
  header.length = length;
  header.message_bytes = message_bytes;
  header.position = position;
  return header;
}

stream::FrameHeader control(stream::FrameType type, uint64_t position) {
  stream::FrameHeader header = data(0, 0, 0, position);
  header.type = type;
  return header;
}

/// Two ends of a connection, or of one that has ended after these bytes.
struct Wire {
  Fd ours;
  Fd theirs;

  explicit Wire(Bytes sent) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair");
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
    const ssize_t count = send(theirs.get(), sent.data(), sent.size(), MSG_NOSIGNAL);
    require(count == static_cast<ssize_t>(sent.size()), "bytes that fit");
    shutdown(theirs.get(), SHUT_WR);
  }
};

transport::JobKey secret() {
  transport::JobKey key{};
  key.fill(9);
  return key;
}

transport::door::Identity identity(int32_t rank, int32_t peer) {
  transport::door::Identity who;
  who.rank = rank;
  who.peer = peer;
  who.communicator = kCommunicator;
  who.epoch = 1;
  who.purpose = transport::door::purpose_of("tcp");
  return who;
}

/// Everything that each side of a real handshake has sent.
struct Transcript {
  std::string caller;
  std::string acceptor;
};

std::string take(int socket, size_t bytes) {
  std::string taken(bytes, '\0');
  require(recv(socket, taken.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes),
          "the other side's bytes");
  return taken;
}

void give(int socket, const std::string& bytes) {
  require(
      send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
      "bytes that fit");
}

/// Hello and proof of a caller that holds the key, as an eavesdropper would have them. The caller
/// blocks, so it is a process of its own.
Transcript record() {
  int caller[2], acceptor[2];
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, caller) == 0, "a socket pair");
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, acceptor) == 0, "a socket pair");
  const pid_t child = fork();
  require(child >= 0, "a process");
  constexpr uint64_t kNever = ~uint64_t{0};
  if (child == 0) {
    (void)transport::door::handshake_connect(caller[1], secret(), identity(1, 0), kNever);
    _exit(0);
  }
  const transport::JobKey key = secret();
  transport::door::Greeting greeting(acceptor[1], transport::door::one_lock(key, identity(0, -1)));
  Transcript transcript;
  for (const size_t bytes : {transport::door::kHelloBytes, transport::door::kProofBytes}) {
    const std::string said = take(caller[0], bytes);
    transcript.caller += said;
    give(acceptor[0], said);
    require(greeting.advance().ok(), "a caller with the key goes on");
    const std::string answer = take(acceptor[0], bytes);
    transcript.acceptor += answer;
    give(caller[0], answer);
  }
  for (const int fd : {caller[0], caller[1], acceptor[0], acceptor[1]}) close(fd);
  return transcript;
}

/// The transports as a rank has them, for their readers of cards.
class Hosts {
 public:
  Hosts() {
    Result<transport::Arena> arena = transport::Arena::create("tutti-fuzz", 4096);
    require(arena.ok(), "an arena");
    arena_ = std::move(arena).value();
    member_.ranks = 2;
    member_.host_id = "host";
    member_.arena = &arena_;
    member_.bind_address = "127.0.0.1";
    for (const transport::Factory& factory : registry::transports()) {
      auto made = factory.make(member_);
      require(made.ok(), "a transport");
      transports_.push_back(std::move(made).value());
    }
  }
  const auto& transports() const { return transports_; }

 private:
  transport::Arena arena_;
  transport::Member member_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
};

const Hosts& hosts() {
  static const Hosts hosts;
  return hosts;
}

}  // namespace

bool run_frame(Bytes input) {
  if (input.size() < stream::kHeaderBytes) return false;
  stream::FrameHeader header;
  const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
  if (stream::decode(bytes, header) != nullptr) return false;
  std::array<std::byte, stream::kHeaderBytes> again{};
  stream::encode(header, again.data());
  require(std::memcmp(again.data(), bytes, again.size()) == 0, "a header is what was sent");
  return true;
}

std::vector<std::string> corpus_frame() {
  std::vector<std::string> frames = {
      frame(data(0, 0, 0, 0)), frame(control(stream::FrameType::kCredit, 1 << 20)),
      frame(control(stream::FrameType::kMismatch, 8)), frame(control(stream::FrameType::kNote, 8))};
  frames.push_back(frame(data(1, stream::kMaxFrameBytes, stream::kMaxFrameBytes, 0)));
  frames.back().resize(stream::kHeaderBytes);
  return frames;
}

/// A rank that waits for two messages, and a peer that holds the key and sends anything.
bool run_stream(Bytes input) {
  std::vector<std::byte> target(kTargetBytes);
  const transport::Buffer piece{target.data(), target.size()};
  const auto exchange = std::make_unique<stream::ByteExchange>(0, 1);
  for (const uint32_t lane : {0u, 1u}) exchange->receive({1, 1, lane}, 3, {&piece, 1});
  while (!input.empty() && !exchange->faulty()) {
    std::array<iovec, stream::BytesIn::kMaxEntries> entries;
    const size_t used = exchange->prepare(entries);
    require(used > 0, "there is always somewhere to read to");
    size_t read = 0;
    for (size_t i = 0; i < used && !input.empty(); ++i) {
      const size_t here = std::min(input.size(), entries[i].iov_len);
      std::memcpy(entries[i].iov_base, input.data(), here);
      input = input.subspan(here);
      read += here;
    }
    exchange->commit(read);
  }
  if (!exchange->faulty()) return true;
  require(exchange->fault_status().message().find("rank 1") != std::string_view::npos,
          "a fault names the peer");
  return false;
}

std::vector<std::string> corpus_stream() {
  const std::string whole = frame(data(0, kTargetBytes, kTargetBytes, 0));
  const std::string halves = frame(data(1, 1000, kTargetBytes, 0)) +
                             frame(data(1, 2000, kTargetBytes, 1000 + stream::kRecordBytes));
  const std::string early = frame(data(2, 500, 500, 0)) + frame(data(2, 0, 0, 516));
  const std::string credit = frame(control(stream::FrameType::kCredit, stream::kEagerBytes + 1));
  const std::string mismatch = frame(control(stream::FrameType::kMismatch, 8));
  return {whole, halves, early, credit, whole + credit + halves, early + credit, whole + mismatch};
}

/// Both sides of the handshake against whoever knows everything but the key, a recorded handshake
/// included.
bool run_handshake(Bytes input) {
  const transport::JobKey key = secret();
  Wire calling(input);
  transport::door::Greeting greeting(calling.ours.get(),
                                     transport::door::one_lock(key, identity(0, -1)));
  const Result<bool> admitted = greeting.advance();
  require(!admitted.ok() || !admitted.value(), "nobody comes in without the key");
  require(greeting.rank() < 0, "nobody comes in without the key");
  Wire answering(input);
  const Status met =
      transport::door::handshake_connect(answering.ours.get(), key, identity(1, 0), 0);
  require(!met.ok(), "nobody answers for a rank without the key");
  return admitted.status().message().find("key") != std::string_view::npos;  // the last check
}

std::vector<std::string> corpus_handshake() {
  const Transcript transcript = record();
  return {transcript.caller, transcript.acceptor,
          transcript.caller.substr(0, transport::door::kHelloBytes), ""};
}

/// A member with the key may send these bytes at the rendezvous, on either side.
bool run_rendezvous(Bytes input) {
  Wire wire(input);
  bootstrap::Session session(KeptFd(std::move(wire.ours)), 0);
  session.hear();
  bool accepted = session.asks();
  if (accepted) {
    bootstrap::Group group;
    const bootstrap::RequestHeader request = session.request();
    if (group.join(0, request.exchange_key, session.take_blob()).ok()) {
      require(request.exchange_key.ranks >= 1, "a group has ranks");
      if (request.exchange_key.ranks < 100)
        require(!group.missing().empty(), "there is always a sentence");
    }
  }
  for (const int ranks : {1, 3}) {
    const auto blobs = bootstrap::decode_blobs(as_text(input), ranks);
    if (!blobs.ok()) continue;
    accepted = true;
    size_t bytes = 0;
    for (const std::string& blob : blobs.value()) bytes += 4 + blob.size();
    require(bytes == input.size(), "blobs are what was sent");
  }
  return accepted;
}

std::vector<std::string> corpus_rendezvous() {
  bootstrap::Group group;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string blob(static_cast<size_t>(rank) * 50, 'x');
    require(group.join(rank, {3, 0, 0, 1}, blob).ok(), "a join");
  }
  const auto header = bootstrap::encode_request({{3, 0, 0, 1}, 5, 60'000});
  const std::string request(reinterpret_cast<const char*>(header.data()), header.size());
  const std::string blobs = group.encode();
  return {request + "hello", blobs, *bootstrap::encode_answer(Code::kOk, blobs)};
}

bool run_card(Bytes input) {
  const std::string_view text = as_text(input);
  bool accepted = false;
  if (const auto texts = comm::read_texts(text); texts.ok()) {
    accepted = true;
    require(comm::write_texts(texts.value()) == text, "a card is what was written");
  }
  if (const auto card = transports::shm::ShmCard::read(text)) {
    accepted = true;
    require(transports::shm::ShmCard::read(card->write()).has_value(), "a card is read again");
  }
  for (const auto& transport : hosts().transports()) {
    accepted = transport->reaches(text) || accepted;
  }
  return accepted;
}

std::vector<std::string> corpus_card() {
  std::vector<std::string> cards;
  for (const auto& transport : hosts().transports()) cards.push_back(transport->card());
  cards.push_back(comm::write_texts(cards));
  return cards;
}

}  // namespace tutti::fuzz
