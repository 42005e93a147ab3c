/* Tutti's options for one call of a program of NCCL, which runs on the drop-in libnccl.so.2.
 *
 * NCCL 2.31 has every collective in a form with a configuration (ncclAllReduceConfig ...), and in
 * the configuration a list of vendors' options, ncclCollConfig_t.ext, which NCCL itself ignores.
 * These are Tutti's entries of that list; a program that has them runs on NCCL as it did before.
 *
 *   ncclConfigExt_t limit = {NULL, {TUTTI_NCCL_VENDOR, tuttiNcclTimeoutMs}, {.i = 500}};
 *   ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
 *   config.ext = &limit;
 *   ncclAllReduceConfig(send, recv, count, ncclFloat, ncclSum, comm, stream, &config);
 *
 * Each option is the member of tuttiOptions_t with the same name (tutti.h), at its default where
 * the list does not have it. It needs nothing of tutti.h or of NCCL's header to be included.
 *
 * Units:    milliseconds where the name says so.
 * Lifetime: the list and its texts are read during the call, also in a group.
 * Ordering: of the entries, none.
 * Errors:   ncclInvalidArgument, with the option, for an option of this vendor that Tutti does not
 *           know, that is there twice, or whose value it does not take; and for a list of more than
 *           TUTTI_NCCL_MOST_EXTENSIONS entries, which may be a circle. Entries of other vendors are
 *           ignored.
 */
#ifndef TUTTI_NCCL_OPTIONS_H_
#define TUTTI_NCCL_OPTIONS_H_

#define TUTTI_NCCL_VENDOR 0xd2c513     /* key.vendorId; random, as NCCL wants its vendors' ids */
#define TUTTI_NCCL_MOST_EXTENSIONS 256 /* of all vendors together */

/* key.optionId. "Equal" ones must be so on all ranks, as the arguments of the call. */
typedef enum {
  tuttiNcclAlgorithm = 1,     /* val.s: a name of docs/algorithms.md; NULL: as without. Equal */
  tuttiNcclDeterministic = 2, /* val.i: 1: only schedules in the canonical order; or 0. Equal */
  tuttiNcclPriority = 3,      /* val.i: in a group, a lower one advances when no higher one can */
  tuttiNcclTimeoutMs = 4      /* val.i: what takes longer is ncclTimeout; 0: TUTTI_TIMEOUT */
} tuttiNcclOption_t;

#endif /* TUTTI_NCCL_OPTIONS_H_ */
