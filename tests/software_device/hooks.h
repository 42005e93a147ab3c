// Functions that the software device has beside the driver's interface. Tests find it with dlsym; a
// real driver has none of it, and the library under test never asks for it.
//
// Threads: any. Errors: none, but where a comment says so.
#pragma once

#include <cstddef>
#include <cstdint>

/// X(name): a counter of this process. Those that begin with live_ count what exists now.
#define SOFTDEV_STATISTICS(X) \
  X(copies)                   \
  X(copy_bytes)               \
  X(overlapping_copies)       \
  X(batches)                  \
  X(memory_operations)        \
  X(waits)                    \
  X(writes)                   \
  X(kernels)                  \
  X(thread_blocks)            \
  X(memsets)                  \
  X(host_functions)           \
  X(graph_launches)           \
  X(faults)                   \
  X(full_queues)              \
  X(live_device_bytes)        \
  X(live_allocations)         \
  X(live_pinned_bytes)        \
  X(live_handles)             \
  X(live_reservations)        \
  X(live_mappings)            \
  X(live_imports)             \
  X(live_registrations)       \
  X(live_modules)             \
  X(live_streams)             \
  X(live_events)              \
  X(live_user_objects)

extern "C" {

struct SoftdevStatistics {
#define SOFTDEV_FIELD(name) uint64_t name;
  SOFTDEV_STATISTICS(SOFTDEV_FIELD)
#undef SOFTDEV_FIELD
};
void softdev_statistics(SoftdevStatistics* out);
/// One counter by its name, for programs in C. All bits are set if there is none.
uint64_t softdev_statistic(const char* name);

/// How a kernel was launched: on which device, how many blocks of how many threads.
struct SoftdevLaunch {
  int device;
  unsigned blocks;
  unsigned threads;
};
/// A kernel is a function of the host that gets cuLaunchKernel's parameters and does the work of
/// all threads. Device pointers among them are turned into addresses by softdev_touch.
typedef void (*SoftdevKernel)(const SoftdevLaunch& launch, void** parameters);
void softdev_register_kernel(const char* name, SoftdevKernel kernel, const size_t* parameter_bytes,
                             int parameters);
/// For a kernel that runs: where it finds the memory, of which the checker hears that it is read or
/// written. Null: it is not all there; the device has failed then, as a board does.
void* softdev_touch(uint64_t address, size_t bytes, int device, bool writes);

/// Where a thread of the host may touch device memory. Null: it is not all there.
void* softdev_pointer(uint64_t address, size_t bytes);

/// For the happens-before checker: the calling process hands on what it knows to be done, under a
/// key that all ranks share, and takes what others handed on. A test calls them before and after
/// each exchange of ranks that does not go through the device.
void softdev_release(uint64_t key);
void softdev_acquire(uint64_t key);
/// How many races all processes of the checker's file have found, and whether its tables overflowed
/// (then nothing is proven).
unsigned softdev_races();
unsigned softdev_checker_overflows();
}
