// The prices of encoded messages, by level: what the library's own choice weighs.
//
// Threads: pure. Units: those of WirePrice. Errors: none.
#pragma once

#include <span>
#include <vector>

#include "src/codecs/wire.h"
#include "src/select/link_model.h"
#include "src/select/priced_level.h"

namespace tutti::select {

/// Empty where none of the levels encodes. A rank encodes what it sends, and decodes what it has
/// encoded and what it receives. `measured`: where a codec is not in it, its family's times count.
std::vector<WirePrice> wire_prices(const codecs::WireOption& option,
                                   std::span<const PricedLevel> levels, uint32_t element_bytes,
                                   std::span<const codecs::MeasuredCodec> measured = {});

}  // namespace tutti::select
