// Which of a family's functions a kernel is to compute: the terms that both back ends share.
#pragma once
#include <cstdint>

namespace strata {

enum class Scan : uint8_t { Sum, Prod, LogSumExp };
// How an element of a source joins the one it is scattered to.
enum class Scatter : uint8_t { Assign, Add, Multiply, Max, Min };
// Which element of a row is wanted.
enum class Pick : uint8_t { Kth, Median, NanMedian, Mode };

}  // namespace strata
