// Words about calls on devices, for people and for the comparison of calls.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstdint>
#include <string>

#include "src/comm/request.h"
#include "src/diagnosis/described_call.h"
#include "src/exec/stream_rank.h"

namespace tutti::comm {

inline constexpr const char* kApart = "the ranks are not all on one host, by shared memory";

/// "1 kernel", "2 kernels".
std::string number_of(uint64_t count, const char* what);
/// A whole number of microseconds.
std::string in_us(double ns);
std::string text_of(const exec::DeviceCounts& counts);
std::string text_of(const plan::Plan& plan, const exec::DeviceCounts& counts);
/// A line of tuttiExplain about a call that goes by the host, though `asked` by its options.
std::string not_by_streams(const Status& why, EngineWish asked);
/// Of a call whose ranks know no more of it in common.
uint32_t signature_of(const diagnosis::DescribedCall& call);

}  // namespace tutti::comm
