// The log of the process, for plugins.
#include "include/tutti/plugin.h"
#include "src/api/process.h"
#include "src/base/caught.h"

extern "C" void tuttiLog(tuttiLogLevel_t level, const char* text) {
  tutti::attempt([=] {
    const auto process = tutti::api::Process::current();
    tutti::Logger plain(tutti::LogLevel::kWarning);
    tutti::Logger& log = process.ok() ? *process.value()->env().log : plain;
    if (level == tuttiLogError) {
      log.error("{}", text);
    } else if (level == tuttiLogWarn) {
      if (!log.said_as_error(text)) log.warning("{}", text);
    } else {
      log.info("{}", text);
    }
  });
}
