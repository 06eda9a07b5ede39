// A batch of blocks is generated at a time (random_simd.cpp); then each distribution maps words to numbers.
// Single-precision distributions use one word per element, double-precision ones two.
#include "cpu/creation/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "cpu/creation/random_words.h"
#include "cpu/movement/convert.h"
#include "cpu/movement/copy.h"
#include "device/normal.h"

namespace strata::cpu {
namespace {

constexpr int kBatch = kPhiloxBatch;
constexpr int64_t kGrain = 1 << 12;  // blocks per piece of parallel work

struct Words {
  uint32_t w[4 * kBatch];  // in stream order
  void fill(uint64_t seed, uint64_t first) { philox_words(seed, first, w); }
};

// Calls body(words, first element, count) over [0, n); `words_each` words per element.
template <class Body> void each_batch(int64_t n, int words_each, Generator& generator, const Body& body) {
  const int64_t per_block = 4 / words_each, blocks = (n + per_block - 1) / per_block;
  const Generator::Draw draw = generator.reserve(static_cast<uint64_t>(blocks));
  const int64_t batches = (blocks + kBatch - 1) / kBatch;
  parallel_for(batches, kGrain / kBatch, [&](int64_t begin, int64_t end) {
    Words words;
    for (int64_t k = begin; k < end; ++k) {
      words.fill(draw.seed, draw.first + static_cast<uint64_t>(k) * kBatch);
      const int64_t first = k * kBatch * per_block;
      body(words, first, std::min<int64_t>(kBatch * per_block, n - first));
    }
  });
}

// [0, 1) with as many bits as the dtype holds, so that rounding never reaches 1.
template <class C> void uniforms(const Words& words, C* u, int64_t n, DType t) {
  if constexpr (std::is_same_v<C, double>) {
    for (int64_t i = 0; i < n; ++i) u[i] = uniform_f64(words.w[2 * i], words.w[2 * i + 1]);
  } else {
    const int bits = uniform_bits(t);
    const float unit = std::ldexp(1.0F, -bits);
    for (int64_t i = 0; i < n; ++i) u[i] = static_cast<float>(words.w[i] >> (32 - bits)) * unit;
  }
}

// Box-Muller: elements 2k and 2k+1 from the same two uniforms. 1 - u is exact.
template <class C> void normals(C* u) {
  if constexpr (std::is_same_v<C, float>) return normal_pairs(u, 4 * kBatch);
  for (int i = 0; i < 2 * kBatch; i += 2) {
    const C radius = std::sqrt(-2 * std::log(1 - u[i])), angle = C(6.283185307179586) * u[i + 1];
    u[i] = radius * std::cos(angle);
    u[i + 1] = radius * std::sin(angle);
  }
}

template <class C> void apply(Distribution distribution, C a, C b, C* u, int64_t n) {
  switch (distribution) {
    case Distribution::Uniform:
      for (int64_t i = 0; i < n; ++i) u[i] = a + u[i] * (b - a);
      break;
    case Distribution::Normal:
      for (int64_t i = 0; i < n; ++i) u[i] = a + u[i] * b;
      break;
    case Distribution::LogNormal:
      for (int64_t i = 0; i < n; ++i) u[i] = std::exp(a + u[i] * b);
      break;
    case Distribution::Exponential:
      for (int64_t i = 0; i < n; ++i) u[i] = -std::log(C(1) - u[i]) / a;
      break;
    case Distribution::Cauchy:
      for (int64_t i = 0; i < n; ++i) u[i] = a + b * std::tan(static_cast<C>(3.141592653589793) * (u[i] - C(0.5)));
      break;
    case Distribution::Geometric:
      for (int64_t i = 0; i < n; ++i) u[i] = std::max(C(1), std::ceil(std::log(C(1) - u[i]) / std::log1p(-a)));
      break;
  }
}

template <class C>
void fill_floats(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator) {
  const DType own = std::is_same_v<C, double> ? DType::F64 : DType::F32;
  const ConvertRow convert = convert_row(out.dtype, own);
  const auto size = static_cast<int64_t>(size_of(out.dtype));
  const bool pairs = distribution == Distribution::Normal || distribution == Distribution::LogNormal;
  const DType bits = distribution == Distribution::Uniform ? out.dtype : own;
  each_batch(out.numel, std::is_same_v<C, double> ? 2 : 1, generator,
             [&](const Words& words, int64_t first, int64_t n) {
               C u[4 * kBatch];
               uniforms(words, u, std::is_same_v<C, double> ? 2 * kBatch : 4 * kBatch, bits);
               if (pairs) normals(u);
               apply(distribution, static_cast<C>(a), static_cast<C>(b), u, n);
               convert(out.data + first * size, 1, reinterpret_cast<const std::byte*>(u), 1, n);
             });
}
}  // namespace

void fill_random(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator) {
  if (out.dtype == DType::F64 || !is_floating(out.dtype)) fill_floats<double>(out, distribution, a, b, generator);
  else fill_floats<float>(out, distribution, a, b, generator);
}

void fill_integers(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator) {
  const ConvertRow convert = convert_row(out.dtype, DType::I64);
  const auto size = static_cast<int64_t>(size_of(out.dtype));
  // bits % range by one multiplication: the quotient bits * inverse / 2^64 is right or one too small.
  const uint64_t inverse = range ? UINT64_MAX / range : 0;
  each_batch(out.numel, 2, generator, [&](const Words& words, int64_t first, int64_t n) {
    int64_t v[2 * kBatch];
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t bits = static_cast<uint64_t>(words.w[2 * i]) << 32 | words.w[2 * i + 1];
      uint64_t rest = bits;
      if (range) {
        rest -= static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * inverse >> 64) * range;
        if (rest >= range) rest -= range;
      }
      v[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + rest);
    }
    convert(out.data + first * size, 1, reinterpret_cast<const std::byte*>(v), 1, n);
  });
}

void fill_bernoulli(const TensorImpl& out, const TensorImpl& p, Generator& generator) {
  const ConvertRow to_double = convert_row(DType::F64, p.dtype), from_bool = convert_row(out.dtype, DType::Bool);
  const auto in_size = static_cast<int64_t>(size_of(p.dtype)), size = static_cast<int64_t>(size_of(out.dtype));
  each_batch(out.numel, 2, generator, [&](const Words& words, int64_t first, int64_t n) {
    double u[2 * kBatch], chance[2 * kBatch];
    bool hit[2 * kBatch];
    uniforms(words, u, n, DType::F64);
    to_double(reinterpret_cast<std::byte*>(chance), 1, p.data + (p.numel == 1 ? 0 : first * in_size),
              p.numel == 1 ? 0 : 1, n);
    for (int64_t i = 0; i < n; ++i) {
      STRATA_CHECK(chance[i] >= 0 && chance[i] <= 1, Runtime, "bernoulli: expects p to be in [0, 1], but got p={}",
                   chance[i]);
      hit[i] = u[i] < chance[i];
    }
    from_bool(out.data + first * size, 1, reinterpret_cast<const std::byte*>(hit), 1, n);
  });
}

Dropout::Dropout(int64_t n, double p, double scale, Generator& generator) : scale_(scale) {
  const Generator::Draw draw = generator.reserve(static_cast<uint64_t>((n + 3) / 4));
  seed_ = draw.seed;
  first_block_ = draw.first;
  // A number of 24 bits that is below p drops its element: compared as words, whose other bits are lower.
  const auto limit = static_cast<uint32_t>(std::ceil(std::ldexp(static_cast<float>(p), 24)));
  last_ = (limit << 8) - 1;
  all_ = limit == 0;
}
// body(words, elements before these, count)
template <class Body> void Dropout::each_batch(int64_t first, int64_t count, Body body) const {
  Words words;
  for (int64_t done = 0; done < count;) {
    const int64_t at = first + done, skipped = at % 4, n = std::min<int64_t>(4 * kBatch - skipped, count - done);
    words.fill(seed_, first_block_ + static_cast<uint64_t>(at / 4));
    body(words.w + skipped, done, n);
    done += n;
  }
}
void Dropout::run(int64_t first, int64_t count, const float* x, float* out, bool* kept) const {
  const Drop rule{last_, all_, static_cast<float>(scale_)};
  each_batch(first, count, [&](const uint32_t* words, int64_t at, int64_t n) {
    drop_floats(words, rule, x + at, out + at, kept + at, n);
  });
}
void Dropout::run(int64_t first, int64_t count, const double* x, double* out, bool* kept) const {
  each_batch(first, count, [&](const uint32_t* words, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      kept[at + i] = words[i] > last_ || all_;
      out[at + i] = kept[at + i] ? x[at + i] * scale_ : 0;
    }
  });
}

void drop(const TensorImpl& x, double p, double scale, const TensorImpl& out, const TensorImpl& kept,
          Generator& generator) {
  const Dropout dropout(out.numel, p, scale, generator);
  auto* const mask = reinterpret_cast<bool*>(kept.data);
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  const ConvertRow widen = convert_row(DType::F32, x.dtype), narrow = convert_row(out.dtype, DType::F32);
  constexpr int64_t kPiece = 4 * kBatch;  // elements
  parallel_for((out.numel + kPiece - 1) / kPiece, kGrain / kBatch, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPiece, last = std::min(out.numel, end * kPiece);
    if (x.dtype == DType::F32 || x.dtype == DType::F64)
      return dispatch_compute(x.dtype, [&]<class T>() {
        if constexpr (std::is_floating_point_v<T>)
          dropout.run(first, last - first, reinterpret_cast<const T*>(x.data) + first,
                      reinterpret_cast<T*>(out.data) + first, mask + first);
      });
    float v[kPiece];
    for (int64_t at = first; at < last; at += kPiece) {
      const int64_t n = std::min(kPiece, last - at);
      widen(reinterpret_cast<std::byte*>(v), 1, x.data + at * size, 1, n);
      dropout.run(at, n, v, v, mask + at);
      narrow(out.data + at * size, 1, reinterpret_cast<const std::byte*>(v), 1, n);
    }
  });
}

void fill_permutation(const TensorImpl& out, Generator& generator) {
  const int64_t n = out.numel;
  std::vector<int64_t> order(static_cast<size_t>(n)), pick(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  each_batch(n, 2, generator, [&](const Words& words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = static_cast<uint64_t>(words.w[2 * i]) << 32 | words.w[2 * i + 1];
      pick[static_cast<size_t>(first + i)] =
        first + i + static_cast<int64_t>(bits % static_cast<uint64_t>(n - first - i));
    }
  });
  for (size_t i = 0; i < order.size(); ++i) std::swap(order[i], order[static_cast<size_t>(pick[i])]);
  convert_row(out.dtype, DType::I64)(out.data, 1, reinterpret_cast<const std::byte*>(order.data()), 1, n);
}

void fill_order(const TensorImpl& out, Generator& generator) {
  struct Entry {
    uint64_t key;
    int64_t place;
  };
  const int64_t n = out.numel;
  const auto count = static_cast<size_t>(n);
  std::vector<uint64_t> keys(count);
  constexpr uint64_t kSign = uint64_t{1} << 63;  // devices compare the numbers with their signs
  each_batch(n, 2, generator, [&](const Words& words, int64_t first, int64_t drawn) {
    for (int64_t i = 0; i < drawn; ++i)
      keys[static_cast<size_t>(first + i)] = (static_cast<uint64_t>(words.w[2 * i]) << 32 | words.w[2 * i + 1]) ^ kSign;
  });
  // The keys are uniform, so their upper bits distribute them evenly: about eight to a bucket, which is then sorted.
  const int shift = 64 - std::max(static_cast<int>(std::bit_width(count)) - 3, 1);
  std::vector<size_t> next((size_t{1} << (64 - shift)) + 1);
  for (const uint64_t key : keys) ++next[(key >> shift) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Entry> entries(count);
  for (size_t i = 0; i < count; ++i) entries[next[keys[i] >> shift]++] = {keys[i], static_cast<int64_t>(i)};
  for (size_t i = 1; i < count; ++i) {  // equal keys stay in order
    const Entry own = entries[i];
    size_t at = i;
    for (; at > 0 && entries[at - 1].key > own.key; --at) entries[at] = entries[at - 1];
    entries[at] = own;
  }
  constexpr int64_t kStep = sizeof(Entry) / sizeof(int64_t);
  if (n > 0)
    convert_row(out.dtype, DType::I64)(out.data, 1, reinterpret_cast<const std::byte*>(&entries[0].place), kStep, n);
}

void draw_by_weight(const TensorImpl& out, const TensorImpl& weights, bool replacement, Generator& generator) {
  const int64_t n = weights.shape[weights.ndim - 1], rows = weights.numel / std::max<int64_t>(n, 1),
                count = out.shape[out.ndim - 1];
  const auto* w = reinterpret_cast<const double*>(weights.data);
  auto* to = reinterpret_cast<int64_t*>(out.data);
  const Tensor u = make_tensor(Shape(std::array{rows * (replacement ? count : n)}), DType::F64);
  fill_random(*u, replacement ? Distribution::Uniform : Distribution::Exponential, replacement ? 0 : 1, 1, generator);
  const double* draws = u.data<double>();
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sum(static_cast<size_t>(n));
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const double* row = w + r * n;
      if (replacement) {
        std::partial_sum(row, row + n, sum.begin());
        for (int64_t k = 0; k < count; ++k) {
          const auto at = std::upper_bound(sum.begin(), sum.end(), draws[r * count + k] * sum.back()) - sum.begin();
          int64_t i = std::min<int64_t>(at, n - 1);
          while (i > 0 && row[i] == 0) --i;
          to[r * count + k] = i;
        }
      } else {  // the largest weight / exponential draws are a sample without replacement
        for (int64_t i = 0; i < n; ++i)
          sum[static_cast<size_t>(i)] = row[i] > 0 ? row[i] / std::max(draws[r * n + i], 1e-300) : -1;
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t x, int64_t y) {
          const double a = sum[static_cast<size_t>(x)], b = sum[static_cast<size_t>(y)];
          return a != b ? a > b : x < y;
        });
        std::copy_n(order.begin(), count, to + r * count);
      }
    }
  });
}

}  // namespace strata::cpu
