// The kernel's copies between the memories of two processes (process_vm_readv, process_vm_writev),
// which not every machine permits: tests that need them ask first, others have them refused.
//
// Threads: any; siblings_may_copy() forks.
#pragma once

namespace tutti::testing_support {

/// Tried by two children of this process, as ranks of one host are. Tests that need it skip.
bool siblings_may_copy();
inline constexpr const char* kNoSingleCopies =
    "this machine does not permit process_vm_writev between processes of one parent "
    "(ptrace_scope, a container)";

/// Refuses copies by the kernel as a container's profile does, for this thread and those that it
/// starts. False: errno.
bool refuse_single_copies();

}  // namespace tutti::testing_support
