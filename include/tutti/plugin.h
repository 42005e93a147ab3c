/* What the plugins of this project need beside tutti.h. Programs have no use for it.
 *
 * Threads: any. Errors: none. */
#ifndef TUTTI_PLUGIN_H_
#define TUTTI_PLUGIN_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { tuttiLogError = 1, tuttiLogWarn = 2, tuttiLogInfo = 3 } tuttiLogLevel_t;

/* One line in the log of the process, if TUTTI_LOG says as much; a warning that the library itself
 * has said as an error is not said again. Where the settings cannot be read it is one on the error
 * output, unless it is for information. */
TUTTI_API void tuttiLog(tuttiLogLevel_t level, const char* text);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PLUGIN_H_ */
