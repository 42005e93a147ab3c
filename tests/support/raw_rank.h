// A rank at a rendezvous, word for word, for tests of what no rank of the library does.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/bootstrap/session.h"
#include "src/bootstrap/unique_id.h"
#include "src/transport/door/handshake.h"

namespace tutti::testing_support {

/// The connection over which `rank` has brought `blob`.
inline KeptFd bring(const bootstrap::UniqueId& id, int rank,
                    const bootstrap::ExchangeKey& exchange_key, const std::string& blob) {
  const uint64_t deadline_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  KeptFd fd = bootstrap::dial(id.addresses.front(), id.port, deadline_ns).value();
  transport::door::Identity self;
  self.rank = rank;
  self.communicator = id.communicator();
  self.purpose = transport::door::kRendezvous;
  EXPECT_TRUE(transport::door::handshake_connect(fd.get(), id.key, self, deadline_ns).ok());
  const auto header = bootstrap::encode_request({exchange_key, blob.size(), 60'000});
  EXPECT_TRUE(send_all(fd.get(), header.data(), header.size(), deadline_ns).ok());
  EXPECT_TRUE(send_all(fd.get(), blob.data(), blob.size(), deadline_ns).ok());
  return fd;
}

}  // namespace tutti::testing_support
