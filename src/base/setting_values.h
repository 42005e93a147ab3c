// How values are written in variables: sizes, seconds, switches, lists.
//
// Errors: false or nullopt for anything else; nothing is guessed. Threads: no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/config.h"

namespace tutti {

/// "4096", "64K", "4M", "1G" (powers of 1024; "KiB", "MiB", "GiB" too).
std::optional<uint64_t> parse_bytes(std::string_view text);
std::string show_bytes(uint64_t bytes);

/// "none", "5", "0.25": nanoseconds; above zero.
std::optional<uint64_t> parse_seconds(std::string_view text);
std::string show_seconds(uint64_t nanoseconds);

struct HostPort {
  std::string host;  // a name or a numeric address
  uint16_t port = 0;
};
/// HOST:PORT or [IPv6]:PORT. Whether the host can be found is not looked at.
std::optional<HostPort> parse_place(std::string_view text);

/// 1/0, true/false, yes/no, on/off.
std::optional<bool> parse_switch(std::string_view text);

/// Our words, and those of NCCL_DEBUG.
std::optional<LogLevel> parse_log_level(std::string_view text);
std::string_view log_level_name(LogLevel level);

std::optional<SocketFamily> parse_socket_family(std::string_view text);
std::string_view socket_family_name(SocketFamily family);

/// Also a number of NCCL_CTA_POLICY: of its policies, 2 is the one without thread blocks.
std::optional<EngineWish> parse_engine(std::string_view text);
std::string_view engine_name(EngineWish engine);

std::optional<StagingStores> parse_staging_stores(std::string_view text);
std::string_view staging_stores_name(StagingStores stores);

/// The value of NCCL_ALGO: "Ring", "allreduce:tree,ring;allgather:pat". Of exclusions ("^Ring")
/// nothing is known.
std::optional<NcclAlgorithms> parse_nccl_algorithms(std::string_view text);

/// The network that NCCL_NET names, as NCCL writes it: of NCCL's the one that is here.
std::optional<std::string_view> parse_nccl_network(std::string_view text);

/// A name as people give transports and algorithms: letters, digits, '_' and '-'.
bool is_name(std::string_view text);

}  // namespace tutti
