// Finds the files, sockets and memory that dead processes may leave behind.
//
// Threads: no state.
// Errors:  what cannot be read counts as absent.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace tutti::kill_test {

/// Names in /dev/shm, and of sockets and files in /tmp that carry Tutti's name.
std::set<std::string> visible_files();
/// The inodes of a process's sockets.
std::set<std::string> sockets_of(pid_t pid);
/// Which of these sockets still exist, as lines of /proc/net/unix.
std::vector<std::string> living_unix_sockets(const std::set<std::string>& inodes);
/// Descriptors and mappings of Tutti's memory in this process.
std::vector<std::string> memory_of_this_process();
bool has_children();

}  // namespace tutti::kill_test
