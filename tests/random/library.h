// Functions of the public API as the driver calls them, so that a test can put faulty ones in their
// place: do the driver's checks find them?
//
// Threads: one per rank; every rank has its own.
#pragma once

#include <functional>
#include <type_traits>

#include "include/tutti/tutti.h"

namespace tutti::random_calls {

struct Library {
  template <auto function>
  using Like = std::function<std::remove_pointer_t<decltype(function)>>;

  Like<& tuttiCommSplit> split = tuttiCommSplit;
  Like<& tuttiCommSetOptions> set_options = tuttiCommSetOptions;
  Like<& tuttiGroupStart> group_start = tuttiGroupStart;  // of batches, not of transfers
  Like<& tuttiGroupEnd> group_end = tuttiGroupEnd;
  Like<& tuttiRedOpCreatePreMulSum> create_scaled_sum = tuttiRedOpCreatePreMulSum;
  Like<& tuttiSubmit> submit = tuttiSubmit;
  Like<& tuttiRequestTest> request_test = tuttiRequestTest;
  Like<& tuttiRequestWait> request_wait = tuttiRequestWait;
  Like<& tuttiPut> put = tuttiPut;
  Like<& tuttiPutSignal> put_signal = tuttiPutSignal;
  Like<& tuttiSignal> signal = tuttiSignal;
  Like<& tuttiGet> get = tuttiGet;
};

/// Puts a fault into the library of a rank.
using Fault = std::function<void(Library&, int rank)>;

}  // namespace tutti::random_calls
