// How a transport is named and made, without naming one.
#pragma once

#include <memory>
#include <string_view>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::transport {

struct Factory {
  std::string_view name;
  /// `member` outlives the transport.
  Result<std::unique_ptr<Transport>> (*make)(const Member& member);
  /// It is used only where TUTTI_TRANSPORTS names it.
  bool only_if_named = false;
};

}  // namespace tutti::transport
