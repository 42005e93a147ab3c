// The bytes of a connection: frames of links and of the connection itself, out and in.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/caught.h"
#include "src/base/io.h"
#include "src/transport/stream/frame.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/link.h"

namespace tutti::transports::tcp {
namespace {

using transport::stream::total_bytes;

// One call of work() moves about this much each way, so that the other direction, the other
// connections and threads that wait for the mutex get their turn.
constexpr size_t kTurnBytes = 1024 * 1024;
// Behind the rest of a large frame: the next header, and small frames, but little of a large one,
// because what comes here is copied once more.
constexpr size_t kTailBytes = 2 * 1024;
constexpr size_t kMostEntries = transport::stream::BytesIn::kMaxEntries;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void Connection::enlist(TcpLink& link) {
  if (std::exchange(link.lease().is_ready, true)) return;
  ready_.push_back(&link);
}

void Connection::enlist_first(TcpLink& link) {
  if (std::exchange(link.lease().is_ready, true)) return;
  ready_.push_front(&link);
}

void Connection::note_pending() {
  const bool pending =
      wire_ != nullptr && (wire_->has_words() || wire_->writing != nullptr || !ready_.empty());
  output_pending_.store(pending, std::memory_order_seq_cst);
}

void Connection::after_call(TcpLink& link, bool flush) {
  const std::shared_ptr<Wire> wire = link.lease().wire;
  if (!link.exchange().idle()) enlist(link);
  guarded(*wire, [&] {
    mutex_.assert_held();
    if (flush && !wire->output_full) write_some(*wire);
    if (wire->output_dead) read_some(*wire);
  });
  note_pending();
}

bool Connection::work(Wire& wire) {
  bool wrote = false, read = false;
  guarded(wire, [&] {
    mutex_.assert_held();
    wrote = write_some(wire);
    read = read_some(wire);
    // The input may have been the credit for something large.
    if (read && !wire.output_full && !wire.lost) write_some(wire);
  });
  note_pending();
  for (TcpLink* link : links_) link->wake_for_answers();
  if (!read && !wrote) return false;
  moves_.store(moves() + 1, std::memory_order_relaxed);
  return true;
}

// ---- out ----------------------------------------------------------------------------------------

bool Connection::write_some(Wire& wire) {
  size_t turn = 0;
  wire.output_full = false;
  while (turn < kTurnBytes && !wire.output_full && !wire.output_dead && !wire.lost) {
    TcpLink* link = wire.writing;
    if (link == nullptr && wire.has_words()) {
      write_words(wire, turn);
      continue;
    }
    const bool must_yield = link != nullptr && !link->exchange().is_urgent() && has_urgent(wire);
    if (must_yield && !link->exchange().is_within_frame()) {
      wire.writing = nullptr;  // the rest of its batch waits
      enlist(*link);
      continue;
    }
    if (link == nullptr) {
      link = next_to_write(wire);
      if (link == nullptr) break;
      if (wire.used != link) {
        use(wire, *link);  // goes first
        enlist_first(*link);
        continue;
      }
    }
    write_link(wire, *link, must_yield, turn);
  }
  return turn > 0;
}

bool Connection::has_urgent(const Wire& wire) const {
  return std::any_of(ready_.begin(), ready_.end(), [&](TcpLink* link) {
    return link->is_open_on(wire) && link->exchange().is_urgent();
  });
}

// Chooses links in turn, but those with frames of high priority first.
TcpLink* Connection::next_to_write(const Wire& wire) {
  const auto urgent = std::find_if(ready_.begin(), ready_.end(),
                                   [](TcpLink* link) { return link->exchange().is_urgent(); });
  if (urgent != ready_.end()) std::rotate(ready_.begin(), urgent, urgent + 1);
  while (!ready_.empty()) {
    TcpLink* const link = ready_.front();
    ready_.pop_front();
    link->lease().is_ready = false;
    if (link->is_open_on(wire)) return link;
  }
  return nullptr;
}

void Connection::write_words(Wire& wire, size_t& turn) {
  const ssize_t count = send(wire.socket.get(), wire.words.data() + wire.said,
                             wire.words.size() - wire.said, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) {
    wire.output_full = would_block(errno);
    wire.output_dead = !wire.output_full;
    return;
  }
  wire.said += static_cast<size_t>(count);
  wire.output_full = wire.has_words();
  turn += static_cast<size_t>(count);
}

// Writes a batch of the link, or the rest of one; then other links have their turn. `only_frame`:
// no more than the frame that has begun.
void Connection::write_link(Wire& wire, TcpLink& link, bool only_frame, size_t& turn) {
  wire.writing = nullptr;
  const std::span<const iovec> entries =
      only_frame ? link.exchange().gather_frame() : link.exchange().gather();
  if (entries.empty()) return;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(entries.data());
  message.msg_iovlen = entries.size();
  const uint64_t wanted = total_bytes(entries);
  const ssize_t count = sendmsg(wire.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  const auto written = static_cast<size_t>(std::max<ssize_t>(count, 0));
  if (written < wanted) wire.writing = &link;
  if (count < 0) {
    wire.output_full = would_block(errno);
    wire.output_dead = !wire.output_full;
    if (errno == EFAULT) fail_buffer(wire, link);
    return;
  }
  wire.output_full = written < wanted;
  link.exchange().wrote(written);
  turn += written;
  link.exchange().flushed();
  if (wire.writing == nullptr && !link.exchange().idle()) enlist(link);
}

// A frame is half sent, and the rest of its bytes cannot be read: the stream cannot be continued.
void Connection::fail_buffer(Wire& wire, TcpLink& culprit) {
  give_up(wire, [&](TcpLink& link) {
    if (&link == &culprit) {
      link.fail_buffer("sendmsg");
    } else {
      link.fail_here(Status::system_error(
          "a call on another communicator, with which this one shares the connection, gave a "
          "buffer that is not memory"));
    }
  });
}

// ---- in -----------------------------------------------------------------------------------------

bool Connection::read_some(Wire& wire) {
  size_t turn = 0;
  std::array<iovec, kMostEntries> entries;
  while (turn < kTurnBytes && !wire.lost) {
    uint64_t direct = 0;
    const size_t used = prepare(wire, entries, direct);
    const ssize_t count = readv(wire.socket.get(), entries.data(), static_cast<int>(used));
    if (count == 0) {
      lose(wire, "the connection was closed");
      break;
    }
    if (count < 0) {
      if (errno == EFAULT && wire.target != nullptr) {
        TcpLink& link = *wire.target;  // what comes for it is discarded from now on
        link.fail_buffer("readv");
        retire(link);
        continue;
      }
      if (!would_block(errno)) {
        lose(wire, errno_text(errno));
      } else if (wire.output_dead) {
        lose(wire, "the connection is broken");
      }
      break;
    }
    const auto arrived = static_cast<size_t>(count);
    const uint64_t wanted = total_bytes({entries.data(), used});
    turn += arrived;
    commit(wire, arrived, direct);
    if (arrived < wanted) break;
  }
  return turn > 0;
}

// `direct`: how many of the bytes that are read next belong to the frame that has begun, and go
// where its link wants them; the others go to the buffer.
size_t Connection::prepare(Wire& wire, std::span<iovec> out, uint64_t& direct) const {
  size_t used = 0;
  size_t room = wire.buffer.size() - wire.end;
  if (wire.frame_left > 0 && wire.target == nullptr) {  // the buffer is empty
    direct = std::min<uint64_t>(wire.frame_left, wire.buffer.size());
    out[0] = {wire.buffer.data(), static_cast<size_t>(direct)};
    return 1;
  }
  if (wire.frame_left > 0) {
    const size_t places = wire.target->exchange().prepare(out.first(out.size() - 1));
    for (; used < places && direct < wire.frame_left; ++used) {
      out[used].iov_len =
          static_cast<size_t>(std::min<uint64_t>(out[used].iov_len, wire.frame_left - direct));
      direct += out[used].iov_len;
    }
    if (direct < wire.frame_left) return used;
    room = kTailBytes;
  }
  out[used++] = {wire.buffer.data() + wire.end, room};
  return used;
}

void Connection::commit(Wire& wire, size_t count, uint64_t direct) {
  const uint64_t own = std::min<uint64_t>(count, direct);
  if (own > 0) {
    wire.frame_left -= own;
    if (wire.target != nullptr) wire.target->take(own);
  }
  wire.end += count - own;
  parse(wire);
  if (wire.begin == wire.end) {
    wire.begin = wire.end = 0;
  } else if (wire.begin > 0) {
    // At most a part of one header is left.
    std::memmove(wire.buffer.data(), wire.buffer.data() + wire.begin, wire.end - wire.begin);
    wire.end -= wire.begin;
    wire.begin = 0;
  }
}

void Connection::parse(Wire& wire) {
  using transport::stream::FrameHeader;
  using transport::stream::kHeaderBytes;
  while (!wire.lost) {
    const auto here =
        static_cast<size_t>(std::min<uint64_t>(wire.frame_left, wire.end - wire.begin));
    feed(wire, here);
    if (wire.frame_left > 0 || wire.end - wire.begin < kHeaderBytes) return;
    const std::byte* const start = wire.buffer.data() + wire.begin;
    if (transport::door::is_lease_frame({start, kHeaderBytes})) {
      if (!take_lease_frame(wire)) return;
      continue;
    }
    FrameHeader header;
    if (transport::stream::decode(start, header) != nullptr) {
      give_up(wire, [](TcpLink& link) { link.fail_malformed("something that is no frame"); });
      return;
    }
    const bool is_open = wire.named != nullptr && wire.named->is_open_on(wire);
    wire.target = is_open ? wire.named : nullptr;
    wire.frame_left = kHeaderBytes + uint64_t{header.length};
  }
}

// The first `count` bytes of the buffer are of the frame that has begun.
void Connection::feed(Wire& wire, size_t count) {
  std::array<iovec, kMostEntries> entries;
  while (count > 0 && wire.target != nullptr) {
    const size_t used = wire.target->exchange().prepare(entries);
    size_t taken = 0;
    for (size_t i = 0; i < used && taken < count; ++i) {
      const size_t bytes = std::min(entries[i].iov_len, count - taken);
      std::memcpy(entries[i].iov_base, wire.buffer.data() + wire.begin + taken, bytes);
      taken += bytes;
    }
    wire.begin += taken;
    wire.frame_left -= taken;
    count -= taken;
    wire.target->take(taken);
  }
  if (wire.lost) return;
  wire.begin += count;
  wire.frame_left -= count;
}

}  // namespace tutti::transports::tcp
