// Sorting by std::stable_sort, and selections as indices in the sorted line.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cpu/lines.h"
#include "cpu/order/sort.h"
#include "cpu/reference.h"

namespace strata::cpu {

void sort_reference(const TensorImpl& x, int dim, bool descending, const TensorImpl* values,
                    const TensorImpl* indices) {
  if (x.numel == 0) return;
  const Lines from(x, dim);
  dispatch_real(x.dtype, [&]<class T>() {
    std::vector<int64_t> order(static_cast<size_t>(from.length()));
    for (int64_t r = 0; r < from.count(); ++r) {
      const T* row = from.data<T>(r);
      const auto value = [&](int64_t i) {
        if constexpr (std::is_arithmetic_v<T>) return row[i * from.stride()];
        else return static_cast<float>(row[i * from.stride()]);
      };
      const auto less = [&](int64_t a, int64_t b) {
        return value(a) < value(b) || (value(a) == value(a) && value(b) != value(b));
      };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return descending ? less(b, a) : less(a, b); });
      for (int64_t i = 0; i < from.length(); ++i) {
        const int64_t place = order[static_cast<size_t>(i)];
        if (indices) Lines(*indices, dim).data<int64_t>(r)[i * Lines(*indices, dim).stride()] = place;
        if (values) Lines(*values, dim).data<T>(r)[i * Lines(*values, dim).stride()] = row[place * from.stride()];
      }
    }
  });
}

void topk_reference(const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
                    const TensorImpl& indices) {
  const Tensor sorted = make_tensor(x.sizes(), x.dtype), places = make_tensor(x.sizes(), DType::I64);
  sort_reference(x, dim, largest, sorted.get(), places.get());
  if (x.ndim > 0) sorted->shape[dim] = places->shape[dim] = k;
  copy_reference(values, *sorted);
  copy_reference(indices, *places);
}

void pick_reference(Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
                    const TensorImpl& indices) {
  if (x.numel == 0) return;
  const Tensor sorted = make_tensor(x.sizes(), x.dtype), order = make_tensor(x.sizes(), DType::I64);
  sort_reference(x, dim, false, sorted.get(), order.get());
  const Lines lines(*sorted, dim), places(*order, dim);
  const int64_t n = lines.length(), size = static_cast<int64_t>(size_of(x.dtype));
  dispatch_wide(x.dtype, [&]<class T>() {
    std::vector<T> buffer(static_cast<size_t>(n));
    for (int64_t r = 0; r < lines.count(); ++r) {
      const T* line = lines.read<T>(r, buffer.data());
      int64_t at = k, numbers = 0, longest = 0, run = 0;
      while (numbers < n && line[numbers] == line[numbers]) ++numbers;
      if (what == Pick::NanMedian || what == Pick::Median) at = std::max<int64_t>(0, (numbers - 1) / 2);
      if (what == Pick::Median && numbers < n) at = numbers;  // the first NaN
      for (int64_t i = 0; what == Pick::Mode && i < n; ++i) {
        run = i > 0 && (line[i] == line[i - 1] || i > numbers) ? run + 1 : 1;
        if (run > longest) {
          longest = run;
          at = i;
        }
      }
      std::memcpy(values.data + r * size, lines.at(r) + at * lines.stride() * size, static_cast<size_t>(size));
      reinterpret_cast<int64_t*>(indices.data)[r] = places.data<int64_t>(r)[at * places.stride()];
    }
  });
}

}  // namespace strata::cpu
