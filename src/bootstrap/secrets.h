// Derives keys from keys: a process with a group's key can compute the keys of the groups that are
// made from it, and no other process can.
//
// Errors: open() gives kRemoteError for bytes that were not sealed with this key. Threads: no
// state.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

/// Different purposes give unrelated keys.
transport::JobKey derive_key(const transport::JobKey& key, std::string_view purpose);
JobId derive_job(const transport::JobKey& key, std::string_view purpose);

/// Bytes that nobody has used before.
std::string new_nonce();

/// Encrypts and authenticates a secret, so that it can travel over a connection without encryption.
std::string seal(const transport::JobKey& key, std::string_view secret);
Result<std::string> open(const transport::JobKey& key, std::string_view sealed);

}  // namespace tutti::bootstrap
