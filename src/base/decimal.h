// Decimal numbers in files, settings and messages: never as the locale of the program writes them,
// which with a decimal comma would neither read a file of another program nor be read by one.
//
// Errors: nullopt for anything but a complete number. Threads: no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// The whole text as one finite number: "32.0", "1e9"; no space, no '+', nothing left over.
std::optional<double> parse_decimal(std::string_view text);

/// For people: three digits, and those before the point that a large number has besides: "0.0123",
/// "1.70", "17.3", "1234".
std::string three_digits(double value);

/// With so many digits behind the point: "1.500000".
std::string fixed_digits(double value, int digits);

}  // namespace tutti
