// The settings of tutti.h: `tutti env` as a call.
#include <string>

#include "src/api/caught.h"
#include "src/api/process.h"
#include "src/base/per_thread.h"

namespace tutti::api {
namespace {

Status get_setting(int index, tuttiSetting_t* setting) {
  if (setting == nullptr) return Status::invalid_argument("tuttiGetSetting: setting is null");
  const auto all = settings();
  if (index < 0 || static_cast<size_t>(index) >= all.size()) {
    return Status::invalid_argument("tuttiGetSetting: there are " + std::to_string(all.size()) +
                                    " settings, counted from 0");
  }
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  const Config& config = *process.value()->env().config;
  const Setting& row = all[static_cast<size_t>(index)];
  const auto origin = config.origins.find(row.name);
  std::string& value = PerThread<std::string, struct SettingValue>::get();
  value = row.show(config);
  // The texts of the table are literals, so each ends with a NUL.
  setting->name = row.name.data();
  setting->nccl_name = row.nccl_name.data();
  setting->unit = row.unit.data();
  setting->accepts = row.accepts.data();
  setting->effect = row.effect.data();
  setting->origin = origin == config.origins.end() ? "" : origin->second.c_str();
  setting->value = value.c_str();
  return {};
}

Status set_default(const char* name, const char* value, const char* source) {
  if (name == nullptr || value == nullptr || source == nullptr) {
    return Status::invalid_argument("tuttiSetDefault: name, value or source is null");
  }
  if (!is_setting(name)) {
    return Status::invalid_argument("tuttiSetDefault: there is no setting '" + std::string(name) +
                                    "'");
  }
  return Process::add_default({name, value, source});
}

}  // namespace
}  // namespace tutti::api

extern "C" {

tuttiResult_t tuttiGetSetting(int index, tuttiSetting_t* setting) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::report(nullptr, tutti::api::get_setting(index, setting));
  });
}

tuttiResult_t tuttiSetDefault(const char* name, const char* value, const char* source) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::report(nullptr, tutti::api::set_default(name, value, source));
  });
}

}  // extern "C"
