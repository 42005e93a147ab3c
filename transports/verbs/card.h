// The text that a rank publishes of its RDMA port: where to call, and who reaches whom.
//
//   "tutti-verbs-1 HOST PORT KIND FABRIC HOST_ID", or "tutti-verbs-1 none REASON"
//
// Threads: a value. Errors: read() gives nothing for a text that write() did not make.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transports/tcp/socket.h"
#include "transports/verbs/card_port.h"

namespace tutti::transports::verbs {

struct VerbsCard {
  tcp::IpEndpoint endpoint;  // of the door
  std::string kind;          // of the addresses of packets: gid_kind_name()
  std::string fabric;        // ranks of other fabrics are not reached
  std::string host_id;
  std::string absence;  // why there is none of all this; "": there is

  std::string write() const;
  static std::optional<VerbsCard> read(std::string_view text);

  bool reaches(const VerbsCard& other) const {
    return absence.empty() && other.absence.empty() && neighborhood() == other.neighborhood();
  }
  /// Equal texts reach each other; "" where nobody is reached.
  std::string neighborhood() const { return absence.empty() ? kind + " " + fabric : ""; }
};

}  // namespace tutti::transports::verbs
