// Python's pickles, as far as plain data goes: dictionaries, lists, tuples, texts, numbers.
//
// PyTorch writes its flight recorder so. Nothing is executed: of names of functions only those by
// which PyTorch marks typed lists are taken, and stand for the list. (Protocols 2 to 4.)
//
// Threads: pure. Errors: kRemoteError for anything else, for what is cut off, nested deeper than 64
// values, or larger than 64 MiB when written out.
#pragma once

#include <string_view>

#include "src/base/status.h"
#include "src/topology/json_value.h"

namespace tutti::health {

/// Tuples become arrays; keys that are numbers become texts.
Result<topology::JsonValue> read_pickle(std::string_view bytes);

}  // namespace tutti::health
