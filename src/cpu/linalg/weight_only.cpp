#include "cpu/linalg/weight_only.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 1 << 16;  // multiplications that are worth a thread

const uint8_t* row_of(const WeightProduct& w, int64_t n) {
  return reinterpret_cast<const uint8_t*>(w.weight.data) + n * w.weight.strides[0];
}
}  // namespace

void weight_product(const WeightProduct& w) {
  const int64_t rows = w.rows(), columns = w.n(), k = w.k(), groups = w.groups();
  const In<float> x(w.x), scales(w.scales);
  const Tensor zeros_tensor = w.zeros ? staged(*w.zeros, DType::F32) : Tensor();
  const float* zeros = w.zeros ? zeros_tensor.data<float>() : nullptr;
  std::vector<float> sums_of_x(zeros ? static_cast<size_t>(rows * groups) : 0);
  for (int64_t i = 0; zeros && k > 0 && i < rows * groups; ++i)
    sums_of_x[static_cast<size_t>(i)] = std::accumulate(x.get() + i * w.group(), x.get() + (i + 1) * w.group(), 0.F);
  const Tensor out_tensor = borrow(w.out);
  const Out<float> out(out_tensor);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, rows * k));
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    float sums[kWeightRows];
    for (int64_t n = begin; n < end; ++n)
      for (int64_t m = 0; m < rows; m += kWeightRows) {
        const int count = static_cast<int>(std::min<int64_t>(kWeightRows, rows - m));
        weight_line({row_of(w, n), x.get() + m * k, scales.get() + n * groups, zeros ? zeros + n * groups : nullptr,
                     sums_of_x.data() + (zeros ? m * groups : 0), k, w.group(), count, w.bits},
                    sums);
        for (int r = 0; r < count; ++r) out[(m + r) * columns + n] = sums[r];
      }
  });
  out.finish();
}

void weight_product_reference(const WeightProduct& w) {
  const In<double> x(w.x), scales(w.scales);
  const Tensor zeros_tensor = w.zeros ? staged(*w.zeros, DType::F64) : Tensor();
  const Tensor out_tensor = borrow(w.out);
  const Out<double> out(out_tensor);
  for (int64_t m = 0; m < w.rows(); ++m)
    for (int64_t n = 0; n < w.n(); ++n) {
      double sum = 0;
      const uint8_t* row = row_of(w, n);
      for (int64_t k = 0; k < w.k(); ++k) {
        const uint8_t byte = row[(w.bits == 8 ? k : k / 2) * w.weight.strides[1]];
        const int q = w.bits == 8 ? static_cast<int8_t>(byte) : (k % 2 ? byte & 15 : byte >> 4) - 8;
        const int64_t at = n * w.groups() + k / w.group();
        sum += x[m * w.k() + k] * (q * scales[at] + (w.zeros ? zeros_tensor.data<double>()[at] : 0));
      }
      out[m * w.n() + n] = sum;
    }
  out.finish();
}

}  // namespace strata::cpu
