#include "src/bootstrap/launch/launcher.h"

#include <algorithm>
#include <optional>

#include "src/base/words.h"
#include "src/bootstrap/address.h"
#include "src/bootstrap/group.h"

namespace tutti::bootstrap {
namespace {

constexpr std::string_view kTorchrunJob[] = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
                                             "MASTER_PORT"};
constexpr std::string_view kOpenMpiJob[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
constexpr std::string_view kTorchrunName[] = {"TORCHELASTIC_RUN_ID"};  // it holds MASTER_PORT
constexpr std::string_view kHydraJob[] = {"PMI_JOBID", "I_MPI_HYDRA_UUID"};
constexpr std::string_view kHydraContacts[] = {"PMI_FD", "PMI_PORT"};
constexpr std::string_view kSlurmJob[] = {"SLURM_JOB_ID", "SLURM_STEP_ID"};

// srun's step variables, not those of the job: a batch script is no rank of anything.
constexpr Launcher kLaunchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "",
     false,
     kTorchrunJob,
     kTorchrunName,
     {}},
    {"Open MPI's mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "",
     true,
     kOpenMpiJob,
     kOpenMpiJob,
     {}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "",
     "SLURM_STEP_NUM_NODES",
     true,
     kSlurmJob,
     kSlurmJob,
     {}},
    {"MPICH's mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", true,
     kHydraJob, kHydraJob, kHydraContacts},
};

/// "" for a variable that is not set, or that the launcher does not have.
std::string value_of(const Variables& variables, std::string_view name) {
  const auto found = variables.find(std::string(name));
  return name.empty() || found == variables.end() ? std::string() : found->second;
}

/// The number in a variable that the launcher sets.
Result<int> number(const Launcher& launcher, const Variables& variables, std::string_view name,
                   int least, int most) {
  const std::string text = value_of(variables, name);
  const auto parsed = parse_integer<int>(text);
  if (parsed && *parsed >= least && *parsed <= most) return *parsed;
  return Status::invalid_usage(std::string(name) + "='" + text + "' is no number from " +
                               std::to_string(least) + " to " + std::to_string(most) + "; " +
                               std::string(launcher.name) + " should have set it");
}

Status read_master(const Variables& variables, Launch& launch) {
  launch.master_host = value_of(variables, "MASTER_ADDR");
  const std::string port = value_of(variables, "MASTER_PORT");
  if (port.empty()) return {};
  const auto parsed = parse_integer<uint16_t>(port);
  if (!parsed || *parsed == 0) {
    return Status::invalid_usage("MASTER_PORT='" + port + "' is no port");
  }
  launch.master_port = *parsed;
  return {};
}

/// Every rank was told the same master, so a loopback address leaves one host.
bool is_loopback(const std::string& host) {
  const Result<Address> address = Address::parse(host);
  return host == "localhost" || (address.ok() && address.value().loopback());
}

bool on_one_host(const Launcher& launcher, const Variables& variables, const Launch& launch) {
  const auto local = parse_integer<int>(value_of(variables, launcher.local_ranks));
  const auto hosts = parse_integer<int>(value_of(variables, launcher.hosts));
  return local == launch.ranks || hosts == 1 || is_loopback(launch.master_host);
}

bool any_is_set(const Variables& variables, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return !value_of(variables, name).empty(); });
}

std::vector<std::string> place_of(const Launcher& launcher, const Variables& variables) {
  std::vector<std::string> place;
  if (!launcher.contacts.empty() && !any_is_set(variables, launcher.contacts)) return place;
  for (const std::string_view name :
       {launcher.rank, launcher.ranks, launcher.local_rank, launcher.local_ranks}) {
    const std::string value = value_of(variables, name);
    if (!value.empty()) place.push_back(std::string(name) + "=" + value);
  }
  return place;
}

}  // namespace

std::span<const Launcher> launchers() { return kLaunchers; }

Result<Launch> read_launch(const Launcher& launcher, const Variables& variables) {
  Launch launch;
  launch.how = launcher.name;
  launch.exchanges = launcher.exchanges;
  const Result<int> ranks = number(launcher, variables, launcher.ranks, 1, kMaxRanks);
  if (!ranks.ok()) return ranks.status();
  launch.ranks = ranks.value();
  const Result<int> rank = number(launcher, variables, launcher.rank, 0, launch.ranks - 1);
  if (!rank.ok()) return rank.status();
  launch.rank = rank.value();
  if (!value_of(variables, launcher.local_rank).empty()) {
    const Result<int> local = number(launcher, variables, launcher.local_rank, 0, kMaxRanks);
    if (!local.ok()) return local.status();
    launch.local_rank = local.value();
  }
  launch.job = launcher.name;
  for (const std::string_view name : launcher.job) launch.job += ":" + value_of(variables, name);
  launch.named = any_is_set(variables, launcher.names);
  launch.place = place_of(launcher, variables);
  if (Status status = read_master(variables, launch); !status.ok()) return status;
  launch.one_host = launch.ranks == 1 || on_one_host(launcher, variables, launch);
  return launch;
}

Result<Launch> find_launch(const Variables& variables) {
  std::string names;
  for (const Launcher& launcher : kLaunchers) {
    const bool started =
        !value_of(variables, launcher.rank).empty() && !value_of(variables, launcher.ranks).empty();
    if (started) return read_launch(launcher, variables);
    names += (names.empty() ? "" : ", ") + std::string(launcher.name) + " (" +
             std::string(launcher.rank) + " and " + std::string(launcher.ranks) + ")";
  }
  return Status::unsupported(
      "this process was not started as one rank of a job: the variables of no launcher are set; "
      "known are " +
      names + ", and whatever speaks PMIx or PMI2");
}

}  // namespace tutti::bootstrap
