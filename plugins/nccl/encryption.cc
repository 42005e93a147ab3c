// ncclSetEncryption (2.32): a program that wants what its ranks send to be encrypted must not be
// served without.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/errors.h"

namespace tutti::nccl {
namespace {

constexpr char kFunction[] = "ncclSetEncryption";
constexpr size_t kLeastBytes = 32;  // of 2.32
constexpr size_t kLeastKeyBytes = 32;
static_assert(offsetof(ncclEncryptionConfig_t, mode) == 16);
static_assert(offsetof(ncclEncryptionConfig_t, psk) == 24);
static_assert(sizeof(ncclEncryptionConfig_t) == kLeastBytes);

ncclResult_t set_encryption(const ncclEncryptionConfig_t* config) {
  if (config == nullptr) return ncclSuccess;  // as with NCCL: nothing is encrypted
  if (config->magic != NCCL_API_MAGIC || config->size < kLeastBytes) {
    return refuse(kFunction, "begin the configuration with NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  }
  if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
  if (config->mode != NCCL_ENCRYPTION_MODE_PSK) {
    return refuse(kFunction, "config.mode is " + std::to_string(config->mode) +
                                 "; it may be NCCL_ENCRYPTION_MODE_NONE or _PSK");
  }
  if (config->psk == nullptr || strnlen(config->psk, kLeastKeyBytes) < kLeastKeyBytes) {
    return refuse(kFunction,
                  "config.psk needs at least " + std::to_string(kLeastKeyBytes) + " bytes");
  }
  return unsupported(kFunction,
                     "Tutti does not encrypt what ranks of several hosts send each other "
                     "(TUTTI_KEY_FILE keeps strangers out of a job): use a network that does, and "
                     "do not ask for it here");
}

}  // namespace
}  // namespace tutti::nccl

extern "C" {

ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t* config) {
  return tutti::nccl::caught([&] { return tutti::nccl::set_encryption(config); });
}

[[gnu::weak, gnu::alias("pncclSetEncryption")]] decltype(pncclSetEncryption) ncclSetEncryption;

}  // extern "C"
