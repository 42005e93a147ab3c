#include "plugins/nccl/settings.h"

namespace tutti::nccl {

bool find_setting(std::string_view name, Setting& setting) {
  for (int i = 0; tuttiGetSetting(i, &setting) == tuttiSuccess; ++i) {
    if (name == setting.name || (*setting.nccl_name != '\0' && name == setting.nccl_name)) {
      return true;
    }
  }
  return false;
}

}  // namespace tutti::nccl
