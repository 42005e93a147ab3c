// A group of ranks that reach each other: cards exchanged, transports picked, links open.
//
// Owns: the rank's arena, its transports and links. Lifetime: links point into transports and the
// arena. Errors: name the rank that is missing or does not fit. Threads: made by one, read by any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/env.h"
#include "src/base/processors.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/watch.h"
#include "src/comm/level_source.h"
#include "src/comm/model_offers.h"
#include "src/comm/roster.h"
#include "src/exec/host_executor.h"
#include "src/group/view.h"
#include "src/transport/factory.h"
#include "src/transport/member.h"

namespace tutti::comm {

/// An authenticated all-gather of one blob per rank, by whatever way the ranks found each other.
using Exchange = std::function<Result<std::vector<std::string>>(std::string_view card,
                                                                const WaitLimit& wait_limit)>;

class Membership;

struct MembershipOptions {
  const Env* env = nullptr;
  std::span<const transport::Factory> transports;  // in order of preference
  // Of levels beside those of transports, in any order; equal on all ranks.
  std::span<const LevelSourceEntry> level_sources;
  // All but the arena; its id has a number if this rank was in the group that this one comes from.
  transport::Member self;
  exec::ArenaLayout layout{4 << 20, 0, 1};
  Processors processors;    // that this rank may use
  std::string bus_address;  // of its device (Device::bus_address_of()); "": it has none
  std::string device;       // the rank's (exec::Device::identity_of); "": it has none
  EngineWish engine = EngineWish::kAuto;  // equal on all ranks
  std::string wire;                       // likewise: codecs::wire_text()
  WaitLimit wait_limit{0};
  Exchange exchange;
  // Of the group that this one is part of, where it has one: counts if hosts keep none.
  std::optional<select::Model> inherited;
  bootstrap::Watch* watch = nullptr;  // serves the transports; outlives the membership
  // Of an epoch that follows an edit: this rank goes on listening where it did, and connections of
  // the epoch before are joined before that one's links end. Null: none, nor do they.
  std::shared_ptr<const Roster> listener;
  const Membership* previous = nullptr;
  // Told how many descriptors the links to come will hold; none: nobody wants to know.
  std::function<void(uint64_t descriptors)> make_room;
};

/// All that every rank knows of a rank.
struct Profile {
  std::string host;  // its name, for messages
  int64_t process = 0;
  std::string transport;  // by which this rank reaches it; "" for itself
  std::string device;     // as MembershipOptions::device
};

/// How the connections of this rank's links differ from those of the epoch before.
struct LinkChanges {
  int kept = 0;  // they serve both
  int made_for_newcomers = 0;
  int made_at_first_use = 0;  // between survivors that had none
  int made_again = 0;         // by transports that have one for each epoch
  int closed = 0;             // to members that left
};

class Membership {
 public:
  static Result<std::unique_ptr<Membership>> create(MembershipOptions options);
  ~Membership();
  /// This rank will not take part after all: those that have mapped its arena are told.
  void give_up() const;
  /// Nobody is called or let in any more, and nothing that Link::on_settled() was given runs.
  void stop_serving();

  int rank() const { return self_.rank; }
  int ranks() const { return self_.ranks; }
  /// Of this rank.
  const MemberId& member() const { return self_.id; }
  const group::GroupPointer& group() const { return group_; }
  /// By which algorithms are chosen; equal on all ranks.
  const AgreedModel& model() const { return model_; }
  const std::vector<Profile>& profiles() const { return profiles_; }
  /// "rank 3 (process 4711 on alpha)".
  std::string name_of(int rank) const;
  /// Those by which this rank reaches the others, for people: "shm+tcp".
  std::string transports() const;
  /// Outlives the membership where it is kept.
  const std::shared_ptr<Roster>& roster() const { return roster_; }
  transport::Link* link(int peer) const { return links_[static_cast<size_t>(peer)].get(); }
  std::vector<exec::Peer> peers() const;
  /// -1: no rank of this group is that member.
  int rank_of(const MemberId& member) const;
  LinkChanges changes_since(const Membership& previous) const;

  /// Every rank of my domain is a thread of this process.
  bool all_memory() const { return all_memory_; }
  /// Every two ranks of my domain may copy from and to each other's ordinary memory.
  bool single_copy() const { return single_copy_; }
  /// Why not, for people: the two ranks that may not read each other's memory. Empty: they all may.
  std::string why_no_single_copy() const;

  /// Memory that calls will often use, for the transports whose hardware has to know of it
  /// (transport::Transport::announce); one that cannot is warned of, and copies. `owner` keeps the
  /// memory, and what this returns keeps both.
  std::shared_ptr<const void> announce(transport::Buffer memory,
                                       std::shared_ptr<const void> owner) const;
  bool has_streams() const { return has_streams_; }
  int domain_size() const { return domain_size_; }
  /// How many processors the ranks of this host have together, equal on all of them.
  int cores() const { return cores_; }
  /// Of the host that has fewest, equal on all ranks of the group.
  int least_cores() const { return least_cores_; }

 private:
  explicit Membership(MembershipOptions options);

  Status join();
  Status open_roster();
  Status read_place(int rank, std::string_view text);
  Status open_transports();
  void find_near_cards();
  void tell_what_moved() const;
  Status read_cards(const std::vector<std::string>& cards);
  Status find_levels();
  Status agree_on_model();
  Status open_level_sources();
  std::string write_level_cards() const;
  Status read_level_cards(const std::string& peer, std::string_view text);
  Status add_described_levels(std::vector<group::Level>& levels);
  Result<DescribedLevels> describe(size_t source, std::span<const uint32_t> domains) const;
  transport::PathRates path_to(int peer) const;
  void count_cores();
  void write_host_topology() const;
  uint64_t link_descriptors() const;
  Status serve_transports();
  Status connect(int peer);
  /// For one that has come: it is there, and answers.
  WaitLimit patience_with(int peer) const;
  /// Whether a rank of this host that does not connect still means to.
  Status look_for(int peer) const;
  size_t way_to(int peer) const;
  std::string why_unreached(int peer) const;
  void close_unused_transports();
  Status connect_streams();
  Status keep_connections();
  Status await_domain();
  std::string measure_codecs() const;
  std::string write_card() const;
  std::string settings() const;

  MembershipOptions options_;
  transport::Member self_;
  transport::Arena arena_;
  std::vector<int> served_;  // descriptors of transports that the watch has
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::map<int, std::string> unreached_;  // peers that no transport reaches, and what may be why
  std::vector<std::unique_ptr<transport::Link>> links_;
  std::vector<std::vector<std::string>> cards_;  // [rank][transport]
  std::vector<Profile> profiles_;
  std::shared_ptr<Roster> roster_;
  std::vector<std::unique_ptr<LevelSource>> level_sources_;  // in the order of options_
  std::vector<std::vector<std::string>> level_cards_;        // [source][rank]
  std::vector<std::string> named_hosts_;                     // by rank: LevelFacts::hosts
  ModelOffers offers_;
  std::vector<std::string> model_cards_;                         // by rank
  std::vector<std::vector<codecs::MeasuredCodec>> codec_times_;  // by rank
  AgreedModel model_;
  std::vector<MemberId> members_;  // by rank
  group::GroupPointer group_;
  bool all_memory_ = true;
  bool single_copy_ = true;
  int refused_by_ = -1;  // where it is off: a rank that may not read a peer's memory, or may not be
  int refused_with_ = -1;  // and which peer; -1: only the other rank knows
  bool has_streams_ = false;
  int domain_size_ = 1;
  int cores_ = 1;
  int least_cores_ = 1;
  std::vector<Processors> processors_;  // by rank
};

}  // namespace tutti::comm
