// Samples of unequal length, dealt to ranks.
#include "communicator.h"
#include "part.h"
#include "record.h"
#include "tutti/runtime/sample_balance.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void add_deals(nb::module_& module) {
  module.def(
      "deal_equally",
      [](const Integers& lengths, int ranks) { return deal_equally(lengths.values, ranks); },
      "lengths"_a, "ranks"_a,
      "As many samples on every rank, the longest in turn, there and back (FreeScale, "
      "arXiv:2604.24073).\n\n"
      ">>> tutti.deal_equally([9, 7, 2, 1], ranks=2).loads\n[10, 9]");
  module.def(
      "deal_by_work",
      [](const Integers& lengths, double exponent, int ranks) {
        return deal_by_work(lengths.values, exponent, ranks);
      },
      "lengths"_a, "exponent"_a, "ranks"_a,
      "Runs of samples whose largest work, a sum of length ** exponent, is the least possible. "
      "Batches are unequal: see loss_weights().\n\n"
      ">>> tutti.deal_by_work([9, 1, 2, 1], 1.0, ranks=2).counts\n[1, 3]");
  module.def(
      "deal_as_told",
      [](const Integers& lengths, const Integers& rank_of, int ranks, bool may_be_empty) {
        return deal_as_told(lengths.values, rank_of.narrow(), ranks, may_be_empty);
      },
      "lengths"_a, "rank_of"_a, "ranks"_a, "may_be_empty"_a = false,
      "A deal of the caller's; one that leaves a rank without a sample is refused, unless "
      "`may_be_empty`.\n\n"
      ">>> tutti.deal_as_told([3, 1], [0, 1], ranks=2).max_over_mean\n1.5");
  module.def("loss_weights", &loss_weights, "deal"_a,
             "The factor of each rank's mean loss, such that the mean over ranks is that over "
             "samples.\n\n"
             ">>> tutti.loss_weights(tutti.deal_by_work([9, 1, 2, 1], 1.0, ranks=2))\n[0.5, 1.5]");
  module.def(
      "fitted_exponent",
      [](const Integers& lengths, const SampleDeal& deal, const std::vector<double>& times) {
        return fitted_exponent(lengths.values, deal, times);
      },
      "lengths"_a, "deal"_a, "times"_a,
      "The exponent, 0 to 3, for which works were most nearly proportional to the ranks' "
      "`times`.\n\n"
      ">>> deal = tutti.deal_equally([4, 3, 2, 1], ranks=2)\n"
      ">>> tutti.fitted_exponent([4, 3, 2, 1], deal, [4**2 + 1, 3**2 + 2**2])\n2.0");
}

void add_shuffle(nb::module_& module) {
  module.def(
      "gather_samples",
      [](Communicator& comm, const Integers& ids, const Integers& lengths) {
        const tuttiComm_t handle = comm.handle();
        SampleList list;
        comm.run([&] { list = gather_samples(handle, ids.values, lengths.values); });
        return list;
      },
      "comm"_a, "ids"_a, "lengths"_a,
      "The SampleList of all ranks, in rank order. A sample that two ranks have is refused on "
      "all.\n\n"
      ">>> tutti.run(lambda comm: tutti.gather_samples(comm, [comm.rank], [5]).rank_of, ranks=2)\n"
      "[[0, 1], [0, 1]]");
  module.def("shuffle_samples", &shuffle, "samples"_a, "deal"_a,
             "The Resharding that moves the elements of samples to where they are dealt; an "
             "Exchange runs it.\n\n"
             ">>> import numpy\n"
             ">>> def main(comm):\n"
             "...     samples = tutti.gather_samples(comm, [2 * comm.rank, 2 * comm.rank + 1],\n"
             "...                                    [3, 1] if comm.rank else [2, 4])\n"
             "...     deal = tutti.deal_equally(samples.lengths, comm.ranks)\n"
             "...     x = numpy.full(sum(samples.lengths[2 * comm.rank:2 * comm.rank + 2]), "
             "comm.rank, 'int32')\n"
             "...     y = numpy.empty(deal.loads[comm.rank], 'int32')\n"
             "...     plan = tutti.shuffle_samples(samples, deal)\n"
             "...     tutti.Exchange(plan, dtype='int32').run(comm, x, y)\n"
             "...     return y.tolist()\n"
             ">>> tutti.run(main, ranks=2)\n"
             "[[0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]");
}

}  // namespace

void add_samples(nb::module_& module) {
  record<SampleList>(module, "SampleList", "The samples of a step, of all ranks.",
                     field("ids", &SampleList::ids, "the caller's names"),
                     field("lengths", &SampleList::lengths, "in elements"),
                     field("rank_of", &SampleList::rank_of, "where each is, ascending"));
  record<SampleDeal>(module, "SampleDeal", "Which rank works on which sample.",
                     field("ranks", &SampleDeal::ranks, "how many"),
                     field("rank_of", &SampleDeal::rank_of, "of each sample"),
                     field("loads", &SampleDeal::loads, "sum of lengths on each rank"),
                     field("counts", &SampleDeal::counts, "samples on each rank"),
                     field("max_over_mean", &SampleDeal::max_over_mean, "of loads; 1 is perfect"));
  add_deals(module);
  add_shuffle(module);
}

}  // namespace tutti::python
