// Keys from keys: whoever holds a group's key can compute those of the groups made from it, and
// nobody else can.
//
// Errors: open() gives kRemoteError for bytes that were not sealed with this key. Threads: no
// state.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

/// `purpose` says what for; different purposes give unrelated keys.
transport::JobKey derive_key(const transport::JobKey& key, std::string_view purpose);
JobId derive_job(const transport::JobKey& key, std::string_view purpose);

/// Bytes that nobody has used before.
std::string new_nonce();

/// Encrypts and authenticates, for a secret that travels over a connection that hides nothing.
std::string seal(const transport::JobKey& key, std::string_view secret);
Result<std::string> open(const transport::JobKey& key, std::string_view sealed);

}  // namespace tutti::bootstrap
