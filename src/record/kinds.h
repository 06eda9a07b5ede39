// Kinds of functions within a family, shared by all back ends.
#pragma once
#include <cstdint>

namespace strata {

enum class Scan : uint8_t { Sum, Prod, LogSumExp };
// How a source element is combined with the element it is scattered to.
enum class Scatter : uint8_t { Assign, Add, Multiply, Max, Min };
// Which element of a row is selected.
enum class Pick : uint8_t { Kth, Median, NanMedian, Mode };

}  // namespace strata
