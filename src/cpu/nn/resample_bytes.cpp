#include "cpu/nn/resample_bytes.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace strata::cpu {
namespace {

constexpr int64_t kBytesAtOnce = 16384;  // minimum outputs per thread

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
double keys(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// Weights in double, [out][size]; returns the largest. Without antialias the inputs next to an edge count for those beyond it.
double fill_weights(ByteTaps& t, std::vector<double>& weight, bool cubic, bool aligned, double scale, bool antialias) {
  const double reach = cubic ? 4 : 2, stretch = antialias ? std::max(scale, 1.0) : 1, support = reach / 2 * stretch;
  const double shift = aligned && !antialias ? 0.5 : 0, shrink = antialias && scale >= 1 ? 1 / scale : 1;
  t.size = antialias ? static_cast<int64_t>(std::ceil(support)) * 2 + 1 : static_cast<int64_t>(reach);
  weight.assign(static_cast<size_t>(t.out * t.size), 0);
  const auto filter = [&](double x) { return cubic ? keys(x, antialias ? -0.5 : -0.75) : triangle(x); };
  double largest = 0;
  for (int64_t o = 0; o < t.out; ++o) {
    const double centre = scale * (static_cast<double>(o) + 0.5 - shift);
    double* const w = &weight[static_cast<size_t>(o * t.size)];
    const auto low = static_cast<int64_t>(std::floor(centre - support + 0.5 + shift));
    const int64_t first = std::clamp<int64_t>(low, 0, t.in - 1);
    const int64_t end = antialias ? std::min(static_cast<int64_t>(centre + support + 0.5), t.in) : low + t.size;
    const int64_t from = antialias ? first : low, taps = std::clamp<int64_t>(end - from, 0, t.size);
    int64_t count = 0;
    double total = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t at = std::clamp<int64_t>(from + k, 0, t.in - 1) - first;
      const double value = filter((static_cast<double>(from + k) - centre + 0.5 - shift) * shrink);
      w[at] += value;
      total += value;
      count = at + 1;
    }
    for (int64_t k = 0; k < count; ++k) {
      if (total != 0) w[k] /= total;
      largest = std::max(largest, w[k]);
    }
    t.first.push_back(first);
    t.count.push_back(count);
  }
  return largest;
}
uint8_t rounded(int32_t sum, int precision) { return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255)); }
int32_t half(int precision) { return precision ? 1 << (precision - 1) : 0; }

// kRows rows along the innermost dimension: their sums are independent of each other.
template <int kRows> void resample_rows(const ByteTaps& t, const uint8_t* x, uint8_t* y) {
  const int32_t* w = t.weight.data();
  for (int64_t o = 0; o < t.out; ++o, w += t.size) {
    const uint8_t* const from = x + t.first[static_cast<size_t>(o)];
    const int64_t count = t.count[static_cast<size_t>(o)];
    int32_t sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = half(t.precision);
    for (int64_t k = 0; k < count; ++k)
      for (int r = 0; r < kRows; ++r) sums[r] += w[k] * from[r * t.in + k];
    for (int r = 0; r < kRows; ++r) y[r * t.out + o] = rounded(sums[r], t.precision);
  }
}
void copy_row(const ByteTaps& t, const uint8_t* x, uint8_t* y) {
  for (int64_t o = 0; o < t.out; ++o) y[o] = x[t.first[static_cast<size_t>(o)]];
}
}  // namespace

ByteTaps make_byte_taps(int64_t in, int64_t out, Filter filter, bool align_corners, double scale, bool antialias) {
  ByteTaps t;
  t.in = in;
  t.out = out;
  if (is_nearest(filter)) {
    t.first = make_taps(in, out, filter, false, scale, false, true).index;
    t.count.assign(t.first.size(), 1);
    t.weight.assign(t.first.size(), 1);
    return t;
  }
  if (align_corners) scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  else if (scale <= 0) scale = static_cast<double>(in) / static_cast<double>(out);
  std::vector<double> weight;
  const double largest = fill_weights(t, weight, filter == Filter::Cubic, align_corners, scale, antialias);
  // As precise as weights of 16 bits can be.
  while (t.precision < 22 && static_cast<int64_t>(0.5 + largest * (1 << (t.precision + 1))) < 1 << 15) ++t.precision;
  for (const double w : weight) t.weight.push_back(static_cast<int32_t>(w * (1 << t.precision) + (w < 0 ? -0.5 : 0.5)));
  return t;
}

void resample_bytes_along(const ByteTaps& t, int64_t outer, int64_t inner, const uint8_t* x, uint8_t* y) {
  const int64_t grain = std::max<int64_t>(1, kBytesAtOnce / std::max<int64_t>(1, inner == 1 ? t.out : inner));
  const bool copies = t.precision == 0;
  if (inner == 1)
    return parallel_for(outer, grain, [&](int64_t begin, int64_t end) {
      constexpr int kTogether = 4;
      int64_t b = begin;
      for (; !copies && b + kTogether <= end; b += kTogether) resample_rows<kTogether>(t, x + b * t.in, y + b * t.out);
      for (; b < end; ++b) (copies ? copy_row : resample_rows<1>)(t, x + b * t.in, y + b * t.out);
    });
  parallel_for(outer * t.out, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto o = static_cast<size_t>(r % t.out);
      const uint8_t* const from = x + (r / t.out * t.in + t.first[o]) * inner;
      if (copies) std::copy_n(from, inner, y + r * inner);
      else
        sum_byte_rows(&t.weight[o * static_cast<size_t>(t.size)], t.count[o], t.precision, inner, from, y + r * inner);
    }
  });
}

void resample_bytes_reference(const ByteTaps& t, int64_t outer, int64_t inner, const uint8_t* x, uint8_t* y) {
  const double unit = std::ldexp(1.0, -t.precision);
  for (int64_t b = 0; b < outer; ++b)
    for (int64_t o = 0; o < t.out; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        double sum = t.precision ? 0.5 : 0;  // exact: the weights are multiples of `unit`
        for (int64_t k = 0; k < t.count[static_cast<size_t>(o)]; ++k)
          sum += t.weight[static_cast<size_t>(o * t.size + k)] * unit *
                 x[(b * t.in + t.first[static_cast<size_t>(o)] + k) * inner + i];
        y[(b * t.out + o) * inner + i] = static_cast<uint8_t>(std::clamp(std::floor(sum), 0.0, 255.0));
      }
}

}  // namespace strata::cpu
