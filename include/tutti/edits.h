/* Edits in place: the members of a communicator change, its handle stays. A part of tutti.h, which
 * includes it. docs/elastic.md has a picture of the sequence.
 *
 * An edit makes the next epoch of a communicator. Members that stay keep their handle, their member
 * id and their connections over TCP; they may get another rank. Each of them calls tuttiCommEdit()
 * with an equal edit, in any order and at any time; newcomers call tuttiCommJoin(). A communicator
 * that has failed works again after an edit.
 *
 * Deciding: the members agree (docs/decisions/0062), and what they have adopted is final.
 *           - Of ranks that are named as leaving, the callers' word counts, and all that stay must
 *             agree. Two parts of a group that name each other become two groups.
 *           - "Whoever is dead", all members on one host: the kernel says who is dead, and all
 *             others must agree. On several hosts: more than half of all members of the epoch must
 *             agree; of exactly half, the half with the least member id.
 *           A stopped process is not dead: name it to remove it. Ranks that are threads live as
 *           long as their process, or until their communicator is destroyed.
 * Waiting:  first for this rank's own queued operations, then for the members and the newcomers,
 *           all of it within the edit's time limit. An error names the members that did not answer.
 *           The communicator takes no other call meanwhile; if it does not block (tuttiConfig_t),
 *           the call returns tuttiInProgress and tuttiCommGetAsyncError() says when it is over.
 * Errors:   until the members have adopted the next epoch, an error leaves handle, rank and epoch
 *           as they were, and the edit may be repeated: a time limit, too few members, a newcomer
 *           that does not come, different edits. If somebody dies behind the adoption, before the
 *           links are made, an edit that removes whoever is dead goes on by itself. Any other ends
 *           with tuttiRemoteError; then rank and epoch are the adopted ones, and calls fail until
 *           the communicator is edited again.
 * Windows:  stay open, with their handles, numbers and offsets. Signals belong to members: those
 *           that have come and were not waited for are left, under the member's new rank, and a
 *           newcomer's begin at 0. Newcomers bring parts of their own (tuttiCommJoinWindows). Puts
 *           of members that stay, before the edit, are there after it; only of a communicator
 *           that had failed may accesses to another host be lost, with their signals.
 * Memory:   registered memory stays registered if all members have it. A newcomer has none: then,
 *           and where a member has deregistered, calls use staging, and handles are valid until
 *           tuttiCommDeregister(). Register anew on all ranks to have the rest of it back.
 * Fences:   rings and counters of an epoch lie in memory that no later epoch uses, so a removed
 *           member that lives, stopped or not, changes no byte of it. Over other hosts its
 *           connections are closed. On one host it begins no access to windows any more. But before
 *           it is removed this rank waits for one that is in the middle of one, or has graphs that
 *           put into this rank's part in device memory, and for each one if this rank has
 *           registered memory, until it has ended its communicator or its process, or destroyed
 *           those graphs; or it is killed (kill_removed). Behind the end of its communicator it
 *           must launch none of them. An edit that ends at its deadline names it, and leaves all as
 *           it was. Threads of this process are not fenced. It cannot be kept from reading the
 *           buffers of calls that it had begun.
 * Devices:  a rank stays at its device; a newcomer has the one that is current in its thread, as
 *           with every call that makes a communicator. Behind an edit, calls on CUDA streams go as
 *           those of a new communicator of the same ranks would, on the same streams as before.
 *           An edit waits until this rank's streams are past its calls and runs of graphs, within
 *           its time limit; a failure, a revoke or `abort` lets them go. A graph that was captured
 *           before does nothing in later epochs but come to its end, of which the log warns once,
 *           and keeps their rings' memory: destroy it, and capture the calls anew. If rings cannot
 *           be made, the edit succeeds, the log says why on every rank, and calls go by the host
 *           until the next edit.
 * Threads:  as for all calls on a communicator: one at a time. */
#ifndef TUTTI_EDITS_H_
#define TUTTI_EDITS_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In tuttiEdit_t.order: a newcomer. */
#define TUTTI_NEWCOMER -1

/* An edit, equal on all ranks that stay except for `abort`, `timeout_ns` and `kill_removed`. A
 * structure of another version may be shorter or longer, as tuttiConfig_t may. Pointers must be
 * valid until the edit is over. By default a newcomer takes the number of a rank that leaves; the
 * others keep theirs as far as no gap is left, and further newcomers come last. */
typedef struct {
  size_t size;         /* sizeof(tuttiEdit_t) */
  int remove_dead;     /* 1: whoever is dead leaves. 0: those that are named, or nobody */
  int removed_count;   /* of `removed` */
  const int* removed;  /* ranks of the present epoch, dead or alive, that leave; not the caller's */
  int newcomers;       /* how many are waited for */
  int order_count;     /* of `order` */
  const int* order;    /* NULL, or the next epoch's ranks in order: each a rank of the present epoch
                          or TUTTI_NEWCOMER; a rank that is not listed leaves. Then `removed_count`
                          is 0, and `newcomers` 0 or their number */
  int at_least;        /* how many members must agree, if that is more than the rule demands */
  int abort;           /* 1: operations in flight end with an error. 0: they are waited for */
  uint64_t timeout_ns; /* of the whole edit. 0: a minute; UINT64_MAX: none */
  int kill_removed;    /* 1: a removed process of this host and user that lives and does not let go
                          of this rank's memory within 0.3 s is killed. 0: it is waited for */
} tuttiEdit_t;

#define TUTTI_EDIT_INITIALIZER \
  { sizeof(tuttiEdit_t), 0, 0, NULL, 0, 0, NULL, 0, 0, 0, 0 }

/* The outcome of an edit, as this rank saw it. The caller sets `size` before. Connections are those
 * of this rank's links; ranks that are threads of one process have none. */
typedef struct {
  size_t size;    /* sizeof(tuttiEditReport_t) */
  uint32_t epoch; /* that began */
  int rank;       /* of the caller, in it */
  int ranks;
  int removed;
  int joined;
  int links_kept; /* serve the old and the new epoch */
  int links_made_for_newcomers;
  int links_made_at_first_use; /* between members that had none before */
  int links_made_again;        /* by a transport that has one for each epoch: shared memory */
  int links_closed;            /* to members that left */
  uint64_t drain_ns;           /* until this rank's own operations were over */
  uint64_t agree_ns;           /* until the members had agreed */
  uint64_t build_ns;           /* until the new epoch's links were made */
  uint64_t move_ns;            /* until the old epoch had ended */
  int windows_kept;            /* of this rank's, open in the new epoch */
  int registrations_kept;      /* of this rank's, that calls of the new epoch may use */
} tuttiEditReport_t;

/* A member's id: it stays, whatever becomes of its rank, and it is equal on all ranks. Compare ids
 * by their bytes. */
typedef struct {
  unsigned char bytes[24];
} tuttiMemberId;

/* Changes the members of `comm`. `report` may be NULL; otherwise it must be valid until the edit is
 * over. */
TUTTI_API tuttiResult_t tuttiCommEdit(tuttiComm_t comm, const tuttiEdit_t* edit,
                                      tuttiEditReport_t* report);
/* A newcomer joins the communicator from which the id was made (tuttiCommGetUniqueId), at the next
 * edit that waits for one. The rank that made the id must take part in that edit; one id serves any
 * number of newcomers and edits. It follows the rules of all calls that make communicators: it
 * waits until TUTTI_INIT_TIMEOUT or tuttiCommAbort(). */
TUTTI_API tuttiResult_t tuttiCommJoin(tuttiComm_t* comm, const tuttiUniqueId* id,
                                      const tuttiConfig_t* config);
/* Sets *epoch to the number of edits that the group has had. */
TUTTI_API tuttiResult_t tuttiCommGetEpoch(tuttiComm_t comm, uint32_t* epoch);
/* Sets *id to the id of the member that has this rank in the present epoch. */
TUTTI_API tuttiResult_t tuttiCommGetMemberId(tuttiComm_t comm, int rank, tuttiMemberId* id);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_EDITS_H_ */
