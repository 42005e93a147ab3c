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
#include "src/transport/factory.h"

namespace tutti::registry {

using TransportEntry = transport::Factory;

std::span<const TransportEntry> transports();

}  // namespace tutti::registry
