// Memory that has a descriptor: what a process shares with others that it hands the descriptor to.
//
// Owns: the caller gets the descriptor. Units: bytes. Threads: any. Errors: kSystemError says what
// to do about it: where memfd_create is forbidden, or the limit of file sizes lies below.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti {

/// A memfd of zeros, whose size can never change: nobody can make another process's loads and
/// stores fault by truncating it. `label` shows in /proc/PID/maps. A page takes memory when it is
/// first touched.
Result<Fd> make_memory_file(const std::string& label, size_t bytes);

/// Whether a descriptor that somebody else made is such a file.
Status check_memory_file(int fd);

}  // namespace tutti
