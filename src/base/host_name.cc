#include "src/base/host_name.h"

#include <sys/utsname.h>

namespace tutti {

std::string host_name() {
  utsname names{};
  const bool named = uname(&names) == 0 && names.nodename[0] != '\0';
  return named ? names.nodename : "host";
}

}  // namespace tutti
