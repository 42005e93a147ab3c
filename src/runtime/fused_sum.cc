#include <cstring>

#include "src/runtime/data_types.h"
#include "src/runtime/halves.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/narrow.h"

namespace tutti::runtime {
namespace {

void check(const SumPart& part, tuttiDataType_t wire) {
  require(part.data != nullptr || part.count == 0, "a part of ", part.count, " elements is null");
  require(part.type == wire || (wire == tuttiFloat32 && Halves::has(part.type)), "a part of type ",
          static_cast<int>(part.type), " does not go over a wire of type ", static_cast<int>(wire),
          "; choose the part's own type for the wire, or tuttiFloat32 for types of 16 bits");
}

/// Casts every part to the wire's buffer, or back.
void cast_all(std::span<const SumPart> parts, tuttiDataType_t wire, std::byte* place, bool back) {
  for (const SumPart& part : parts) {
    const size_t size = part.count * static_cast<size_t>(bytes_of(wire));
    if (part.count == 0) continue;
    const std::span<float> floats(reinterpret_cast<float*>(place), part.count);
    if (part.type == wire) {
      std::memcpy(back ? part.data : place, back ? place : part.data, size);
    } else if (back) {
      Halves(part.type).write(floats, part.data);
    } else {
      Halves(part.type).read(part.data, floats);
    }
    place += size;
  }
}

}  // namespace

FusedSum::FusedSum(tuttiComm_t comm, tuttiDataType_t wire) : comm_(comm), wire_(wire) {
  require(wire == tuttiFloat32 || wire == tuttiFloat64, "a wire of type ", static_cast<int>(wire),
          " cannot be; use tuttiFloat32 or tuttiFloat64");
}

void FusedSum::run(std::span<const SumPart> parts, bool deterministic) {
  int64_t count = 0;
  for (const SumPart& part : parts) {
    check(part, wire_);
    count = checked_sum(count, static_cast<int64_t>(part.count), "the elements of a fused sum");
  }
  const int64_t bytes = checked_product(count, bytes_of(wire_), "a fused sum in bytes");
  if (std::ssize(buffer_) < bytes) buffer_.resize(static_cast<size_t>(bytes));
  cast_all(parts, wire_, buffer_.data(), false);
  const SumPart whole{buffer_.data(), static_cast<size_t>(count), wire_};
  all_reduce_together(comm_, std::span(&whole, 1), deterministic);
  ++collectives_;
  cast_all(parts, wire_, buffer_.data(), true);
}

}  // namespace tutti::runtime
