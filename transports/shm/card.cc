#include "transports/shm/card.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "src/base/words.h"

namespace tutti::transports::shm {
namespace {

constexpr std::string_view kTag = "tutti-shm-1";
constexpr size_t kMaxHostIdBytes = 256;

/// 0 where there is no /proc: equal on both sides then, and connect() finds out.
uint64_t name_space(const char* path) {
  struct stat file {};
  return stat(path, &file) == 0 ? file.st_ino : 0;
}

std::string kernel_boot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "unknown" : id;
}

}  // namespace

Result<ShmCard> ShmCard::of_this_process(const std::string& host_id) {
  if (host_id.empty() || host_id.size() > kMaxHostIdBytes ||
      host_id.find(' ') != std::string::npos) {
    return Status::invalid_argument("a host id is one word of at most " +
                                    std::to_string(kMaxHostIdBytes) + " bytes, not '" + host_id +
                                    "' (TUTTI_HOST_ID)");
  }
  ShmCard card;
  card.boot_id = kernel_boot();
  card.user = geteuid();
  card.user_namespace = name_space("/proc/self/ns/user");
  card.network_namespace = name_space("/proc/self/ns/net");
  card.process = getpid();
  card.host_id = host_id;
  return card;
}

std::optional<ShmCard> ShmCard::read(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() != 8 || words[0] != kTag) return std::nullopt;
  const auto user = parse_integer<uint32_t>(words[2]);
  const auto user_namespace = parse_integer<uint64_t>(words[3]);
  const auto network_namespace = parse_integer<uint64_t>(words[4]);
  const auto process = parse_integer<int32_t>(words[5]);
  constexpr size_t kMaxSocketBytes = 64;
  const bool named = !words[6].empty() && words[6].size() <= kMaxSocketBytes;
  if (!user || !user_namespace || !network_namespace || !process || !named) return std::nullopt;
  return ShmCard{std::string(words[1]), *user,    *user_namespace,
                 *network_namespace,    *process, std::string(words[6]),
                 std::string(words[7])};
}

std::string ShmCard::write() const {
  std::string text(kTag);
  for (const std::string& word :
       {boot_id, std::to_string(user), std::to_string(user_namespace),
        std::to_string(network_namespace), std::to_string(process), socket, host_id}) {
    text += " " + word;
  }
  return text;
}

bool ShmCard::shares_with(const ShmCard& peer) const {
  return neighborhood() == peer.neighborhood();
}

std::string ShmCard::neighborhood() const {
  return boot_id + " " + std::to_string(user) + " " + std::to_string(user_namespace) + " " +
         std::to_string(network_namespace) + " " + host_id;
}

}  // namespace tutti::transports::shm
