// The words of a rank that is called.
#pragma once

namespace tutti::transport::door {

/// The answer to a caller, in the byte behind the handshake.
enum class CallAnswer : char {
  kTaken = 'Y',      // this is the connection
  kDeclined = 'N',   // another call will be; if this one ends before, call again
  kGone = 'G',       // there is none, or was: the link failed
  kConnected = 'C',  // the two members have a connection; who has none by now calls again
};

}  // namespace tutti::transport::door
