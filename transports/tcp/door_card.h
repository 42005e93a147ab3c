// The text that a rank publishes for transports that do not send over sockets. Peers first call at
// a listening socket (a door) to prove themselves; the card says where that is, and which ranks can
// reach each other.
//
//   "TAG HOST PORT KIND FABRIC HOST_ID", or "TAG none REASON"
//
// Threads: a value. Errors: read() gives nothing for a text that write() did not make.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {

struct DoorCard {
  IpEndpoint endpoint;
  std::string kind;    // the kind of hardware or library; both ends need the same
  std::string fabric;  // ranks of other fabrics are not reached
  std::string host_id;
  std::string absence;  // why this rank can be reached by none; "": it can

  /// `tag` names the transport and the version of its card.
  std::string write(std::string_view tag) const;
  static std::optional<DoorCard> read(std::string_view tag, std::string_view text);

  bool reaches(const DoorCard& other) const {
    return absence.empty() && other.absence.empty() && neighborhood() == other.neighborhood();
  }
  /// Ranks with equal texts reach each other; "" where no rank is reached.
  std::string neighborhood() const { return absence.empty() ? kind + " " + fabric : ""; }
};

}  // namespace tutti::transports::tcp
