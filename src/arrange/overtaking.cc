#include "src/arrange/overtaking.h"

#include <cmath>

namespace tutti::arrange {
namespace {

class Comparison {
 public:
  Comparison(const StepPricer& pricer, const Arrangement& first, const Arrangement& second,
             const MakePrices& make_prices, double correction_ns)
      : pricer_(pricer),
        first_(first),
        second_(second),
        make_prices_(make_prices),
        correction_ns_(correction_ns) {}

  /// Whether the second is no slower where links of the level have so many times their bandwidth.
  bool is_overtaken(size_t level, double factor) const {
    EvenCluster changed = pricer_.cluster();
    changed.levels[level].bytes_per_ns *= factor;
    const std::unique_ptr<ExchangePrices> prices = make_prices_(changed);
    const StepPricer other(pricer_.job(), changed);
    const auto ns = [&](const GroupExchange& exchange) { return prices->ns(exchange); };
    return other.price(second_, ns).ns + correction_ns_ <= other.price(first_, ns).ns;
  }

  /// The factor nearest to 1 in steps of two, then halved between the last two; 0: there is none.
  double nearest(size_t level, double step, double farthest) const {
    double before = 1;
    for (double factor = step; factor <= farthest && factor >= 1 / farthest; factor *= step) {
      if (is_overtaken(level, factor)) return between(level, before, factor);
      before = factor;
    }
    return 0;
  }

 private:
  double between(size_t level, double slower, double overtaken) const {
    while (std::fabs(std::log(slower / overtaken)) > 1e-3) {
      const double middle = std::sqrt(slower * overtaken);
      (is_overtaken(level, middle) ? overtaken : slower) = middle;
    }
    return overtaken;
  }

  const StepPricer& pricer_;
  const Arrangement &first_, &second_;
  const MakePrices& make_prices_;
  const double correction_ns_;
};

}  // namespace

std::vector<Overtaking> overtakings(const StepPricer& pricer, const Arrangement& first,
                                    const Arrangement& second, const MakePrices& make_prices,
                                    double correction_ns) {
  constexpr double kFarthest = 64;
  const Comparison comparison(pricer, first, second, make_prices, correction_ns);
  std::vector<Overtaking> found;
  for (size_t level = 0; level < pricer.cluster().levels.size(); ++level) {
    const double up = comparison.nearest(level, 2, kFarthest);
    const double down = comparison.nearest(level, 0.5, kFarthest);
    if (up == 0 && down == 0) continue;
    const bool takes_up = down == 0 || (up != 0 && up <= 1 / down);
    found.push_back({level, pricer.cluster().levels[level].bytes_per_ns * (takes_up ? up : down)});
  }
  return found;
}

}  // namespace tutti::arrange
