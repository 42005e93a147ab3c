// ncclParam*: what the environment says, through NCCL's calls.
//
// A key is the name of a variable that Tutti reads: NCCL's name where there is one, else Tutti's.
// Threads: any. Lifetime: texts are valid until the same thread makes the same call again.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/errors.h"
#include "plugins/nccl/per_thread.h"
#include "plugins/nccl/settings.h"

namespace tutti::nccl {

namespace {

const char* key_of(const Setting& setting) {
  return *setting.nccl_name != '\0' ? setting.nccl_name : setting.name;
}

/// A handle is the index of the setting, counted from 1.
ncclParamHandle_t handle_of(int index) {
  return reinterpret_cast<ncclParamHandle_t>(static_cast<uintptr_t>(index) + 1);
}

bool setting_of(ncclParamHandle_t handle, Setting& setting) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  constexpr uintptr_t kMost = std::numeric_limits<int>::max();
  return number > 0 && number <= kMost &&
         tuttiGetSetting(static_cast<int>(number - 1), &setting) == tuttiSuccess;
}

/// A number with K, M or G for powers of 1024, as `tutti env` shows sizes.
std::optional<__int128> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.empty()) return number;
  if (unit == "K") return static_cast<__int128>(number) << 10;
  if (unit == "M") return static_cast<__int128>(number) << 20;
  if (unit == "G") return static_cast<__int128>(number) << 30;
  return std::nullopt;
}

template <class Integer>
ncclResult_t get_integer(ncclParamHandle_t handle, Integer* value, const char* function) {
  Setting setting;
  if (value == nullptr) return refuse(function, "the place for the value is null");
  if (!setting_of(handle, setting)) return refuse(function, "the handle is not a parameter");
  const std::optional<__int128> number = number_in(setting.value);
  const bool fits = number && *number >= std::numeric_limits<Integer>::min() &&
                    *number <= std::numeric_limits<Integer>::max();
  if (!fits) {
    return refuse(function, std::string(key_of(setting)) + " is '" + setting.value +
                                "', which this type of number does not hold");
  }
  *value = static_cast<Integer>(*number);
  return ncclSuccess;
}

ncclResult_t bind(ncclParamHandle_t* handle, const char* key) {
  constexpr char kName[] = "ncclParamBind";
  if (handle == nullptr || key == nullptr) return refuse(kName, "the handle or the key is null");
  Setting setting;
  for (int i = 0; tuttiGetSetting(i, &setting) == tuttiSuccess; ++i) {
    if (std::strcmp(key, setting.name) != 0 && std::strcmp(key, key_of(setting)) != 0) continue;
    *handle = handle_of(i);
    return ncclSuccess;
  }
  return refuse(kName, "Tutti does not read a variable of the name '" + std::string(key) + "'");
}

ncclResult_t get_text(ncclParamHandle_t handle, const char** value) {
  constexpr char kName[] = "ncclParamGetStr";
  Setting setting;
  if (value == nullptr) return refuse(kName, "the place for the value is null");
  if (!setting_of(handle, setting)) return refuse(kName, "the handle is not a parameter");
  std::string& text = PerThread<std::string, struct TextOfHandle>::get();
  text = setting.value;
  *value = text.c_str();
  return ncclSuccess;
}

/// A number is eight bytes, anything else its text with the final NUL.
ncclResult_t get_bytes(ncclParamHandle_t handle, void* value, int bytes, int* needed) {
  constexpr char kName[] = "ncclParamGet";
  Setting setting;
  if (value == nullptr) return refuse(kName, "the place for the value is null");
  if (!setting_of(handle, setting)) return refuse(kName, "the handle is not a parameter");
  const std::optional<__int128> number = number_in(setting.value);
  const auto as_number = static_cast<int64_t>(number.value_or(0));
  const void* from = number ? static_cast<const void*>(&as_number) : setting.value;
  const size_t size = number ? sizeof as_number : std::strlen(setting.value) + 1;
  if (needed != nullptr) *needed = static_cast<int>(size);
  if (bytes < 0 || size > static_cast<size_t>(bytes))
    return refuse(kName, "the buffer is too small");
  std::memcpy(value, from, size);
  return ncclSuccess;
}

ncclResult_t get_by_key(const char* key, const char** value, int* length) {
  constexpr char kName[] = "ncclParamGetParameter";
  if (key == nullptr || value == nullptr) return refuse(kName, "the key or the place is null");
  Setting setting;
  if (!find_setting(key, setting)) {
    return refuse(kName, "Tutti does not read a variable of the name '" + std::string(key) + "'");
  }
  std::string& text = PerThread<std::string, struct TextOfKey>::get();
  text = setting.value;
  *value = text.c_str();
  if (length != nullptr) *length = static_cast<int>(text.size());
  return ncclSuccess;
}

ncclResult_t all_keys(const char*** keys, int* count) {
  if (keys == nullptr || count == nullptr) {
    return refuse("ncclParamGetAllParameterKeys", "the place for the keys is null");
  }
  std::vector<const char*>& table = PerThread<std::vector<const char*>, struct Keys>::get();
  table.clear();
  Setting setting;
  for (int i = 0; tuttiGetSetting(i, &setting) == tuttiSuccess; ++i) {
    table.push_back(key_of(setting));
  }
  *keys = table.data();
  *count = static_cast<int>(table.size());
  return ncclSuccess;
}

void dump_all() {
  Setting setting;
  for (int i = 0; tuttiGetSetting(i, &setting) == tuttiSuccess; ++i) {
    std::fprintf(stderr, "%s=%s\n", key_of(setting), setting.value);
  }
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t pncclParamBind(ncclParamHandle_t* handle, const char* key) {
  return caught([&] { return bind(handle, key); });
}

ncclResult_t pncclParamGetI8(ncclParamHandle_t handle, int8_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetI8"); });
}

ncclResult_t pncclParamGetI16(ncclParamHandle_t handle, int16_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetI16"); });
}

ncclResult_t pncclParamGetI32(ncclParamHandle_t handle, int32_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetI32"); });
}

ncclResult_t pncclParamGetI64(ncclParamHandle_t handle, int64_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetI64"); });
}

ncclResult_t pncclParamGetU8(ncclParamHandle_t handle, uint8_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetU8"); });
}

ncclResult_t pncclParamGetU16(ncclParamHandle_t handle, uint16_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetU16"); });
}

ncclResult_t pncclParamGetU32(ncclParamHandle_t handle, uint32_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetU32"); });
}

ncclResult_t pncclParamGetU64(ncclParamHandle_t handle, uint64_t* value) {
  return caught([&] { return get_integer(handle, value, "ncclParamGetU64"); });
}

ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char** value) {
  return caught([&] { return get_text(handle, value); });
}

ncclResult_t pncclParamGet(ncclParamHandle_t handle, void* value, int bytes, int* needed) {
  return caught([&] { return get_bytes(handle, value, bytes, needed); });
}

ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* length) {
  return caught([&] { return get_by_key(key, value, length); });
}

ncclResult_t pncclParamGetAllParameterKeys(const char*** keys, int* count) {
  return caught([&] { return all_keys(keys, count); });
}

void pncclParamDumpAll() {
  (void)caught([] {
    dump_all();
    return ncclSuccess;
  });
}

[[gnu::weak, gnu::alias("pncclParamBind")]] decltype(pncclParamBind) ncclParamBind;
[[gnu::weak, gnu::alias("pncclParamGetI8")]] decltype(pncclParamGetI8) ncclParamGetI8;
[[gnu::weak, gnu::alias("pncclParamGetI16")]] decltype(pncclParamGetI16) ncclParamGetI16;
[[gnu::weak, gnu::alias("pncclParamGetI32")]] decltype(pncclParamGetI32) ncclParamGetI32;
[[gnu::weak, gnu::alias("pncclParamGetI64")]] decltype(pncclParamGetI64) ncclParamGetI64;
[[gnu::weak, gnu::alias("pncclParamGetU8")]] decltype(pncclParamGetU8) ncclParamGetU8;
[[gnu::weak, gnu::alias("pncclParamGetU16")]] decltype(pncclParamGetU16) ncclParamGetU16;
[[gnu::weak, gnu::alias("pncclParamGetU32")]] decltype(pncclParamGetU32) ncclParamGetU32;
[[gnu::weak, gnu::alias("pncclParamGetU64")]] decltype(pncclParamGetU64) ncclParamGetU64;
[[gnu::weak, gnu::alias("pncclParamGetStr")]] decltype(pncclParamGetStr) ncclParamGetStr;
[[gnu::weak, gnu::alias("pncclParamGet")]] decltype(pncclParamGet) ncclParamGet;
[[gnu::weak,
  gnu::alias("pncclParamGetParameter")]] decltype(pncclParamGetParameter) ncclParamGetParameter;
[[gnu::weak, gnu::alias("pncclParamGetAllParameterKeys")]] decltype(pncclParamGetAllParameterKeys)
    ncclParamGetAllParameterKeys;
[[gnu::weak, gnu::alias("pncclParamDumpAll")]] decltype(pncclParamDumpAll) ncclParamDumpAll;

}  // extern "C"
