// The part of a connecting object that a link asks, and the words of a rank that is called.
//
// A link may exist before its connection. It asks its Dialer for one when it is first wanted; the
// Dialer calls the peer, or lets it in through a gate, and says what became of each call.
#pragma once

#include "src/base/status.h"

namespace tutti::transport::door {

/// The answer to a caller, in the byte behind the handshake.
enum class CallAnswer : char {
  kTaken = 'Y',     // this is the connection
  kDeclined = 'N',  // another call will be; if this one ends before, call again
  kGone = 'G',      // there is none, or was: the link failed
};

/// The object that connects the links of a rank.
class Dialer {
 public:
  virtual ~Dialer() = default;
  /// Calls the peer soon. Never waits; the link's mutex is held.
  virtual void want(int peer) = 0;
  /// The link ends. No call of it is running afterwards.
  virtual void forget(int peer) = 0;
  /// Why there is no connection yet.
  virtual Status overdue(int peer) = 0;
};

}  // namespace tutti::transport::door
