#include "algorithms/all_gather/pat.h"

#include "algorithms/patterns/hops.h"

namespace tutti::algorithms::all_gather {

schedule::Algorithm pat() {
  return patterns::all_gather_by<patterns::pat_hops>({
      .name = "pat",
      .summary = "a binomial tree for every share, the far hops first, one message a round",
      .wins = "small and middle counts where far links are slow, any number of ranks",
      .source = "Jeaugey 2025 (PAT)",
      .nccl_name = "PAT",
  });
}

}  // namespace tutti::algorithms::all_gather
