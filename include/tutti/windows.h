/* Windows: one-sided access to the memory of other ranks. A part of tutti.h, which includes it.
 *
 * The target calls nothing but tuttiWaitSignal(), and may compute meanwhile. Ranks of one host copy
 * to and from its part themselves. What comes from other hosts is stored and answered there by the
 * thread of a call of that communicator that waits, and otherwise by a thread of the library: one
 * for each process, from its first window that spans hosts on; it sleeps while nothing comes.
 *
 * Reach:  all memory, by all ranks. Processes of one host map what is from tuttiMemAlloc; other
 *         memory the kernel copies (process_vm_writev): less fast for small puts, and where it is
 *         not permitted (ptrace_scope, some containers) an access is tuttiUnsupported.
 * Order:  what one rank does to one peer takes effect in the order of its calls, in all windows of
 *         the communicator. So a signal is seen after the data of all earlier puts, and a get (of 0
 *         bytes, too) ends when all earlier puts of this rank are in the peer's memory. Nothing is
 *         promised between the operations of different ranks, and a collective does not wait for
 *         puts: the target waits for signals, or the origins get before the collective.
 * Errors: a range beyond the peer's part is tuttiInvalidArgument here; the peer checks again, and
 *         gives up the connection to a rank that goes beyond. A part that was deregistered is
 *         tuttiInvalidUsage and stays untouched; a put to another host may have returned before
 *         this was known, then a later call to that part says so. After such an error, as after
 *         tuttiUnsupported, the communicator is as usable as before. Deadlines and dead ranks: as
 *         collectives.
 * Groups: run these behind their other operations, and wait for signals last. */
#ifndef TUTTI_WINDOWS_H_
#define TUTTI_WINDOWS_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiWindow* tuttiWindow_t;
/* Signals have the numbers 0 to 15, of their own for each window and each ordered pair of ranks;
 * another number is tuttiInvalidArgument. */
#define TUTTI_WINDOW_SIGNALS 16

/* Collective. Every rank brings a part, of any size, 0 included; `base` is anywhere in memory that
 * stays the caller's until it has deregistered the part or ended the communicator. `flags` is 0.
 * Waits for what is queued. In a group it runs at its end, before the operations: *window must stay
 * valid until then. */
TUTTI_API tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* base, size_t bytes,
                                                tuttiWindow_t* window, int flags);
/* Ends this rank's part; the other ranks' are their own affair. Waits for peers in the part, never
 * for operations: as long as a call may take, at most 60 s, then it is tuttiTimeout and the
 * communicator has failed. What comes later is refused, so first know, by signals or a collective,
 * that they are done. Then nobody touches the part, unless the communicator fails and the error
 * names who is still inside: keep the memory until that process ends. */
TUTTI_API tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t window);
/* Copies to `peer`'s part at `offset` bytes. Complete: `source` may be overwritten. The peer may
 * read it behind a later signal of this rank. */
TUTTI_API tuttiResult_t tuttiPut(const void* source, size_t bytes, int peer, tuttiWindow_t window,
                                 size_t offset, tuttiStream_t stream);
/* Copies from `peer`'s part at `offset` bytes. Complete: `target` is filled. */
TUTTI_API tuttiResult_t tuttiGet(void* target, size_t bytes, int peer, tuttiWindow_t window,
                                 size_t offset, tuttiStream_t stream);
/* A put, then a signal. */
TUTTI_API tuttiResult_t tuttiPutSignal(const void* source, size_t bytes, int peer,
                                       tuttiWindow_t window, size_t offset, uint32_t signal,
                                       tuttiStream_t stream);
/* Behind all earlier puts of this rank to `peer`. */
TUTTI_API tuttiResult_t tuttiSignal(int peer, tuttiWindow_t window, uint32_t signal,
                                    tuttiStream_t stream);
/* Until `peer` has signalled `times` times more than this rank has waited for before. */
TUTTI_API tuttiResult_t tuttiWaitSignal(int peer, tuttiWindow_t window, uint32_t signal,
                                        uint64_t times, tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_WINDOWS_H_ */
