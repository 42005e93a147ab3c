// The targets, one file for each kind of reader; targets.cc has the table.
#pragma once

#include "tests/fuzz/target.h"

namespace tutti::fuzz {

// From people and files: text_targets.cc.
bool run_unique_id(Bytes input);
std::vector<std::string> corpus_unique_id();
bool run_environment(Bytes input);
std::vector<std::string> corpus_environment();
bool run_schedule(Bytes input);
std::vector<std::string> corpus_schedule();
bool run_key_file(Bytes input);
std::vector<std::string> corpus_key_file();

// From programs, and files of NCCL's: config_targets.cc.
bool run_config(Bytes input);
std::vector<std::string> corpus_config();
bool run_nccl_config(Bytes input);
std::vector<std::string> corpus_nccl_config();
bool run_nccl_call_config(Bytes input);
std::vector<std::string> corpus_nccl_call_config();
bool run_nccl_file(Bytes input);
std::vector<std::string> corpus_nccl_file();

// From files that describe hosts and clusters: topology_targets.cc.
bool run_cluster_file(Bytes input);
std::vector<std::string> corpus_cluster_file();
bool run_devices(Bytes input);
std::vector<std::string> corpus_devices();
bool run_hwloc(Bytes input);
std::vector<std::string> corpus_hwloc();
bool run_links(Bytes input);
std::vector<std::string> corpus_links();

// From other processes: recorder_target.cc.
bool run_recorder(Bytes input);
std::vector<std::string> corpus_recorder();
bool run_record_file(Bytes input);
std::vector<std::string> corpus_record_file();

// From peers: wire_targets.cc.
bool run_frame(Bytes input);
std::vector<std::string> corpus_frame();
bool run_stream(Bytes input);
std::vector<std::string> corpus_stream();
bool run_handshake(Bytes input);
std::vector<std::string> corpus_handshake();
bool run_rendezvous(Bytes input);
std::vector<std::string> corpus_rendezvous();
bool run_card(Bytes input);
std::vector<std::string> corpus_card();

// From ranks that meet: meeting_targets.cc.
bool run_proposal(Bytes input);
std::vector<std::string> corpus_proposal();
bool run_memory(Bytes input);
std::vector<std::string> corpus_memory();

// From members that edit their group: edit_targets.cc.
bool run_edit_message(Bytes input);
std::vector<std::string> corpus_edit_message();
bool run_view(Bytes input);
std::vector<std::string> corpus_view();
bool run_epoch_card(Bytes input);
std::vector<std::string> corpus_epoch_card();
bool run_place(Bytes input);
std::vector<std::string> corpus_place();

}  // namespace tutti::fuzz
