// Sockets of the transfer queue: addresses as texts, frames, and the proof by which both ends of a
// connection show that they hold one key before anything else is believed.
//
// The proof: the server sends 32 fresh bytes, the client 32 of its own and a keyed BLAKE2b hash of
// both, the server another hash of them. Without a key, which only unix sockets may lack, the hash
// is one of zeros, and the kernel's word on the peer's user stands for the proof.
//
// Units:   deadlines are of std::chrono::steady_clock.
// Errors:  throws Error: kInvalidInput for an address, kCommunication for what a peer or the
//          system does; the sentence names the address.
// Owns:    a Socket closes its descriptor.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::runtime::queue {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

struct QueueListener {
  Socket socket;
  std::string address;  // as clients name it
  std::string path;     // of a unix socket: to be removed at the end
};
/// Refuses an address without a key where one is needed.
QueueListener listen_at(const std::string& address, std::string_view key);
/// The next caller, or a Socket without descriptor where none waits. Of a unix socket, callers of
/// other users are hung up on.
Socket accept_from(const QueueListener& listener);
/// Tries until the deadline while nobody listens.
Socket connect_to(const std::string& address, std::string_view key, Deadline deadline);

/// Frames: 8 bytes with their length, and the bytes.
inline constexpr uint64_t kMostFrame = uint64_t{1} << 34;
void send_frame(const Socket& socket, std::string_view head, std::string_view body,
                const std::string& address, Deadline deadline);
std::string recv_frame(const Socket& socket, const std::string& address, Deadline deadline);

inline constexpr size_t kNonce = 32, kProof = 32;
using Nonce = std::array<unsigned char, kNonce>;
using Proof = std::array<unsigned char, kProof>;
Nonce fresh_nonce();
Proof proof_of(std::string_view key, bool of_server, const Nonce& server, const Nonce& client);
bool equal(const Proof& a, const unsigned char* b);
/// The client's part of the proof.
void prove(const Socket& socket, std::string_view key, const std::string& address,
           Deadline deadline);

}  // namespace tutti::runtime::queue
