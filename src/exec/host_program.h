// A plan's kernels, found once, which a host needs beside the plan itself.
//
// Owns:    a table; the plan stays where it is and as it is.
// Threads: a value.
// Errors:  none.
#pragma once

#include <vector>

#include "src/exec/encoded_fold.h"
#include "src/plan/plan.h"
#include "src/types/kernels.h"

namespace tutti::exec {

struct HostProgram {
  struct Kernels {
    // plan::Op::store; null where the op moves nothing. Where operands are encoded: of the fp32
    // sum.
    types::FoldKernel as_told = nullptr;
    // Where only staging slots are written: past the cache. Which one runs is the machine's choice.
    types::FoldKernel streaming = nullptr;
  };

  HostProgram() = default;
  explicit HostProgram(const plan::Plan& of) : plan(&of), kernels(of.ops.size()) {
    for (size_t i = 0; i < of.ops.size(); ++i) {
      const plan::Op& op = of.ops[i];
      if (op.code != plan::OpCode::kMove) continue;
      types::FoldKey key = plan::key_of(of, op);
      if (op.is_encoded) {
        kernels[i].as_told = sum_of_encoded(key);
        continue;
      }
      kernels[i].as_told = types::fold_kernel(key);
      key.store = types::StoreHint::kStreaming;
      if (op.stages) kernels[i].streaming = types::fold_kernel(key);
    }
    if (!of.codecs.empty()) forms = forms_of(of);
  }

  const plan::Plan* plan = nullptr;
  std::vector<Kernels> kernels;         // by op
  std::vector<EncodedForm> forms = {};  // by encoding, where the plan has any
};

}  // namespace tutti::exec
