// The text that a rank publishes for its TCP connections: "tutti-tcp-2 ADDRESS PORT HOST-ID".
//
// Read from peers, so nothing in it is believed before it is checked.
// Threads: no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {

struct TcpCard {
  IpEndpoint endpoint;
  std::string host_id;

  std::string write() const;
  static std::optional<TcpCard> read(std::string_view text);
};

}  // namespace tutti::transports::tcp
