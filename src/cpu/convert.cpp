// One loop per pair of types. Contiguous rows are written so that the compiler turns them into vector code.
#include "cpu/convert.h"

#include <array>

namespace strata::cpu {
namespace {

template <class To, class From>
void convert_loop(std::byte* dst, int64_t ds, const std::byte* src, int64_t ss, int64_t n) {
  To* __restrict d = reinterpret_cast<To*>(dst);
  const From* __restrict s = reinterpret_cast<const From*>(src);
  if (ds == 1 && ss == 1) {
    for (int64_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
  } else if (ss == 0) {
    const To v = convert<To>(*s);
    for (int64_t i = 0; i < n; ++i) d[i * ds] = v;
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * ds] = convert<To>(s[i * ss]);
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
