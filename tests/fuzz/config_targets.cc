// Structures that callers fill in: of any version, so of any size, or of no version at all. And the
// files that the drop-in reads.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "plugins/nccl/call_config.h"
#include "plugins/nccl/config.h"
#include "plugins/nccl/configuration_lines.h"
#include "src/api/config.h"
#include "tests/fuzz/targets.h"
#include "tutti/nccl_options.h"

namespace tutti::fuzz {
namespace {

constexpr size_t kMostBytes = 4096;  // of a structure that is made here as large as it says

/// A structure in memory of exactly the size it claims, so that reading beyond it is seen, and the
/// text its addresses lead to: the bytes behind it.
class Structure {
 public:
  /// `absurd_bytes`: what the reader may look at where the claim is absurd.
  Structure(Bytes input, size_t least_bytes, size_t absurd_bytes) {
    size_t claimed = 0;
    std::copy_n(input.data(), std::min(input.size(), sizeof claimed),
                reinterpret_cast<uint8_t*>(&claimed));
    bytes_ = claimed > kMostBytes ? absurd_bytes : std::max(claimed, least_bytes);
    memory_ = std::make_unique<std::byte[]>(bytes_);
    std::copy_n(input.data(), std::min(bytes_, input.size()),
                reinterpret_cast<uint8_t*>(memory_.get()));
    rest_ = input.subspan(std::min(bytes_, input.size()));
    const auto* text = reinterpret_cast<const char*>(rest_.data());
    const size_t letters = rest_.empty() ? 0 : strnlen(text, rest_.size());
    text_.assign(text, text + letters);
    text_.push_back('\0');
  }

  /// A caller's address is good or null.
  void point(size_t offset) { point(offset, text()); }
  void point(size_t offset, const void* target) {
    if (offset + sizeof target > bytes_) return;
    const void* address = nullptr;
    std::memcpy(&address, memory_.get() + offset, sizeof address);
    if (address != nullptr) std::memcpy(memory_.get() + offset, &target, sizeof target);
  }

  template <class Config>
  const Config* as() const {
    return reinterpret_cast<const Config*>(memory_.get());
  }
  const char* text() const { return text_.data(); }
  /// The bytes behind the structure in the input.
  Bytes rest() const { return rest_; }

 private:
  size_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  Bytes rest_;
  std::vector<char> text_;  // of exactly its size, too
};

const char* const kSomewhere = reinterpret_cast<const char*>(uintptr_t{0x1000});

template <class Config>
std::string bytes_of(const Config& config, size_t bytes = sizeof(Config)) {
  std::string text(reinterpret_cast<const char*>(&config), std::min(bytes, sizeof config));
  text.resize(bytes, '\0');
  return text;
}

}  // namespace

bool run_config(Bytes input) {
  Structure structure(input, sizeof(size_t), sizeof(size_t));
  structure.point(offsetof(tuttiConfig_t, name));
  structure.point(offsetof(tuttiConfig_t, wire));
  const auto read = api::read_config(structure.as<tuttiConfig_t>(), {}, "fuzz");
  if (!read.ok()) {
    require(read.status().message().find("fuzz: config: ") == 0, "a refusal says why");
    return false;
  }
  const std::string& name = read.value().name;
  require(name.size() <= std::strlen(structure.text()), "a name is the caller's");
  require(std::none_of(name.begin(), name.end(),
                       [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }),
          "a name can be printed");
  return true;
}

std::vector<std::string> corpus_config() {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  std::vector<std::string> inputs = {bytes_of(config),
                                     bytes_of(config, offsetof(tuttiConfig_t, timeout_ns))};
  config.name = kSomewhere;
  config.timeout_ns = 5;
  config.blocking = 0;
  config.size = offsetof(tuttiConfig_t, name) + 5;
  inputs.push_back(bytes_of(config, config.size) + "half an address");
  config.size = sizeof config;
  inputs.push_back(bytes_of(config) + "a name");
  inputs.push_back(bytes_of(config) + std::string(128, 'n'));
  config.size = sizeof config + 40;
  inputs.push_back(bytes_of(config, config.size) + "of a newer caller");
  config.wire = kSomewhere;
  config.size = sizeof config;
  inputs.push_back(bytes_of(config) + "network:int8_block,region:e3m0");
  config.wire = nullptr;
  config.least_ctas = 3;
  config.most_ctas = 2;
  config.size = sizeof config;
  inputs.push_back(bytes_of(config));
  config.size = offsetof(tuttiConfig_t, engine);
  inputs.push_back(bytes_of(config, config.size));
  return inputs;
}

bool run_nccl_config(Bytes input) {
  constexpr size_t kHeaderBytes = 16;
  // NCCL's magic number vouches for the size: a newer caller's may be any.
  Structure structure(input, kHeaderBytes, sizeof(ncclConfig_t));
  structure.point(offsetof(ncclConfig_t, netName));
  structure.point(offsetof(ncclConfig_t, commName));
  nccl::CommConfig read;
  const std::string wrong = nccl::read_config(structure.as<ncclConfig_t>(), read);
  if (!wrong.empty()) {
    require(!read.given, "what is refused is not taken");
    return false;
  }
  require(read.given, "what is accepted is taken");
  require(read.name == nullptr || read.name == structure.text(), "a name is the caller's");
  require(read.least_ctas >= 0 && read.most_ctas >= 0, "thread blocks are some or unknown");
  return true;
}

std::vector<std::string> corpus_nccl_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::vector<std::string> inputs = {bytes_of(config)};
  config.blocking = 0;
  config.minCTAs = 1;
  config.maxCTAs = 32;
  config.trafficClass = 3;
  config.numRmaCtx = 1;
  config.netName = config.commName = kSomewhere;
  inputs.push_back(bytes_of(config) + "a name");
  // Callers of older versions, and of one that does not exist yet.
  constexpr struct {
    size_t size;
    unsigned version;
  } kVersions[] = {{24, 21400}, {40, 21700},  {48, 21800}, {56, 22600},
                   {72, 22700}, {120, 23100}, {50, 22700}};
  for (const auto& [size, version] : kVersions) {
    config.size = size;
    config.version = version;
    inputs.push_back(bytes_of(config, size) + "name");
  }
  return inputs;
}

/// The entries whose images lie one behind the other: each goes on with the next one, ends the
/// list, or goes back to any, as the first byte of its address says.
std::vector<ncclConfigExt_t> list_of(Bytes images, const char* text) {
  std::vector<ncclConfigExt_t> entries(images.size() / sizeof(ncclConfigExt_t));
  for (size_t i = 0; i < entries.size(); ++i) {
    ncclConfigExt_t& entry = entries[i];
    std::memcpy(&entry, images.data() + i * sizeof entry, sizeof entry);
    const auto way = static_cast<uint8_t>(reinterpret_cast<uintptr_t>(entry.next));
    entry.next = i + 1 < entries.size() ? &entry + 1 : nullptr;
    if (way == 0) entry.next = nullptr;
    if (way > 200) entry.next = &entries[way % entries.size()];
    if (entry.key.vendorId == TUTTI_NCCL_VENDOR && entry.key.optionId == tuttiNcclAlgorithm) {
      entry.val.s = entry.val.s != nullptr ? text : nullptr;
    }
  }
  return entries;
}

bool run_nccl_call_config(Bytes input) {
  constexpr size_t kHeaderBytes = 16;
  Structure structure(input, kHeaderBytes, sizeof(ncclCollConfig_t));
  const std::vector<ncclConfigExt_t> entries = list_of(structure.rest(), structure.text());
  structure.point(offsetof(ncclCollConfig_t, algSelection));
  structure.point(offsetof(ncclCollConfig_t, ext), entries.empty() ? nullptr : entries.data());
  nccl::CallConfig read;
  if (!nccl::read_call_config(structure.as<ncclCollConfig_t>(), read).empty()) return false;
  const tuttiOptions_t& options = read.options;
  require(options.algorithm == nullptr || options.algorithm == structure.text(),
          "a text is the caller's");
  require(options.deterministic == 0 || options.deterministic == 1, "a switch is on or off");
  require(options.timeout_ns % 1'000'000 == 0, "milliseconds are whole");
  require(read.given || options.algorithm == nullptr, "what is not given is not there");
  return true;
}

std::vector<std::string> corpus_nccl_call_config() {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  std::vector<std::string> inputs = {bytes_of(config)};
  auto* const onward =
      reinterpret_cast<ncclConfigExt_t*>(uintptr_t{0x1008});  // as list_of reads it
  auto* const back = reinterpret_cast<ncclConfigExt_t*>(uintptr_t{0x10c9});
  ncclConfigExt_t entry{};
  config.ext = onward;
  std::string list;
  for (const int option :
       {tuttiNcclAlgorithm, tuttiNcclDeterministic, tuttiNcclPriority, tuttiNcclTimeoutMs}) {
    entry.next = onward;
    entry.key = {TUTTI_NCCL_VENDOR, option};
    entry.val.raw = nullptr;
    entry.val.i = 1;
    list += bytes_of(entry);
    inputs.push_back(bytes_of(config) + bytes_of(entry));
  }
  inputs.push_back(bytes_of(config) + list);
  entry.key.vendorId = TUTTI_NCCL_VENDOR + 1;
  inputs.push_back(bytes_of(config) + bytes_of(entry) + list);
  entry.next = back;  // a circle
  inputs.push_back(bytes_of(config) + bytes_of(entry) + bytes_of(entry));
  entry.next = nullptr;  // what follows is not looked at
  inputs.push_back(bytes_of(config) + bytes_of(entry) + list + list);
  config.algSelection = kSomewhere;
  config.forceAlgSelection = 1;
  inputs.push_back(bytes_of(config) + list);
  config.size = 64;
  inputs.push_back(bytes_of(config, config.size) + list);
  config.size = 120;
  inputs.push_back(bytes_of(config, sizeof config) + std::string(120 - sizeof config, '\0') + list);
  return inputs;
}

bool run_nccl_file(Bytes input) {
  const auto lines = nccl::read_configuration_lines(as_text(input));
  std::string text;
  for (const auto& [name, value] : lines) {
    require(name.rfind("NCCL_", 0) == 0, "a name is one of NCCL's");
    require((name + value).find_first_of(std::string_view("\0\n", 2)) == std::string::npos,
            "a line is a line");
    text.append(name).append("=").append(value).append("\n");
  }
  const auto again = nccl::read_configuration_lines(text);
  require(again.size() == lines.size(), "what was read is read again");
  for (size_t i = 0; i < lines.size(); ++i) {
    require(again[i].name == lines[i].name && again[i].value == lines[i].value,
            "what was read is read again");
  }
  return !lines.empty();
}

std::vector<std::string> corpus_nccl_file() {
  return {"NCCL_DEBUG=INFO\n", "# text\n\n  NCCL_SOCKET_IFNAME = ^docker,lo \r\nNCCL_DEBUG=WARN",
          "PATH=/nowhere\nNCCL_ALGO==ring=\nNCCL_X=\n=\nNCCL_DEBUG"};
}

}  // namespace tutti::fuzz
