// Element types as the serial reference understands them: bits to exact values and back.
//
// Written from the definitions of the formats (IEEE 754, bfloat16, OCP FP8 E4M3 and E5M2) and
// shares no code with the library, so that a mistake there cannot hide here. Threads: no state.
// Units: precision in bits, with the hidden one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/tutti/tutti.h"

namespace tutti::reference {

inline constexpr int kTypes = 15;
inline constexpr int kOps = 8;

const char* name_of(tuttiDataType_t type);
const char* name_of(tuttiRedOp_t op);

size_t size_of(tuttiDataType_t type);
bool is_float(tuttiDataType_t type);
bool is_signed(tuttiDataType_t type);
/// Whether the operation is defined for the type.
bool can_reduce(tuttiDataType_t type, tuttiRedOp_t op);
/// The same of a scaled sum.
bool can_scale(tuttiDataType_t type);

/// Of a floating type: significant bits, and the distance of the numbers next to zero.
int precision_of(tuttiDataType_t type);
long double least_step_of(tuttiDataType_t type);

/// The element in the low bits of a word.
uint64_t load(tuttiDataType_t type, const void* at);
void store(tuttiDataType_t type, void* at, uint64_t bits);

/// The exact value; integers too.
long double decode(tuttiDataType_t type, uint64_t bits);
/// The nearest value of a floating type, ties to even; beyond the greatest: infinity, or NaN where
/// the format has none.
uint64_t encode(tuttiDataType_t type, long double value);

/// The value of an integer type, sign extended, and the low bits of a word as such a type (a bool
/// has one).
int64_t to_signed(tuttiDataType_t type, uint64_t bits);
uint64_t wrap(tuttiDataType_t type, uint64_t bits);

}  // namespace tutti::reference
