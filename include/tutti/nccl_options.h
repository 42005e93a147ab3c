/* Tutti's options for one call of a program of NCCL, which runs on the drop-in libnccl.so.2.
 *
 * NCCL 2.31 has every collective in a form with a configuration (ncclAllReduceConfig ...). The
 * configuration has a list of vendors' options, ncclCollConfig_t.ext, which NCCL itself ignores.
 * This header defines Tutti's entries of that list; a program that uses them runs on NCCL as
 * before.
 *
 *   ncclConfigExt_t limit = {NULL, {TUTTI_NCCL_VENDOR, tuttiNcclTimeoutMs}, {.i = 500}};
 *   ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
 *   config.ext = &limit;
 *   ncclAllReduceConfig(send, recv, count, ncclFloat, ncclSum, comm, stream, &config);
 *
 * Each option sets the member of tuttiOptions_t (tutti.h) with the same name; a member that the
 * list does not set has its default. This header can be included without tutti.h and NCCL's header.
 *
 * Units:    milliseconds where the name says so.
 * Owns:     the list and its texts are the caller's and are read during the call, also in a group.
 * Ordering: the order of the entries does not matter.
 * Errors:   ncclInvalidArgument, with a message that names the option, for an option of this vendor
 *           that Tutti does not know, that occurs twice, or whose value is not accepted; also for a
 *           list of more than TUTTI_NCCL_MOST_EXTENSIONS entries, which may be a circle. Entries of
 *           other vendors are ignored.
 */
#ifndef TUTTI_NCCL_OPTIONS_H_
#define TUTTI_NCCL_OPTIONS_H_

#define TUTTI_NCCL_VENDOR 0xd2c513     /* key.vendorId; drawn at random, as NCCL asks of vendors */
#define TUTTI_NCCL_MOST_EXTENSIONS 256 /* entries of all vendors together */

/* Values of key.optionId. An option that is marked "equal" must have the same value on all ranks,
 * like the arguments of the call. */
typedef enum {
  tuttiNcclAlgorithm = 1,     /* val.s: a name of docs/algorithms.md; NULL: no choice. Equal */
  tuttiNcclDeterministic = 2, /* val.i: 1: equal inputs give equal bits; or 0. Equal */
  tuttiNcclPriority = 3,      /* val.i: in a group, lower ones advance when no higher one can */
  tuttiNcclTimeoutMs = 4      /* val.i: a longer call is ncclTimeout; 0: as TUTTI_TIMEOUT says */
} tuttiNcclOption_t;

#endif /* TUTTI_NCCL_OPTIONS_H_ */
