// One loop per pair of types. Loops over contiguous rows are written so that the compiler vectorizes them.
#include "cpu/movement/convert.h"

#include <array>

#include "cpu/movement/runs.h"

namespace strata::cpu {
namespace {

template <class To, class From>
void convert_loop(std::byte* dst, int64_t ds, const std::byte* src, int64_t ss, int64_t n) {
  To* __restrict d = reinterpret_cast<To*>(dst);
  const From* __restrict s = reinterpret_cast<const From*>(src);
  if (ds == 1 && ss == 1) {
    constexpr bool to_float = std::is_same_v<To, float>, from_float = std::is_same_v<From, float>;
    if constexpr (to_float && std::is_same_v<From, Half>) return half_to_float(s, d, static_cast<size_t>(n));
    else if constexpr (from_float && std::is_same_v<To, Half>) return float_to_half(s, d, static_cast<size_t>(n));
    else if constexpr (to_float && std::is_same_v<From, BFloat16>) return bfloat_to_float(s, d, static_cast<size_t>(n));
    else if constexpr (from_float && std::is_same_v<To, BFloat16>) return float_to_bfloat(s, d, static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) d[i] = convert_element<To>(s[i]);
  } else if (ss == 0) {
    const To v = convert<To>(*s);
    for (int64_t i = 0; i < n; ++i) d[i * ds] = v;
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * ds] = convert_element<To>(s[i * ss]);
  }
}

struct Table {
  std::array<std::array<ConvertRow, kDTypeCount>, kDTypeCount> at;
  Table() {
    for (int to = 0; to < kDTypeCount; ++to)
      for (int from = 0; from < kDTypeCount; ++from)
        dispatch_dtype(static_cast<DType>(to), [&]<class To> {
          dispatch_dtype(static_cast<DType>(from), [&]<class From> { at[to][from] = convert_loop<To, From>; });
        });
  }
};
}  // namespace

ConvertRow convert_row(DType to, DType from) {
  static const Table table;
  return table.at[static_cast<int>(to)][static_cast<int>(from)];
}

}  // namespace strata::cpu
