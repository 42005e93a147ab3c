#include "algorithms/reduce_scatter/pat.h"

#include "algorithms/patterns/hops.h"

namespace tutti::algorithms::reduce_scatter {

schedule::Algorithm pat() {
  return patterns::reduce_scatter_by<patterns::pat_hops>({
      .name = "pat",
      .summary = "a binomial tree for every share, the near hops first, one message a round",
      .wins = "small and middle counts where far links are slow, any number of ranks",
      .source = "Jeaugey 2025 (PAT)",
      .nccl_name = "PAT",
  });
}

}  // namespace tutti::algorithms::reduce_scatter
