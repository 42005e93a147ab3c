/* A plugin of this project writes to Tutti's log by this header. Programs have no use for it.
 *
 * Threads: any.
 * Errors:  none. */
#ifndef TUTTI_PLUGIN_H_
#define TUTTI_PLUGIN_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { tuttiLogError = 1, tuttiLogWarn = 2, tuttiLogInfo = 3 } tuttiLogLevel_t;

/* Writes one line to the log of the process if TUTTI_LOG includes its level. `text` ends with a NUL
 * and is read during the call. A warning that the library itself has already logged as an error is
 * left out. If the settings cannot be read, errors and warnings go to the error output. */
TUTTI_API void tuttiLog(tuttiLogLevel_t level, const char* text);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PLUGIN_H_ */
