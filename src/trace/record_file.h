// Flight recorders in files: what a communicator leaves behind when it fails.
//
// A file has one record after the other, of any communicators and processes of hosts of one kind,
// each with the reason and the time of the failure. Owns: nothing. Threads: any; a record is
// appended by one write, so ranks may share a file. Units: nanoseconds of CLOCK_MONOTONIC of the
// record's host, seconds of the wall clock. Errors: kSystemError where a file cannot be written or
// read; kRemoteError for what is no record of this version.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/trace/reader.h"

namespace tutti::trace {

/// Appends the recorder `file` (Recorder::file()) to what lies at `path`.
Status append_record(const std::string& path, const FailureRecord& failure, std::string_view file);

/// The same in the folder of the default path, which is this user's alone: it is made if it is
/// missing, and of its files the oldest are removed.
Status append_private_record(const std::string& path, const FailureRecord& failure,
                             std::string_view file);

/// All that can be read of `content`, which may hold anything, and what is wrong with the rest.
Recorders read_records(std::string_view content);
Result<Recorders> read_record_file(const std::string& path);

}  // namespace tutti::trace
