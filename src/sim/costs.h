// The costs of a rank's own work: the constants of a simulation beside its network.
//
// Units: nanoseconds, bytes. Threads: a value.
#pragma once

namespace tutti::sim {

struct Costs {
  // Memory that ranks of a host map. One core copies or folds; a fold of k sources reads k + 1
  // halves of a copy's traffic.
  double copy_ns_per_byte = 0.09;
  double signal_ns = 50;   // a store that others wait for
  double read_ns = 1'000;  // the system call of a single copy
  int cores = 0;           // of a host; 0: one for each rank
  double turn_ns = 4'000;  // of the scheduler, before a rank without a core of its own goes on

  // Messages by stream.
  double message_ns = 2'000;         // of a core, at each end
  double stream_latency_ns = 8'000;  // one way, beside the links': kernels, and waking up
  double stream_bytes_per_ns = 0;    // of one connection, through both kernels; 0: unbounded
  double header_bytes = 32;          // of a message
  double segment_bytes = 1'448;      // of a packet, and what goes with it on the wire
  double segment_overhead_bytes = 66;
  double eager_bytes = 64 << 10;    // that go before the receive is posted
  double socket_bytes = 256 << 10;  // that the kernel takes before they are on the wire

  double wire_bytes(double payload) const {
    return (payload + header_bytes) * (1 + segment_overhead_bytes / segment_bytes);
  }
};

}  // namespace tutti::sim
