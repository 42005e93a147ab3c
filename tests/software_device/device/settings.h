// SOFTDEV_*: how the software device behaves. docs/software_device.md has the table for users.
#pragma once

#include <string>

namespace softdev {

struct Settings {
  long devices = 1;
  long island = 0;            // so many devices reach each other's memory; 0: all do
  long island_said = 1;       // 0: cuDeviceCanAccessPeer does not know, mapping still fails
  long version = 13000;       // of CUDA: which functions and interfaces there are
  long channels = 0;          // hardware queues that the streams of a context share; 0: one each
  long queue_entries = 1020;  // operations behind one that waits, then who adds one waits; 0: any
  long engines = 3;           // copies that run at once
  long memory_mb = 4096;      // of each device
  long piece_bytes = 65536;   // a copy is made of pieces
  long shuffle = 1;           // pieces of a batch in random order
  long skew_us = 0;           // a stream is slow for some operations, then fast for some
  long seed = 0;              // of all chance; 0: another one each time
  long free_waits = 1;        // freeing memory waits for all work of the context
  long dmabuf = 1;            // 0: there are no dmabufs of device memory
  long event_waits = 1;       // 0: a stream that waits for an event goes on at once
  long graph_queues = 0;      // 1: a node of a graph that waits holds up all of the run
  long init_result = 0;       // what cuInit returns: a driver that cannot be used
  long module_result = 0;     // what cuModuleLoadData returns: an image that cannot be loaded
  long function_loads = 1;    // a function is loaded, behind all kernels that run, when the program
                              // gets it; 2: when it is launched first; 0: before
  long kernels = 1;           // 0: images have no functions but those that tests register
  long mps = 0;               // 1: processes share a device by MPS, as the driver says
  long multiprocessors = 132;
  long multicast_fault = 0;  // a switch loads from one device (1), or stores to one (2)
  long multicast = 0;        // so many devices, from the first, have it
  long statistics = 0;       // counters are printed when the process ends
  long thread_clocks = 0;    // the checker knows nothing of order between a process's threads
  std::string checker;       // file of the happens-before checker, one for all ranks
};

/// Whether a device reaches the memory of another one.
bool are_near(int device, int peer);

/// Read when it is first needed.
const Settings& settings();

/// A variable that begins with SOFTDEV_ and is none of them, or no number. Empty: all are right.
const std::string& wrong_variable();

}  // namespace softdev
