#include "src/engines/cuda/fold_image.h"

// The build says where nvcc has left the files (cmake/TuttiKernels.cmake). A compiler cache does
// not see the files of .incbin, and would give an object with the kernels of another day: their
// sums are included for it.
#ifdef TUTTI_FOLD_IMAGE
#include TUTTI_FOLD_IMAGE_SUM
#endif
#ifdef TUTTI_MULTICAST_IMAGE
#include TUTTI_MULTICAST_IMAGE_SUM
#endif

#define TUTTI_IMAGE(name, file)                                                      \
  __asm__(                                                                           \
      ".pushsection .rodata\n"                                                       \
      ".balign 64\n"                                                                 \
      ".hidden tutti_" #name                                                         \
      "_image_begin\n"                                                               \
      ".hidden tutti_" #name                                                         \
      "_image_end\n"                                                                 \
      ".global tutti_" #name                                                         \
      "_image_begin\n"                                                               \
      ".global tutti_" #name                                                         \
      "_image_end\n"                                                                 \
      "tutti_" #name                                                                 \
      "_image_begin:\n"                                                              \
      ".incbin \"" file                                                              \
      "\"\n"                                                                         \
      "tutti_" #name                                                                 \
      "_image_end:\n"                                                                \
      ".popsection\n");                                                              \
  extern "C" {                                                                       \
  [[gnu::visibility("hidden")]] extern const std::byte tutti_##name##_image_begin[]; \
  [[gnu::visibility("hidden")]] extern const std::byte tutti_##name##_image_end[];   \
  }

#ifdef TUTTI_FOLD_IMAGE
TUTTI_IMAGE(fold, TUTTI_FOLD_IMAGE)
#endif
#ifdef TUTTI_MULTICAST_IMAGE
TUTTI_IMAGE(multicast, TUTTI_MULTICAST_IMAGE)
#endif

namespace tutti::engines::cuda {
namespace {

[[maybe_unused]] std::span<const std::byte> no_kernels() {
  static constexpr char kNone[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
  return std::as_bytes(std::span(kNone));
}

}  // namespace

std::span<const std::byte> fold_image() {
#ifdef TUTTI_FOLD_IMAGE
  return {tutti_fold_image_begin, tutti_fold_image_end};
#else
  return no_kernels();
#endif
}

std::span<const std::byte> multicast_image() {
#ifdef TUTTI_MULTICAST_IMAGE
  return {tutti_multicast_image_begin, tutti_multicast_image_end};
#else
  return no_kernels();
#endif
}

}  // namespace tutti::engines::cuda
