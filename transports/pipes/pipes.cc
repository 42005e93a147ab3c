// Messages over a pair of pipes between two processes of one host: each frame is a packet.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/write_signals.h"
#include "src/transport/door/call.h"
#include "src/transport/door/gate.h"
#include "src/transport/stream/message_link.h"
#include "transports/shm/card.h"
#include "transports/shm/local_socket.h"

namespace tutti::transports::pipes {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::MessageLink;

class PacketPipe final : public transport::stream::MessagePipe {
 public:
  PacketPipe(Fd in, Fd out) : in_(std::move(in)), out_(std::move(out)) {
    fcntl(in_.get(), F_SETFL, O_NONBLOCK);
    fcntl(out_.get(), F_SETFL, O_NONBLOCK | O_DIRECT);
    fcntl(out_.get(), F_SETPIPE_SZ, 1 << 20);  // a page for each frame
  }

  uint64_t payload_limit() const override {
    return PIPE_BUF - transport::stream::kSequencedHeaderBytes;
  }
  bool send(const CarriedFrame& frame) override {
    std::array<iovec, transport::stream::MessageExchange::kMaxPieces + 1> parts;
    parts[0] = {const_cast<std::byte*>(frame.header.data()), frame.header.size()};
    std::copy(frame.payload.begin(), frame.payload.end(), parts.begin() + 1);
    const NoWriteSignals quiet;
    const ssize_t count =
        writev(out_.get(), parts.data(), static_cast<int>(frame.payload.size() + 1));
    if (count < 0) return false;  // poll() finds out if the peer has gone
    carried_.push_back(frame.name);
    return true;
  }
  Status poll(transport::stream::PipeEvents& events) override {
    for (const uint64_t name : std::exchange(carried_, {})) events.carried(name);
    constexpr size_t kHeader = transport::stream::kSequencedHeaderBytes;
    std::array<std::byte, PIPE_BUF> packet;
    for (int turn = 0; turn < 256; ++turn) {
      const ssize_t count = read(in_.get(), packet.data(), packet.size());
      if (count < 0) return errno == EAGAIN ? Status() : Status::remote_error(errno_text(errno));
      if (count == 0) return Status::remote_error("its end of the pipe was closed");
      const std::span<const std::byte> bytes(packet.data(), static_cast<size_t>(count));
      const size_t header = std::min(kHeader, bytes.size());
      events.came(bytes.first(header), bytes.subspan(header));
    }
    return {};
  }
  void end() override { out_.reset(); }
  bool has_delivered() const override { return true; }  // a pipe keeps what its writer leaves
  int descriptor() const override { return in_.get(); }

 private:
  Fd in_, out_;
  std::vector<uint64_t> carried_;
};

transport::door::Identity identity(const transport::Member& member, int peer) {
  transport::door::Identity self;
  self.rank = member.rank;
  self.peer = peer;
  self.communicator = member.communicator;
  self.epoch = member.epoch;
  self.purpose = transport::door::Purpose::kPipes;
  return self;
}

class Pipes final : public transport::Transport {
 public:
  using Made = Result<std::unique_ptr<transport::Link>>;

  Pipes(const transport::Member& member, shm::ShmCard card, KeptFd listener)
      : member_(member),
        card_(std::move(card)),
        gate_(std::move(listener), member.key, identity(member, -1), shm::check_user) {}

  std::string_view name() const override { return "pipes"; }
  std::string card() const override { return card_.write(); }
  bool reaches(std::string_view peer_card) const override {
    const auto peer = shm::ShmCard::read(peer_card);
    return peer && card_.shares_with(*peer);
  }
  std::string_view level() const override { return "pipes"; }
  size_t descriptors_per_link() const override { return 3; }

  Made connect(int peer, std::string_view peer_card, const Patience& patience) override {
    const auto card = shm::ShmCard::read(peer_card);
    if (!card || !card_.shares_with(*card) || peer < 0 || peer == member_.rank) {
      return Status::invalid_argument("rank " + std::to_string(peer) + " has no pipes here");
    }
    Made made = member_.rank < peer ? call(peer, *card, patience) : await(peer, patience);
    if (made.ok()) return made;
    return Status(made.status().code(), "rank " + std::to_string(member_.rank) +
                                            " has no pipes with rank " + std::to_string(peer) +
                                            ": " + std::string(made.status().message()));
  }

 private:
  Made make_link(int peer, Fd in, Fd out) const {
    return std::unique_ptr<transport::Link>(std::make_unique<MessageLink>(
        member_.rank, peer, "a pair of pipes",
        std::make_unique<PacketPipe>(std::move(in), std::move(out))));
  }
  Made call(int peer, const shm::ShmCard& card, const Patience& patience) const {
    const auto dial = [&] { return shm::dial_locally(card.socket, patience); };
    auto fd = transport::door::pass_gate(dial, member_.key, identity(member_, peer), patience);
    if (!fd.ok()) return fd.status();
    int there[2], back[2];
    if (pipe2(there, O_CLOEXEC | O_DIRECT) < 0) return errno_status("pipe2");
    Fd there_in(there[0]), there_out(there[1]);
    if (pipe2(back, O_CLOEXEC | O_DIRECT) < 0) return errno_status("pipe2");
    Fd back_in(back[0]), back_out(back[1]);
    const uint8_t byte = 1;
    for (const int end : {there_in.get(), back_out.get()}) {
      Status status = shm::send_attached(fd.value().get(), {&byte, 1}, end);
      if (!status.ok()) return status;
    }
    return make_link(peer, std::move(back_in), std::move(there_out));
  }
  // A caller is served at once, even if another rank is awaited.
  Made await(int peer, const Patience& patience) {
    while (!early_.contains(peer)) {
      auto caller = gate_.next(patience);
      if (!caller.ok()) return caller.status();
      const int rank = caller.value().rank;
      if (rank >= member_.rank) continue;
      uint8_t byte = 0;
      auto in = shm::receive_attached(caller.value().fd.get(), {&byte, 1}, patience);
      auto out = in.ok() ? shm::receive_attached(caller.value().fd.get(), {&byte, 1}, patience)
                         : Result<shm::Attachment>(in.status());
      if (!out.ok() && rank == peer) return out.status();
      if (!out.ok()) continue;
      Made link = make_link(rank, std::move(in.value().descriptor),
                            std::move(out.value().descriptor));
      early_[rank] = std::move(link).value();
    }
    return std::move(early_.extract(peer).mapped());
  }

  const transport::Member& member_;
  const shm::ShmCard card_;
  transport::door::Gate gate_;
  std::map<int, std::unique_ptr<transport::Link>> early_;
};

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  auto card = shm::ShmCard::of_this_process(member.host_id);
  if (!card.ok()) return card.status();
  auto listener = shm::listen_locally();
  if (!listener.ok()) return listener.status();
  card.value().socket = listener.value().name;
  return std::unique_ptr<transport::Transport>(
      std::make_unique<Pipes>(member, card.value(), std::move(listener.value().fd)));
}

}  // namespace tutti::transports::pipes
