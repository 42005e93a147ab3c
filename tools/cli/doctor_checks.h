// Looks whether this host is fit for jobs of several hosts: RDMA cards, limits, network interfaces,
// the clock, settings of the kernel.
//
// Errors: none; what cannot be read is a note that says so. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "transports/verbs/adapter.h"

namespace tutti::cli {

struct DoctorFinding {
  enum class Verdict : uint8_t { kRight, kWrong, kNote };
  Verdict verdict = Verdict::kNote;
  std::string subject;  // "locked memory"
  std::string found;
  std::string remedy;  // for what is wrong
};

/// Where it looks. A test has folders and numbers of its own.
struct DoctorSources {
  std::string sys = "/sys", proc = "/proc";
  transports::verbs::Equipment equipment;
  uint64_t lockable_bytes = 0;  // ~0: no limit
  uint64_t open_files = 0;      // the hard limit
  std::string interface;        // whose addresses ranks use; "": none can be chosen
  std::string no_interface;     // then why

  static DoctorSources of_this_process(const Config& config);
};

std::vector<DoctorFinding> examine(const Config& config, const DoctorSources& sources);

}  // namespace tutti::cli
