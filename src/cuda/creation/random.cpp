#include "cuda/creation/random.h"

#include <cmath>

#include "cuda/common/tensors.h"
#include "cuda/creation/random_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/graph.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

// A thread computes one Philox block, which gives `per_block` elements.
RandomParams plan(const TensorImpl& out, int64_t per_block, Generator& generator) {
  RandomParams p{};
  const auto blocks = static_cast<uint64_t>((out.numel + per_block - 1) / per_block);
  const RandomDraw draw = Graph::reserve(generator, blocks, out.device);
  p.seed = draw.seed;
  p.first = draw.first;
  p.base = draw.base;
  p.count = out.numel;
  p.out = reinterpret_cast<uint64_t>(out.data);
  p.out_type = static_cast<int32_t>(out.dtype);
  p.vectors = p.out % (static_cast<uint64_t>(per_block) * size_of(out.dtype)) == 0;
  return p;
}

void drop(const TensorImpl* x, double p, double scale, const TensorImpl& out, const TensorImpl* mask,
          Generator& generator) {
  static const Function kernels[] = {{"random", "dropout_f32"}, {"random", "dropout_f64"}};
  const RandomDraw draw = Graph::reserve(generator, static_cast<uint64_t>((out.numel + 3) / 4), out.device);
  if (out.numel == 0) return;
  DropoutParams d{};
  d.x = x ? reinterpret_cast<uint64_t>(x->data) : 0;
  d.mask = mask ? reinterpret_cast<uint64_t>(mask->data) : 0;
  d.out = reinterpret_cast<uint64_t>(out.data);
  d.type = static_cast<int32_t>(out.dtype);
  d.count = out.numel;
  d.vectors = d.x % 16 == 0 && d.out % 16 == 0 && d.mask % kDropoutItems == 0;
  d.seed = draw.seed;
  d.first = draw.first;
  d.base = draw.base;
  d.limit = static_cast<float>(p);
  d.scale = scale;
  stream_of(out.device)
    .launch(kernels[out.dtype == DType::F64], {blocks_for(out.numel, kDropoutItems * kThreads)}, {kThreads}, 0, d);
}
}  // namespace

void fill_random(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator) {
  static const Function kernels[] = {{"random", "fill_f32"}, {"random", "fill_f64"}};
  const bool wide = out.dtype == DType::F64 || !is_floating(out.dtype);
  const int64_t per_block = wide ? 2 : 4;
  RandomParams p = plan(out, per_block, generator);
  if (out.numel == 0) return;
  const int bits = distribution == Distribution::Uniform ? uniform_bits(out.dtype) : 24;
  p.distribution = static_cast<int32_t>(distribution);
  p.a = a;
  p.b = b;
  p.shift = 32 - bits;
  p.unit = std::ldexp(1.0F, -bits);
  stream_of(out.device).launch(kernels[wide], {blocks_for(out.numel, per_block * kThreads)}, {kThreads}, 0, p);
}

void fill_integers(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator) {
  static const Function kernel("random", "integers");
  RandomParams p = plan(out, 2, generator);
  if (out.numel == 0) return;
  p.low = low;
  p.range = range;
  p.reciprocal = range ? UINT64_MAX / range : 0;
  stream_of(out.device).launch(kernel, {blocks_for(out.numel, 2 * kThreads)}, {kThreads}, 0, p);
}

void fill_bernoulli(const TensorImpl& out, const TensorImpl& chances, Generator& generator) {
  static const Function kernel("random", "bernoulli");
  RandomParams p = plan(out, 2, generator);
  if (out.numel == 0) return;
  const auto check = [](double chance) {
    STRATA_CHECK(chance >= 0 && chance <= 1, Runtime, "bernoulli: expects p to be in [0, 1], but got p={}", chance);
  };
  Tensor worst;
  if (chances.device == out.device) {
    worst = make_tensor({}, DType::F64, out.device);
    fill(*worst, 0);
    p.chances = reinterpret_cast<uint64_t>(chances.data);
    p.worst = reinterpret_cast<uint64_t>(worst.bytes());
    p.chances_type = static_cast<int32_t>(chances.dtype);
    p.chance_step = chances.numel != 1;
  } else {
    p.a = alias(chances).item<double>();
    check(p.a);
  }
  stream_of(out.device).launch(kernel, {blocks_for(out.numel, 2 * kThreads)}, {kThreads}, 0, p);
  if (worst) check(worst.item<double>());
}

void keep_mask(const TensorImpl& out, double p, Generator& generator) { drop(nullptr, p, 1, out, nullptr, generator); }

void dropout(const TensorImpl& x, double p, double scale, const TensorImpl& out, const TensorImpl& mask,
             Generator& generator) {
  drop(&x, p, scale, out, &mask, generator);
}

}  // namespace strata::cuda
