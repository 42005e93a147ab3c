#include "tools/cli/doctor.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/arguments.h"
#include "tools/cli/doctor_checks.h"
#include "tools/cli/doctor_reach.h"

namespace tutti::cli {
namespace {

constexpr char kUsage[] =
    "usage: tutti doctor [HOST...]\n"
    "Looks at this host as a rank of a job of several hosts would find it: RDMA cards, limits,\n"
    "network, clock. Run it on every host, as the job's user and in the job's container.\n"
    "HOST: another host of the job, by name or address: looks whether packets to the ports that\n"
    "ranks use arrive there, which firewalls may prevent.\n";

constexpr uint64_t kPatienceNs = 3'000'000'000;  // a lost packet is sent again after one

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
  const std::vector<std::string> hosts(argv + 1, argv + argc);
  const bool has_option = !hosts.empty() && hosts[0].starts_with('-');
  if (has_option) return *end_with_usage(argc, argv, kUsage);
  const std::optional<Config> config = settings_for("tutti doctor");
  if (!config) return 1;
  int status = 0;
  const DoctorSources sources = DoctorSources::of_this_process(*config);
  std::vector<DoctorFinding> findings = examine(*config, sources);
  for (const std::string& host : hosts) {
    findings.push_back(look_at_way(host, ports_of_ranks(sources.proc), kPatienceNs));
  }
  for (const DoctorFinding& finding : findings) {
    std::printf("%-5s  %s: %s\n", word_of(finding.verdict), finding.subject.c_str(),
                finding.found.c_str());
    if (!finding.remedy.empty()) std::printf("       to do: %s\n", finding.remedy.c_str());
    if (finding.verdict == DoctorFinding::Verdict::kWrong) status = 1;
  }
  return status;
}

}  // namespace tutti::cli
