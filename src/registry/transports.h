// Every transport that Tutti is built with, in order of preference: two ranks use the first that
// reaches.
//
// A new transport is one folder transports/<name>/ that defines tutti::transports::<name>::make(),
// and one line in transports.inc. Threads: constant.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "src/base/status.h"
#include "src/transport/member.h"
#include "src/transport/transport.h"

namespace tutti::registry {

struct TransportEntry {
  std::string_view name;
  /// `member` outlives the transport.
  Result<std::unique_ptr<transport::Transport>> (*make)(const transport::Member& member);
};

std::span<const TransportEntry> transports();

}  // namespace tutti::registry
