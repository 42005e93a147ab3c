// The messages by which members agree on the next epoch.
//
// Threads: values. Errors: decode() gives kRemoteError for bytes that are no message.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/consensus/view.h"

namespace tutti::consensus {

/// Names one try of one member to have a view adopted. The member makes it unique.
struct Ballot {
  uint64_t counter = 0;  // 0: none yet
  MemberId member;
  auto operator<=>(const Ballot&) const = default;
};

struct ViewProposal {
  Ballot ballot;
  View view;
  bool operator==(const ViewProposal&) const = default;
};

struct EditMessage {
  enum class Subject : uint8_t {
    kHere,      // a newcomer is there; `text` is its card
    kPrepare,   // a proposer asks for promises; `text` is its wish
    kPromise,   // `proposal`: the last one accepted, if any; `dead`: members known dead
    kAccept,    // `proposal` is to be accepted
    kAccepted,  // the sender has accepted the proposal of `ballot`
    kRefused,   // `ballot` is too low; `promised` says what the sender has promised
    kDiffers,   // the sender's wish is another one; `text` describes it
    kAdopted,   // `proposal->view` is the next epoch
  };
  Subject kind = Subject::kHere;
  MemberId from;
  uint32_t epoch = 0;  // the present epoch; its members agree on the next one
  Digest view{};       // digest of the present epoch
  Ballot ballot;
  Ballot promised;
  std::optional<ViewProposal> proposal;
  std::vector<MemberId> dead;
  std::string text;

  std::string encode() const;
  static Result<EditMessage> decode(std::string_view bytes);
  bool operator==(const EditMessage&) const = default;
};

struct Envelope {
  MemberId to;
  EditMessage message;
};

}  // namespace tutti::consensus
