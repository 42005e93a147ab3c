// The models that a rank has before it knows its group, since its host keeps them, and how all
// ranks come to one.
//
// A host keeps models by set of hosts. Which set a group has shows when all cards are there, so a
// card holds the last few models whole; then the least rank that has one of this set decides for
// all, and nothing more is exchanged. A tuning file comes before them; it must say the same on all
// ranks, as a cluster file must.
//
// Owns: nothing. Threads: values. Errors: kInvalidArgument for a tuning file (FILE:LINE: why),
// kInvalidUsage where those of two ranks differ. The models that a host keeps never are one: a file
// that cannot be used is a line for the log.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/select/model_file.h"

namespace tutti::comm {

struct AgreedModel {
  select::Model model;
  std::string origin = "the library's own model";  // for people
  std::string hosts;                  // select::name_of_hosts(), as the group's model is kept
  bool is_tuned = false;              // by a file
  bool is_known = false;              // to anybody but the library: equal on all ranks
  std::vector<std::string> warnings;  // of this rank
};

class ModelOffers {
 public:
  /// How many models a card holds.
  static constexpr size_t kMostOffers = 4;

  static Result<ModelOffers> read(const Config& config);

  std::string card() const;

  /// `cards` and `hosts` (ids) by rank; `name_of`: a rank in messages.
  Result<AgreedModel> agree(std::span<const std::string> cards,
                            const std::vector<std::string>& hosts, int rank,
                            const std::function<std::string(int)>& name_of) const;

  /// Where models of these hosts are kept.
  static std::string path_of(const std::string& folder, const std::string& hosts);
  /// Keeps it for later communicators, and forgets the oldest of many.
  static Status keep(const std::string& folder, const select::ModelFile& file);

 private:
  void read_kept(const std::string& folder);
  std::string refusal_of(const std::string& hosts) const;

  std::string folder_;
  std::string tuning_file_;
  std::optional<select::ModelFile> tuning_;
  std::vector<std::string> kept_;  // texts, the newest first
};

}  // namespace tutti::comm
