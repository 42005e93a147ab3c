#include "plugins/nccl/call_config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>

#include "tutti/nccl_options.h"

namespace tutti::nccl {
namespace {

constexpr size_t kLeastCallBytes = 64;  // of 2.31
static_assert(offsetof(ncclConfigExt_t, key) == 8);
static_assert(offsetof(ncclConfigExt_t, val) == 16);
static_assert(sizeof(ncclConfigExt_t) == 24);
static_assert(offsetof(ncclCollConfig_t, ext) == 16);
static_assert(offsetof(ncclCollConfig_t, minCTAs) == 24);
static_assert(offsetof(ncclCollConfig_t, algSelection) == 40);
static_assert(offsetof(ncclCollConfig_t, CTAPolicy) == 52);
static_assert(offsetof(ncclCollConfig_t, userProfilerTag) == 56);
static_assert(offsetof(ncclCollConfig_t, launchCompletionEvent) == kLeastCallBytes);
static_assert(sizeof(ncclCollConfig_t) == 72);

constexpr uint64_t kNanosecondsPerMillisecond = 1000000;

std::string not_accepted(const char* option, int value, const char* accepted) {
  return std::string(option) + " is " + std::to_string(value) + "; it may be " + accepted;
}

/// Empty, or why the option cannot be taken.
std::string take_option(const ncclConfigExt_t& entry, tuttiOptions_t& options) {
  const int value = entry.val.i;
  switch (entry.key.optionId) {
    case tuttiNcclAlgorithm:
      options.algorithm = entry.val.s;
      return {};
    case tuttiNcclDeterministic:
      if (value != 0 && value != 1) return not_accepted("tuttiNcclDeterministic", value, "0 or 1");
      options.deterministic = value;
      return {};
    case tuttiNcclPriority:
      options.priority = value;
      return {};
    case tuttiNcclTimeoutMs:
      if (value < 0) return not_accepted("tuttiNcclTimeoutMs", value, "0 or more");
      options.timeout_ns = static_cast<uint64_t>(value) * kNanosecondsPerMillisecond;
      return {};
    default:
      return "Tutti has no option " + std::to_string(entry.key.optionId) +
             "; tutti/nccl_options.h has those of this version";
  }
}

/// Empty, or what is wrong with the list.
std::string read_extensions(const ncclConfigExt_t* entry, CallConfig& read) {
  std::set<int> seen;
  for (int i = 0; entry != nullptr; ++i, entry = entry->next) {
    if (i == TUTTI_NCCL_MOST_EXTENSIONS) {
      return "the list has more than " + std::to_string(i) + " entries, or is a circle";
    }
    if (entry->key.vendorId != TUTTI_NCCL_VENDOR) continue;
    if (!seen.insert(entry->key.optionId).second) {
      return "Tutti's option " + std::to_string(entry->key.optionId) + " is there twice";
    }
    if (std::string wrong = take_option(*entry, read.options); !wrong.empty()) return wrong;
    read.given = true;
  }
  return {};
}

/// As NCCL checks them, so that a program that runs here runs there.
std::string check_fields(const ncclCollConfig_t& config) {
  if (config.forceAlgSelection != 0 && config.forceAlgSelection != 1) {
    return not_accepted("config.forceAlgSelection", config.forceAlgSelection, "0 or 1");
  }
  for (const int ctas : {config.minCTAs, config.maxCTAs}) {
    if (ctas != NCCL_CONFIG_UNDEF_INT && ctas < 1) {
      return not_accepted("config.minCTAs or config.maxCTAs", ctas, "1 or more");
    }
  }
  if (config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config.minCTAs > config.maxCTAs) {
    return "config.minCTAs is above config.maxCTAs";
  }
  const int policy = config.CTAPolicy;
  constexpr int kMost = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;
  if (policy == NCCL_CONFIG_UNDEF_INT || (policy >= 0 && policy <= kMost)) return {};
  return not_accepted("config.CTAPolicy", policy, "0 to 3");
}

/// NCCL, too, takes more than it can have for as many as it can.
void take_ctas(int given, int& ctas, CallConfig& read) {
  constexpr int kMost = 4096;
  if (given == NCCL_CONFIG_UNDEF_INT) return;
  ctas = std::min(given, kMost);
  read.given = true;
}

}  // namespace

std::string read_call_config(const ncclCollConfig_t* config, CallConfig& read) {
  read = {};
  if (config == nullptr) return {};
  if (config->magic != NCCL_API_MAGIC || config->size < kLeastCallBytes) {
    return "begin the configuration with NCCL_COLLCONFIG_INITIALIZER";
  }
  ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  if (std::string wrong = check_fields(known); !wrong.empty()) return wrong;
  if (std::string wrong = read_extensions(known.ext, read); !wrong.empty()) {
    return "config.ext: " + wrong;
  }
  take_ctas(known.minCTAs, read.options.least_ctas, read);
  take_ctas(known.maxCTAs, read.options.most_ctas, read);
  // NCCL's names are those of its kernels, of which there are none here.
  const bool selects = known.algSelection != nullptr && *known.algSelection != '\0';
  if (!selects || known.forceAlgSelection == 0 || read.options.algorithm != nullptr) return {};
  return std::string("config.algSelection \"") + known.algSelection +
         "\" names algorithms of NCCL; set config.forceAlgSelection to 0, or name one of Tutti's "
         "by its option tuttiNcclAlgorithm";
}

}  // namespace tutti::nccl
