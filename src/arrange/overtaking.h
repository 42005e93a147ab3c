// At which bandwidth another arrangement would be the faster one.
//
// Threads: pure but for the prices that are made. Units: bytes per nanosecond. Errors: none.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/arrange/step_price.h"

namespace tutti::arrange {

struct Overtaking {
  size_t level = 0;         // of whose links
  double bytes_per_ns = 0;  // of a child's link: from there on `second` is as fast as `first`
};

using MakePrices = std::function<std::unique_ptr<ExchangePrices>(const EvenCluster&)>;

/// The bandwidth of each level, nearest to the present one and at most 64 times more or less, at
/// which `second` is no slower than `first` while all other levels stay. Levels where there is none
/// are left out. Found by halving, to one part in a thousand. `correction_ns` is added to what
/// `second` is slower by: as much as simulations have found beside the prices.
std::vector<Overtaking> overtakings(const StepPricer& pricer, const Arrangement& first,
                                    const Arrangement& second, const MakePrices& make_prices,
                                    double correction_ns = 0);

}  // namespace tutti::arrange
