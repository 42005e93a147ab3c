// `tutti perf agent`: the part of `tutti perf --hosts` on one host. The launcher starts it there;
// it takes orders from its standard input, and starts the host's ranks.
//
// It greets with a line on its standard output. The orders are lines: "set NAME=VALUE" and "folder
// PATH", in which the ranks start; "word TEXT", of the ranks' command line; "ranks FIRST COUNT ALL
// THREADS", the processes of this host, and threads of each; "make-id", which is answered by "id
// HEX" or "failed WHY"; "id HEX"; and "run". From there on the standard output is the ranks'. When
// the standard input ends, so do the ranks: whoever gave the orders is gone, or wants no more.
#pragma once

#include <string>

namespace tutti::perf {

/// The line by which an agent of this version greets; those of other versions differ.
std::string agent_greeting();

/// The beginning of every agent's greeting.
inline constexpr const char* kAgentGreeting = "tutti perf agent ";

/// Returns the greatest exit code of the ranks.
int agent_main();

}  // namespace tutti::perf
