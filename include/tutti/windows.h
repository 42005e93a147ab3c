/* Windows: one-sided access to the memory of other ranks. A part of tutti.h, which includes it.
 *
 * A window consists of a part of memory on each rank. A rank that accesses a peer's part is the
 * origin, and the peer is the target. The target needs no call for it and may compute meanwhile; it
 * calls tuttiWaitSignal() to learn that data has come.
 *
 * Progress: ranks of one host copy to and from the target's part themselves. Accesses from other
 *           hosts are served on the target by whichever of its threads waits in a call on the
 *           communicator, else by a thread of the library. A process has one such thread from its
 *           first window that spans hosts on; it sleeps while no access comes.
 * Memory:   a part may lie in any host memory, and every rank can access it; or in the memory of a
 *           device, see below. Processes of one host
 *           map each other's memory if it is from tuttiMemAlloc(). They access other memory through
 *           the kernel (process_vm_writev), which is slower for small puts; where the kernel does
 *           not permit it (ptrace_scope, some containers) an access is tuttiUnsupported. `source`
 *           and `target` may lie in device memory on a CUDA stream.
 * Devices:  parts may lie in device memory on some ranks or all: of the device that was current
 *           when the communicator was made, from tuttiMemAllocFor(), or from cuMemCreate with a
 *           POSIX descriptor. With other memory of a device, or where the devices of the host do
 *           not reach each other, the registration is tuttiUnsupported on all ranks, and the
 *           message names the rank. Puts to such a part and gets from it are for ranks of its host
 *           alone, on CUDA streams, eager or captured, from and into device or pinned memory: the
 *           stream itself copies from device to device. Else they are tuttiUnsupported, with the
 *           reason. Signals go everywhere. A stream that holds an eager access is accessing the
 *           part until it is past that, so ending the part waits for it, also for this rank's own.
 *           A graph that holds one is not waited for: launch it only while the part is there. A
 *           run that comes later fails the communicator, and has copied.
 * Ordering: the accesses of one rank to one peer take effect in the order of their calls, over all
 *           windows of the communicator. So a peer that sees a signal sees the data of all earlier
 *           puts, and when a get completes, even one of 0 bytes, all earlier puts of this rank are
 *           in the peer's memory. Accesses of different ranks have no order. A collective does not
 *           wait for puts: let the target wait for signals, or each origin get before the
 *           collective.
 * Errors:   a range that exceeds the peer's part is tuttiInvalidArgument. The peer checks again,
 *           and closes its connection to a rank that exceeds it nevertheless. An access to a part
 *           that was deregistered is tuttiInvalidUsage and does not touch it. A put to another host
 *           may have returned before this was known; then a later call to that part returns the
 *           error. After these errors, and after tuttiUnsupported, the communicator is as usable as
 *           before. Deadlines and ranks that die are treated as in collectives.
 * Edits:    a window stays open when the members of its communicator change (edits.h).
 * Groups:   a group runs puts, gets and signals after its other operations, and waits for signals
 *           last. */
#ifndef TUTTI_WINDOWS_H_
#define TUTTI_WINDOWS_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiWindow* tuttiWindow_t;
/* Signals are numbered from 0 to 15, separately for each window and each ordered pair of ranks;
 * another number is tuttiInvalidArgument. */
#define TUTTI_WINDOW_SIGNALS 16

/* Makes a window, in which this rank's part is `bytes` bytes from `base` on. All ranks call it
 * (collective); their parts may have any sizes, 0 included. The memory stays the caller's, who
 * keeps it valid until the part is deregistered or the communicator has ended. `flags` is 0. It
 * waits for queued operations. In a group it runs when the group ends, before the operations;
 * `window` must point to valid memory until then. */
TUTTI_API tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* base, size_t bytes,
                                                tuttiWindow_t* window, int flags);
/* Ends this rank's part of the window; each other rank ends its own part. Accesses that come later
 * are refused, so first make sure, by signals or a collective, that the peers are done.
 * It waits for peers that are accessing the part at that moment, as long as a call may take and at
 * most 60 s; then it returns tuttiTimeout, and the communicator has failed. It never waits for
 * queued operations. After it has returned no rank touches the part, except if the communicator has
 * failed and the error names a rank that is still accessing it: then keep the memory until that
 * process has ended. */
TUTTI_API tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t window);
/* Sets *number to the window's number in its communicator: equal on all ranks, and larger than
 * those of windows that were made before. Edits keep it. */
TUTTI_API tuttiResult_t tuttiWindowGetNumber(tuttiWindow_t window, uint32_t* number);
/* A newcomer's part of a window that the group has open. */
typedef struct {
  void* base; /* as tuttiCommWindowRegister() takes it */
  size_t bytes;
  tuttiWindow_t window; /* set by the call; NULL: the group has no window for it */
} tuttiWindowPart_t;
/* tuttiCommJoin() (edits.h) with memory for windows: parts[i] becomes this rank's part of the
 * window with the i-th least number (tuttiWindowGetNumber) of those that are open. Of windows
 * beyond `count` it has a part of no bytes, and no handle. `parts` must be valid until the call is
 * over, also where the communicator does not block. */
TUTTI_API tuttiResult_t tuttiCommJoinWindows(tuttiComm_t* comm, const tuttiUniqueId* id,
                                             const tuttiConfig_t* config, tuttiWindowPart_t* parts,
                                             int count);
/* Copies `bytes` bytes from `source` to `peer`'s part, `offset` bytes from its begin. When it has
 * completed `source` may be overwritten; the data need not have arrived. The peer may read it after
 * a later signal of this rank. */
TUTTI_API tuttiResult_t tuttiPut(const void* source, size_t bytes, int peer, tuttiWindow_t window,
                                 size_t offset, tuttiStream_t stream);
/* Copies `bytes` bytes from `peer`'s part, `offset` bytes from its begin, to `target`. When it has
 * completed `target` holds the data. */
TUTTI_API tuttiResult_t tuttiGet(void* target, size_t bytes, int peer, tuttiWindow_t window,
                                 size_t offset, tuttiStream_t stream);
/* Does a put and then a signal. */
TUTTI_API tuttiResult_t tuttiPutSignal(const void* source, size_t bytes, int peer,
                                       tuttiWindow_t window, size_t offset, uint32_t signal,
                                       tuttiStream_t stream);
/* Sends a signal to `peer`, which arrives there after the data of all earlier puts of this rank. */
TUTTI_API tuttiResult_t tuttiSignal(int peer, tuttiWindow_t window, uint32_t signal,
                                    tuttiStream_t stream);
/* Waits until `peer` has sent this signal `times` times, not counting those that this rank has
 * waited for before. */
TUTTI_API tuttiResult_t tuttiWaitSignal(int peer, tuttiWindow_t window, uint32_t signal,
                                        uint64_t times, tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_WINDOWS_H_ */
