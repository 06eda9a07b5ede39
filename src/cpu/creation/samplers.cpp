// Rows of gamma, Poisson and binomial numbers, converted from and to the dtypes of tensors.
#include "cpu/creation/samplers.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/movement/convert.h"
#include "cpu/reference.h"
#include "record/distributions.h"

namespace strata::cpu {

void draw_samples(Sampler sampler, const TensorImpl& out, const TensorImpl& a, const TensorImpl* b, double least,
                  Generator& generator) {
  constexpr int64_t kRow = 256, kRowsPerPiece = 4;
  const Generator::Draw draw = generator.reserve(static_cast<uint64_t>(out.numel));
  const ConvertRow to_out = convert_row(out.dtype, DType::F64);
  const auto size = static_cast<int64_t>(size_of(out.dtype));
  const auto read = [](const TensorImpl& t, int64_t first, int64_t n, double* to) {
    const int64_t step = t.numel != 1;
    convert_row(DType::F64, t.dtype)(reinterpret_cast<std::byte*>(to), 1,
                                     t.data + step * first * static_cast<int64_t>(size_of(t.dtype)), step, n);
  };
  parallel_for((out.numel + kRow - 1) / kRow, kRowsPerPiece, [&](int64_t begin, int64_t end) {
    double first_parameter[kRow], second_parameter[kRow], numbers[kRow];
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * kRow, n = std::min(kRow, out.numel - first);
      read(a, first, n, first_parameter);
      if (b) read(*b, first, n, second_parameter);
      if (sampler == Sampler::Poisson)
        for (int64_t i = 0; i < n; ++i) check_rate(first_parameter[i]);
      draw_row(sampler, first_parameter, second_parameter, draw.seed, draw.first + static_cast<uint64_t>(first), n,
               numbers);
      for (int64_t i = 0; i < n; ++i) numbers[i] = numbers[i] < least ? least : numbers[i];
      to_out(out.data + first * size, 1, reinterpret_cast<const std::byte*>(numbers), 1, n);
    }
  });
}

void normalize_logs(const TensorImpl& out, const TensorImpl& logs) {
  const int64_t n = out.shape[out.ndim - 1], rows = n ? out.numel / n : 0;
  const ConvertRow to_double = convert_row(DType::F64, logs.dtype), from_double = convert_row(out.dtype, DType::F64);
  const auto in_size = static_cast<int64_t>(size_of(logs.dtype)), size = static_cast<int64_t>(size_of(out.dtype));
  parallel_for(rows, std::max<int64_t>(1024 / std::max<int64_t>(n, 1), 1), [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      to_double(reinterpret_cast<std::byte*>(row.data()), 1, logs.data + r * n * in_size, 1, n);
      normalize_row(row.data(), n);
      from_double(out.data + r * n * size, 1, reinterpret_cast<const std::byte*>(row.data()), 1, n);
    }
  });
}

void normalize_logs_reference(const TensorImpl& out, const TensorImpl& logs) {
  const int64_t n = out.shape[out.ndim - 1], rows = n ? out.numel / n : 0;
  const In<double> in(logs);
  std::vector<double> all(static_cast<size_t>(out.numel));
  for (int64_t r = 0; r < rows; ++r)
    samplers::normalize_logs(
      n, [&](int64_t i) { return in[r * n + i]; },
      [&](int64_t i, double x) { all[static_cast<size_t>(r * n + i)] = x; });
  size_t next = 0;
  each_index(out.sizes(), [&](const Index& at) { set<double>(out, at, all[next++]); });
}

void draw_samples_reference(Sampler sampler, const TensorImpl& out, const TensorImpl& a, const TensorImpl* b,
                            double least, Generator& generator) {
  const Generator::Draw draw = generator.reserve(static_cast<uint64_t>(out.numel));
  uint64_t position = draw.first;
  each_index(out.sizes(), [&](const Index& at) {
    const auto parameter = [&](const TensorImpl& t) { return get<double>(t, t.numel == 1 ? Index{} : at); };
    const double first = parameter(a);
    if (sampler == Sampler::Poisson) check_rate(first);
    const double number = draw_sample(sampler, first, b ? parameter(*b) : 0, draw.seed, position++);
    set<double>(out, at, number < least ? least : number);
  });
}

}  // namespace strata::cpu
