#include "tests/fuzz/targets.h"

#include <cstdio>
#include <cstdlib>

namespace tutti::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"unique_id", run_unique_id, corpus_unique_id, 400},
    {"environment", run_environment, corpus_environment, 2000},
    {"schedule", run_schedule, corpus_schedule, 6000},
    {"key_file", run_key_file, corpus_key_file, 200},
    {"config", run_config, corpus_config, 5000},
    {"nccl_config", run_nccl_config, corpus_nccl_config, 5000},
    {"nccl_call_config", run_nccl_call_config, corpus_nccl_call_config, 5000},
    {"nccl_file", run_nccl_file, corpus_nccl_file, 2000},
    {"frame", run_frame, corpus_frame, 100},
    {"stream", run_stream, corpus_stream, 8000},
    {"handshake", run_handshake, corpus_handshake, 400},
    {"rendezvous", run_rendezvous, corpus_rendezvous, 2000},
    {"card", run_card, corpus_card, 2000},
    {"proposal", run_proposal, corpus_proposal, 600},
    {"memory", run_memory, corpus_memory, 200},
    {"edit_message", run_edit_message, corpus_edit_message, 1000},
    {"view", run_view, corpus_view, 600},
    {"epoch_card", run_epoch_card, corpus_epoch_card, 200},
    {"place", run_place, corpus_place, 400},
    {"recorder", run_recorder, corpus_recorder, 32000},
    {"record_file", run_record_file, corpus_record_file, 64000},
    {"cluster_file", run_cluster_file, corpus_cluster_file, 4000},
    {"devices", run_devices, corpus_devices, 4000},
    {"hwloc", run_hwloc, corpus_hwloc, 4000},
    {"links", run_links, corpus_links, 2000},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

}  // namespace tutti::fuzz
