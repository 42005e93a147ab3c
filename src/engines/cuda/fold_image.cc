#include "src/engines/cuda/fold_image.h"

// The build says where nvcc has left the file (cmake/TuttiKernels.cmake).
#ifdef TUTTI_FOLD_IMAGE
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden tutti_fold_image_begin\n"
    ".hidden tutti_fold_image_end\n"
    ".global tutti_fold_image_begin\n"
    ".global tutti_fold_image_end\n"
    "tutti_fold_image_begin:\n"
    ".incbin \"" TUTTI_FOLD_IMAGE
    "\"\n"
    "tutti_fold_image_end:\n"
    ".popsection\n");
extern "C" {
[[gnu::visibility("hidden")]] extern const std::byte tutti_fold_image_begin[];
[[gnu::visibility("hidden")]] extern const std::byte tutti_fold_image_end[];
}
#endif

namespace tutti::engines::cuda {

std::span<const std::byte> fold_image() {
#ifdef TUTTI_FOLD_IMAGE
  return {tutti_fold_image_begin, tutti_fold_image_end};
#else
  static constexpr char kNone[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
  return std::as_bytes(std::span(kNone));
#endif
}

}  // namespace tutti::engines::cuda
