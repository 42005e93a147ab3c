#include "src/comm/model_offers.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/comm/card.h"
#include "src/topology/text_file.h"

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestOffer = 4096;  // bytes; a model takes a few hundred
constexpr size_t kMostKept = 32;        // models in a folder
constexpr const char* kPrefix = "model-";

// Models in the folder, the last written first.
std::vector<fs::path> newest_first(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  // A directory_iterator that is advanced with an error_code is noexcept, and ends the process
  // where there is no memory for the next name.
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), &closedir);
  while (const dirent* const entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix) || !name.ends_with(".json")) continue;
    fs::path path = fs::path(folder) / name;
    std::error_code error;
    const auto written = fs::last_write_time(path, error);
    if (!error) found.emplace_back(written, std::move(path));
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<fs::path> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::string fingerprint_of(const std::optional<select::ModelFile>& tuning) {
  if (!tuning) return "";
  return fmt::format("{:08x} {}", select::version_of(tuning->model), tuning->hosts);
}

std::string said_by(const std::string& rank, const std::string& file) {
  return rank + (file.empty() ? " has no TUTTI_TUNING" : " has TUTTI_TUNING=" + file);
}

/// A card, as its rank wrote it: nothing in it is believed.
struct ReadCard {
  std::string tuning_file, fingerprint;
  std::vector<std::string> kept;
};

ReadCard read_card(std::string_view text) {
  Result<std::vector<std::string>> texts = read_texts(text);
  if (!texts.ok() || texts.value().size() < 2) return {};
  ReadCard card{texts.value()[0], texts.value()[1], {}};
  for (size_t i = 2; i < std::min(texts.value().size(), 2 + ModelOffers::kMostOffers); ++i) {
    if (texts.value()[i].size() <= kLongestOffer) card.kept.push_back(texts.value()[i]);
  }
  return card;
}

}  // namespace

Result<ModelOffers> ModelOffers::read(const Config& config) {
  ModelOffers made;
  made.folder_ = config.cache_folder;
  made.tuning_file_ = config.tuning_file;
  if (!config.tuning_file.empty()) {
    const Result<std::string> text = topology::read_text_file(config.tuning_file);
    if (!text.ok()) {
      return Status(text.status().code(), "TUTTI_TUNING: " + std::string(text.status().message()));
    }
    Result<select::ModelFile> parsed = select::parse_model(text.value(), config.tuning_file);
    if (!parsed.ok()) {
      return Status(parsed.status().code(),
                    "TUTTI_TUNING: " + std::string(parsed.status().message()));
    }
    made.tuning_ = std::move(parsed).value();
  }
  if (!config.cache_folder.empty()) made.read_kept(config.cache_folder);
  return made;
}

void ModelOffers::read_kept(const std::string& folder) {
  for (const fs::path& path : newest_first(folder)) {
    if (kept_.size() == kMostOffers) return;
    Result<std::string> text = topology::read_text_file(path);
    if (!text.ok() || text.value().size() > kLongestOffer) continue;
    const Result<select::ModelFile> parsed = select::parse_model(text.value(), path);
    if (!parsed.ok() || path_of(folder, parsed.value().hosts) != path) continue;
    kept_.push_back(std::move(text).value());
  }
}

std::string ModelOffers::card() const {
  std::vector<std::string> texts = {tuning_file_, fingerprint_of(tuning_)};
  texts.insert(texts.end(), kept_.begin(), kept_.end());
  return write_texts(texts);
}

// Why the file of these hosts is none that is offered; "" if there is none, or it is.
std::string ModelOffers::refusal_of(const std::string& hosts) const {
  if (folder_.empty()) return "";
  const std::string path = path_of(folder_, hosts);
  std::error_code error;
  if (!fs::exists(path, error)) return "";
  const Result<std::string> text = topology::read_text_file(path);
  if (!text.ok()) return std::string(text.status().message());
  if (text.value().size() > kLongestOffer) return path + ": is longer than 4096 bytes";
  const Result<select::ModelFile> parsed = select::parse_model(text.value(), path);
  if (!parsed.ok()) return std::string(parsed.status().message());
  return parsed.value().hosts == hosts ? "" : path + ": is of other hosts";
}

Result<AgreedModel> ModelOffers::agree(std::span<const std::string> cards,
                                       const std::vector<std::string>& hosts, int rank,
                                       const std::function<std::string(int)>& name_of) const {
  AgreedModel agreed;
  agreed.hosts = select::name_of_hosts(hosts);
  std::set<std::string> useless;  // texts
  std::string chosen;
  int differing = 0;
  for (size_t other = 0; other < cards.size(); ++other) {
    const ReadCard card = read_card(cards[other]);
    if (card.fingerprint != fingerprint_of(tuning_)) {
      return Status::invalid_usage(said_by(name_of(static_cast<int>(other)), card.tuning_file) +
                                   ", " + said_by(name_of(rank), tuning_file_) +
                                   ": they say different things; give all ranks one file");
    }
    for (const std::string& text : card.kept) {
      if (text == chosen || useless.contains(text)) continue;
      const Result<select::ModelFile> parsed = select::parse_model(text, "a card");
      if (!parsed.ok() || parsed.value().hosts != agreed.hosts) {
        useless.insert(text);
      } else if (chosen.empty()) {
        chosen = text;
        agreed.is_known = true;
        agreed.model = parsed.value().model;
        agreed.origin =
            fmt::format("what {} has kept of these hosts", name_of(static_cast<int>(other)));
      } else {
        ++differing;
      }
    }
  }
  if (differing > 0) agreed.origin += fmt::format(" ({} ranks have other files)", differing);
  // One rank of each host says it.
  const bool speaks = std::find(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(rank)]) ==
                      hosts.begin() + rank;
  const std::string refusal = refusal_of(agreed.hosts);
  if (speaks && !refusal.empty()) {
    agreed.warnings.push_back("what was kept of these hosts is ignored: " + refusal);
  }
  if (!tuning_) return agreed;
  if (!tuning_->hosts.empty() && tuning_->hosts != agreed.hosts) {
    if (rank == 0) {
      agreed.warnings.push_back(
          fmt::format("TUTTI_TUNING={} is ignored: it is of the hosts {}, "
                      "these are {}",
                      tuning_file_, tuning_->hosts, agreed.hosts));
    }
    return agreed;
  }
  agreed.model = tuning_->model;
  agreed.origin = "TUTTI_TUNING=" + tuning_file_;
  agreed.is_tuned = agreed.is_known = true;
  return agreed;
}

std::string ModelOffers::path_of(const std::string& folder, const std::string& hosts) {
  return folder + "/" + kPrefix + hosts + ".json";
}

Status ModelOffers::keep(const std::string& folder, const select::ModelFile& file) {
  std::error_code error;
  fs::create_directories(folder, error);
  Status status = topology::write_text_file(path_of(folder, file.hosts), select::write_model(file));
  const std::vector<fs::path> kept = newest_first(folder);
  for (size_t i = kMostKept; i < kept.size(); ++i) fs::remove(kept[i], error);
  return status;
}

}  // namespace tutti::comm
