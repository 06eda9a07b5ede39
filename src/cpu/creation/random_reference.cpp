// Random numbers one at a time: element i from the words of its own Philox block, in the precision of the fast kernels.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/reference.h"
#include "device/philox.h"

namespace strata::cpu {
namespace {

struct Stream {
  Generator::Draw draw;
  Stream(Generator& generator, int64_t words) : draw(generator.reserve_words(static_cast<uint64_t>(words))) {}
  uint32_t word(int64_t i) const { return philox(draw.seed, draw.first + static_cast<uint64_t>(i) / 4).word[i % 4]; }
  uint64_t bits(int64_t i) const { return static_cast<uint64_t>(word(2 * i)) << 32 | word(2 * i + 1); }
  // In [0, 1): float from one word, with as many bits as the dtype holds; double from two.
  template <class C> C uniform(int64_t i, DType t) const {
    if constexpr (std::is_same_v<C, double>) return uniform_f64(word(2 * i), word(2 * i + 1));
    const int bits = uniform_bits(t);
    return std::ldexp(static_cast<C>(word(i) >> (32 - bits)), -bits);
  }
};

template <class C> C draw_element(const Stream& stream, Distribution distribution, C a, C b, int64_t i, DType t) {
  const auto uniform = [&](int64_t k) {
    return stream.uniform<C>(k, distribution == Distribution::Uniform ? t : DType::F32);
  };
  const C u = uniform(i);
  switch (distribution) {
    case Distribution::Uniform: return a + u * (b - a);
    case Distribution::Normal:
    case Distribution::LogNormal: {  // Box-Muller: elements 2k and 2k + 1 from the same two uniforms
      const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(uniform(i / 2 * 2)))),
                   angle = 6.283185307179586 * static_cast<double>(uniform(i / 2 * 2 + 1));
      const C normal = a + static_cast<C>(radius * (i % 2 ? std::sin(angle) : std::cos(angle))) * b;
      return distribution == Distribution::Normal ? normal : std::exp(normal);
    }
    case Distribution::Exponential: return -std::log(C(1) - u) / a;
    case Distribution::Cauchy: return a + b * std::tan(static_cast<C>(3.141592653589793) * (u - C(0.5)));
    case Distribution::Geometric: return std::max(C(1), std::ceil(std::log(C(1) - u) / std::log1p(-a)));
  }
  return u;
}
template <class C>
void fill_elements(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator) {
  const Stream stream(generator, out.numel * (std::is_same_v<C, double> ? 2 : 1));
  int64_t i = 0;
  each_index(out.sizes(), [&](const Index& at) {
    set<C>(out, at, draw_element<C>(stream, distribution, static_cast<C>(a), static_cast<C>(b), i++, out.dtype));
  });
}
}  // namespace

void fill_random_reference(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator) {
  if (out.dtype == DType::F64 || !is_floating(out.dtype)) fill_elements<double>(out, distribution, a, b, generator);
  else fill_elements<float>(out, distribution, a, b, generator);
}

void fill_integers_reference(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator) {
  const Stream stream(generator, 2 * out.numel);
  int64_t i = 0;
  each_index(out.sizes(), [&](const Index& at) {
    const uint64_t bits = stream.bits(i++);
    set<int64_t>(out, at, static_cast<int64_t>(static_cast<uint64_t>(low) + (range ? bits % range : bits)));
  });
}

void fill_bernoulli_reference(const TensorImpl& out, const TensorImpl& p, Generator& generator) {
  const Stream stream(generator, 2 * out.numel);
  int64_t i = 0;
  each_index(out.sizes(), [&](const Index& at) {
    const double chance = get<double>(p, p.numel == 1 ? Index{} : at);
    STRATA_CHECK(chance >= 0 && chance <= 1, Runtime, "bernoulli: expects p to be in [0, 1], but got p={}", chance);
    set<int64_t>(out, at, stream.uniform<double>(i++, DType::F64) < chance);
  });
}

void fill_permutation_reference(const TensorImpl& out, Generator& generator) {  // Fisher and Yates
  const int64_t n = out.numel;
  const Stream stream(generator, 2 * n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t other = i + static_cast<int64_t>(stream.bits(i) % static_cast<uint64_t>(n - i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
    set<int64_t>(out, Index{i}, order[static_cast<size_t>(i)]);
  }
}

// With replacement: the first index where the cumulative sum exceeds u times the total. Without: the indices of the
// largest weight / exponential draw.
void draw_by_weight_reference(const TensorImpl& out, const TensorImpl& weights, bool replacement,
                              Generator& generator) {
  const int64_t n = weights.shape[weights.ndim - 1], rows = weights.numel / std::max<int64_t>(n, 1),
                count = out.shape[out.ndim - 1];
  const In<double> weight(weights);
  const Stream stream(generator, 2 * rows * (replacement ? count : n));
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = weight + r * n;
    std::vector<bool> taken(static_cast<size_t>(n));
    for (int64_t k = 0; k < count; ++k) {
      int64_t best = 0;
      if (replacement) {
        const double goal = stream.uniform<double>(r * count + k, DType::F64) * std::accumulate(row, row + n, 0.0);
        double sum = row[0];
        while (best < n - 1 && !(sum > goal)) sum += row[++best];
        while (best > 0 && row[best] == 0) --best;
      } else {
        double most = -2;
        for (int64_t i = 0; i < n; ++i) {
          const double draw = draw_element<double>(stream, Distribution::Exponential, 1, 1, r * n + i, DType::F64),
                       score = row[i] > 0 ? row[i] / std::max(draw, 1e-300) : -1;
          if (!taken[static_cast<size_t>(i)] && score > most) {
            most = score;
            best = i;
          }
        }
        taken[static_cast<size_t>(best)] = true;
      }
      set<int64_t>(out, out.ndim == 1 ? Index{k} : Index{r, k}, best);
    }
  }
}

}  // namespace strata::cpu
