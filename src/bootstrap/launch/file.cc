// Meeting by a file, where all ranks are on one host.
#include <sodium.h>

#include <array>
#include <utility>

#include "src/base/words.h"
#include "src/bootstrap/launch/local_file.h"
#include "src/bootstrap/launch/meeting.h"

namespace tutti::bootstrap {
namespace {

struct Posted final : Support {
  explicit Posted(LocalFile posted) : file(std::move(posted)) {}
  LocalFile file;
};

/// A file name: what launchers call their jobs may hold anything.
std::string file_name(const std::string& name) {
  std::array<uint8_t, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const uint8_t*>(name.data()),
                     name.size(), nullptr, 0);
  return "job-" + to_hex({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

Status post(const Start& start, Meeting& meeting, const std::string& folder,
            const std::string& name) {
  if (Status status = open_meeting(start, meeting); !status.ok()) return status;
  const UniqueIdBytes bytes = meeting.id.encode();
  Result<LocalFile> file =
      LocalFile::post(folder, name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!file.ok()) return file.status();
  meeting.support = std::make_unique<Posted>(std::move(file).value());
  return {};
}

Status await(const Start& start, Meeting& meeting, const std::string& folder,
             const std::string& name) {
  const Result<std::string> bytes = LocalFile::await(folder, name, kUniqueIdBytes, start.patience);
  if (!bytes.ok()) return bytes.status();
  Result<UniqueId> id = UniqueId::decode(
      {reinterpret_cast<const uint8_t*>(bytes.value().data()), bytes.value().size()});
  if (!id.ok()) return id.status();
  meeting.id = std::move(id).value();
  return {};
}

}  // namespace

Result<Meeting> meet_by_file(const Start& start) {
  if (!start.launch.ok()) return Status::unsupported("no launcher said which rank this is");
  Meeting meeting;
  meeting.launch = start.launch.value();
  if (!meeting.launch.one_host) {
    return Status::unsupported("the launcher does not say that all ranks are on one host");
  }
  const std::string folder = LocalFile::folder(start.variables);
  const std::string name = file_name(meeting_name(start, meeting.launch));
  const Status status = meeting.launch.rank == 0 ? post(start, meeting, folder, name)
                                                 : await(start, meeting, folder, name);
  if (!status.ok()) {
    return Status(status.code(), "rank " + std::to_string(meeting.launch.rank) + " of " +
                                     meeting.launch.how + ": " + std::string(status.message()));
  }
  return meeting;
}

}  // namespace tutti::bootstrap
