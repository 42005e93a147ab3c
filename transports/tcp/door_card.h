// The text that a rank publishes of a door at which peers call before they talk by something that
// is no socket: where it is, and who reaches whom.
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
  std::string kind;    // of what they talk by: both ends need the same
  std::string fabric;  // ranks of other fabrics are not reached
  std::string host_id;
  std::string absence;  // why there is none of all this; "": there is

  /// `tag` names the transport and the version of its card.
  std::string write(std::string_view tag) const;
  static std::optional<DoorCard> read(std::string_view tag, std::string_view text);

  bool reaches(const DoorCard& other) const {
    return absence.empty() && other.absence.empty() && neighborhood() == other.neighborhood();
  }
  /// Equal texts reach each other; "" where nobody is reached.
  std::string neighborhood() const { return absence.empty() ? kind + " " + fabric : ""; }
};

}  // namespace tutti::transports::tcp
