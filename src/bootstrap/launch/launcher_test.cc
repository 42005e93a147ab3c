#include "src/bootstrap/launch/launcher.h"

#include <gtest/gtest.h>

namespace tutti::bootstrap {
namespace {

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};

Launch read(const Variables& variables) {
  const Result<Launch> launch = find_launch(variables);
  EXPECT_TRUE(launch.ok()) << launch.status().message();
  return launch.ok() ? launch.value() : Launch{};
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(Launcher, Torchrun) {
  const Launch launch = read(kTorchrun);
  EXPECT_EQ(launch.how, "torchrun");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.ranks, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_FALSE(launch.one_host);
  EXPECT_EQ(launch.master_host, "10.0.0.1");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_FALSE(launch.exchanges);
  EXPECT_TRUE(read(with(kTorchrun, "LOCAL_WORLD_SIZE", "4")).one_host);
}

TEST(Launcher, ARestartedJobIsAnotherJob) {
  EXPECT_EQ(read(kTorchrun).job, read(with(kTorchrun, "RANK", "0")).job);
  EXPECT_NE(read(kTorchrun).job, read(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "1")).job);
  EXPECT_NE(read(kTorchrun).job, read(with(kTorchrun, "MASTER_PORT", "29501")).job);
}

TEST(Launcher, AShellLoopNeedsRankAndSizeOnly) {
  const Launch launch = read({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(launch.local_rank, -1);
  EXPECT_FALSE(launch.one_host) << "nobody said so";
  EXPECT_TRUE(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}).one_host);
  EXPECT_TRUE(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}).one_host);
  EXPECT_TRUE(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).one_host);
}

TEST(Launcher, TheInnermostCounts) {
  Variables both = kTorchrun;
  both["OMPI_COMM_WORLD_RANK"] = "0";
  both["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_EQ(read(both).how, "torchrun");
  const Launch mpirun = read({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"SLURM_PROCID", "0"},
                              {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_EQ(mpirun.how, "Open MPI's mpirun");
  EXPECT_TRUE(mpirun.one_host);
  EXPECT_TRUE(mpirun.exchanges);
}

TEST(Launcher, SrunButNoBatchScript) {
  Variables batch = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}};
  EXPECT_EQ(find_launch(batch).status().code(), Code::kUnsupported);
  batch["SLURM_STEP_NUM_TASKS"] = "8";
  batch["SLURM_STEP_NUM_NODES"] = "2";
  EXPECT_FALSE(read(batch).one_host);
  EXPECT_TRUE(read(with(batch, "SLURM_STEP_NUM_NODES", "1")).one_host);
}

TEST(Launcher, MpichsMpiexec) {
  const Variables hydra = {{"PMI_RANK", "2"},
                           {"PMI_SIZE", "4"},
                           {"MPI_LOCALRANKID", "0"},
                           {"MPI_LOCALNRANKS", "2"},
                           {"PMI_JOBID", "kvs_77"}};
  const Launch launch = read(hydra);
  EXPECT_EQ(launch.how, "MPICH's mpiexec");
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.ranks, 4);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_FALSE(launch.one_host);
  EXPECT_TRUE(launch.exchanges);
  EXPECT_TRUE(read(with(hydra, "MPI_LOCALNRANKS", "4")).one_host);
  EXPECT_NE(launch.job, read(with(hydra, "PMI_JOBID", "kvs_78")).job);
}

TEST(Launcher, SaysWhetherItsJobsHaveNames) {
  EXPECT_TRUE(read(kTorchrun).named);
  EXPECT_FALSE(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}}).named);
  const Variables hydra = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  EXPECT_FALSE(read(hydra).named);
  EXPECT_TRUE(read(with(hydra, "I_MPI_HYDRA_UUID", "7")).named);
  EXPECT_NE(read(with(hydra, "I_MPI_HYDRA_UUID", "7")).job,
            read(with(hydra, "I_MPI_HYDRA_UUID", "8")).job);
}

TEST(Launcher, WhatTellsARankItsPlaceIsKnownOfWhoIsTheLauncher) {
  const std::vector<std::string> loop = {"RANK=0", "WORLD_SIZE=2"};
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).place, loop);
  const Variables hydra = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  EXPECT_TRUE(read(hydra).place.empty()) << "Hydra's proxy is in contact with each rank";
  const std::vector<std::string> rank = {"PMI_RANK=0", "PMI_SIZE=2"};
  EXPECT_EQ(read(with(hydra, "PMI_FD", "6")).place, rank);
  EXPECT_EQ(read(with(hydra, "PMI_PORT", "host:4000")).place, rank);
}

TEST(Launcher, NonsenseIsNamed) {
  const auto refusal = [](const char* name, const char* value) {
    const Result<Launch> launch = find_launch(with(kTorchrun, name, value));
    EXPECT_EQ(launch.status().code(), Code::kInvalidUsage) << name << "=" << value;
    return std::string(launch.status().message());
  };
  EXPECT_NE(refusal("RANK", "4").find("RANK='4' is no number from 0 to 3"), std::string::npos);
  for (const char* size : {"0", "-1", "x", "4 ", "99999999"}) refusal("WORLD_SIZE", size);
  refusal("LOCAL_RANK", "x");
  refusal("MASTER_PORT", "0");
  refusal("MASTER_PORT", "70000");
  EXPECT_NE(find_launch({}).status().message().find("OMPI_COMM_WORLD_RANK"),
            std::string_view::npos);
}

}  // namespace
}  // namespace tutti::bootstrap
