// A port of 127.0.0.1 at which nobody listens: who calls there is refused at once, and no other
// process is given it meanwhile. A listener that may use addresses again (SO_REUSEADDR) can take
// it.
//
// Owns: the port, until it is destroyed. Errors: a test without sockets cannot go on.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace tutti::testing_support {

class ReservedPort {
 public:
  ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t bytes = sizeof address;
    if (setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(socket_, any, bytes) != 0 || getsockname(socket_, any, &bytes) != 0) {
      std::abort();
    }
    number_ = ntohs(address.sin_port);
  }
  ~ReservedPort() { close(socket_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  uint16_t number() const { return number_; }

 private:
  const int socket_;
  uint16_t number_ = 0;
};

}  // namespace tutti::testing_support
