#include "tools/cli/doctor.h"

#include <cstdio>
#include <string>

#include "src/registry/settings.h"
#include "tools/cli/arguments.h"
#include "tools/cli/doctor_checks.h"

namespace tutti::cli {
namespace {

constexpr char kUsage[] =
    "usage: tutti doctor\n"
    "Looks at this host as a rank of a job of several hosts would find it: RDMA cards, limits,\n"
    "network, clock. Run it on every host, as the job's user and in the job's container.\n"
    "Firewalls are not looked at: they show only between two hosts (docs/several_hosts.md).\n";

const char* word_of(DoctorFinding::Verdict verdict) {
  switch (verdict) {
    case DoctorFinding::Verdict::kRight:
      return "right";
    case DoctorFinding::Verdict::kWrong:
      return "WRONG";
    default:
      return "note";
  }
}

}  // namespace

int doctor_main(int argc, char** argv) {
  if (argc > 1) {
    const bool help = asks_for_help(argv[1]);
    std::fputs(kUsage, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  const Result<Config> config = registry::read_settings();
  if (!config.ok()) {
    std::fprintf(stderr, "tutti doctor: %s\n", std::string(config.status().message()).c_str());
    return 1;
  }
  int status = 0;
  const DoctorSources sources = DoctorSources::of_this_process(config.value());
  for (const DoctorFinding& finding : examine(config.value(), sources)) {
    std::printf("%-5s  %s: %s\n", word_of(finding.verdict), finding.subject.c_str(),
                finding.found.c_str());
    if (!finding.remedy.empty()) std::printf("       to do: %s\n", finding.remedy.c_str());
    if (finding.verdict == DoctorFinding::Verdict::kWrong) status = 1;
  }
  return status;
}

}  // namespace tutti::cli
