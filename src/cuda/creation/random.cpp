#include "cuda/creation/random.h"

#include <cmath>

#include "cuda/common/tensors.h"
#include "cuda/creation/random_params.h"
#include "cuda/movement/dense.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/graph.h"

namespace strata::cuda {
namespace {

constexpr int64_t kRandomThreads = 256;

// Philox blocks give `per_block` elements each; the kernel computes in `compute`.
RandomParams plan(const TensorImpl& out, int64_t per_block, DType compute, Generator& generator) {
  RandomParams p{};
  const RandomDraw draw = Graph::reserve(generator, static_cast<uint64_t>(ceil_div(out.numel, per_block)), out.device);
  p.seed = draw.seed;
  p.first = draw.first;
  p.base = draw.base;
  p.count = out.numel;
  p.out = address(out);
  p.out_type = tag(out);
  const bool common = compute == DType::F32 ? reads_in_pieces(out.dtype, false) : out.dtype == compute;
  p.vectors = common && p.out % 16 == 0;
  return p;
}

void launch(const Function& kernel, const RandomParams& p, int64_t per_thread, Device device) {
  stream_of(device).launch(kernel, {blocks_for(p.count, per_thread * kRandomThreads)}, {kRandomThreads}, 0, p);
}

// The parameters have no addresses yet.
DropoutParams drop_params(int64_t count, double p, double scale, const RandomDraw& draw) {
  DropoutParams d{};
  d.count = count;
  d.seed = draw.seed;
  d.first = draw.first;
  d.base = draw.base;
  const DropRule rule = drop_rule(p);
  d.all = rule.all;
  d.last = rule.last;
  d.scale = scale;
  return d;
}
// Reserves the words of a call.
DropoutParams drop_params(int64_t count, double p, double scale, Generator& generator, Device device) {
  return drop_params(count, p, scale, Graph::reserve(generator, static_cast<uint64_t>((count + 3) / 4), device));
}
void drop(DropoutParams d, const TensorImpl* x, const TensorImpl& out, const TensorImpl* mask) {
  static const Function kernels[] = {{"random", "dropout_f32"}, {"random", "dropout_f64"}};
  if (out.numel == 0) return;
  d.x = x ? reinterpret_cast<uint64_t>(x->data) : 0;
  d.mask = mask ? reinterpret_cast<uint64_t>(mask->data) : 0;
  d.out = reinterpret_cast<uint64_t>(out.data);
  d.type = static_cast<int32_t>(out.dtype);
  d.vectors = reads_in_pieces(out, out.dtype == DType::F64) && d.x % 16 == 0 && d.mask % kDropoutItems == 0;
  stream_of(out.device)
    .launch(kernels[out.dtype == DType::F64], {blocks_for(out.numel, kDropoutItems * kRandomThreads)}, {kRandomThreads},
            0, d);
}
}  // namespace

void fill_random(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator) {
  static const Function any[] = {{"random", "fill_f32"}, {"random", "fill_f64"}};
  static const Function uniform("random", "uniform_f32"), normal("random", "normal_f32"),
    exponential("random", "exponential_f32");
  const bool wide = out.dtype == DType::F64 || !is_floating(out.dtype);
  const int64_t per_block = wide ? 2 : 4;
  RandomParams p = plan(out, per_block, wide ? DType::F64 : DType::F32, generator);
  if (out.numel == 0) return;
  const int bits = distribution == Distribution::Uniform ? uniform_bits(out.dtype) : 24;
  p.distribution = static_cast<int32_t>(distribution);
  p.a = a;
  p.b = b;
  p.shift = 32 - bits;
  p.unit = std::ldexp(1.0F, -bits);
  const Function* kernel = &any[wide];
  if (!wide && distribution == Distribution::Uniform) kernel = &uniform;
  if (!wide && distribution == Distribution::Normal) kernel = &normal;
  if (!wide && distribution == Distribution::Exponential) kernel = &exponential;
  launch(*kernel, p, per_block * kRandomBlocks, out.device);
}

void fill_integers(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator) {
  static const Function any("random", "integers_any"), small("random", "integers_small");
  RandomParams p = plan(out, 2, DType::I64, generator);
  if (out.numel == 0) return;
  p.low = low;
  p.range = range;
  p.reciprocal = range ? UINT64_MAX / range : 0;
  launch(range > 0 && range <= kSmallRange ? small : any, p, 2 * kRandomBlocks, out.device);
}

void fill_bernoulli(const TensorImpl& out, const TensorImpl& chances, Generator& generator, const Tensor& worst) {
  static const Function one("random", "bernoulli_one"), each("random", "bernoulli_each");
  RandomParams p = plan(out, 2, DType::F32, generator);
  if (out.numel == 0) return;
  const auto check = [](double chance) {
    STRATA_CHECK(chance >= 0 && chance <= 1, Runtime, "bernoulli: expects p to be in [0, 1], but got p={}", chance);
  };
  const bool there = chances.device == out.device;
  if (there) {
    fill(*worst, 0);
    p.chances = reinterpret_cast<uint64_t>(chances.data);
    p.worst = reinterpret_cast<uint64_t>(worst.bytes());
    p.chances_type = static_cast<int32_t>(chances.dtype);
    p.chance_step = chances.numel != 1;
  } else {
    const auto chance = alias(chances).item<double>();
    check(chance);
    // Draws of 53 bits, the upper ones of 64, below the limit.
    const auto limit = static_cast<uint64_t>(std::ceil(std::ldexp(chance, 53)));
    p.all = limit == uint64_t{1} << 53;
    p.limit = limit << 11;
  }
  launch(there ? each : one, p, 2 * kBernoulliBlocks, out.device);
  if (there) check(worst.item<double>());
}

void keep_mask(const TensorImpl& out, double p, Generator& generator) {
  drop(drop_params(out.numel, p, 1, generator, out.device), nullptr, out, nullptr);
}

DropRule drop_rule(double p) {
  // Elements whose 24 upper bits are below the limit are dropped.
  const auto limit = static_cast<uint32_t>(std::ceil(std::ldexp(static_cast<float>(p), 24)));
  return {(limit << 8) - 1, limit == 0};  // `last` of the largest limit, 2^24: all bits
}

void reserve_draws(const TensorImpl& out, uint64_t blocks, Generator& generator) {
  static const Function kernel("random", "leave_draws");
  const RandomDraw draw = Graph::reserve(generator, blocks, out.device);
  stream_of(out.device).launch(kernel, {1}, {1}, 0, DrawStateParams{address(out), draw.seed, draw.first, draw.base});
}

void keep_mask_of(const TensorImpl& state, const TensorImpl& out, double p) {
  drop(drop_params(out.numel, p, 1, RandomDraw{0, 0, address(state)}), nullptr, out, nullptr);
}

void dropout(const TensorImpl& x, double p, double scale, const TensorImpl& out, const TensorImpl& mask,
             Generator& generator) {
  drop(drop_params(out.numel, p, scale, generator, out.device), &x, out, &mask);
}

std::optional<RowOp> dropout_in_group(const TensorImpl& x, double p, double scale) {
  if (x.ndim == 0 || x.shape[x.ndim - 1] % kDropoutItems != 0 || x.numel == 0 || compute_type(x.dtype) != DType::F32)
    return {};
  RowOp op{.compute = DType::F32, .shape = x.sizes(), .in = {{{}, &x}}};
  op.gpu = std::make_shared<GpuRows>(
    GpuRows{.header = "cuda/creation/dropout.cuh", .functor = "DropoutRow", .numbers = {scale}});
  const auto params = std::make_shared<DropoutParams>();
  op.prepare = [params, p, scale, gpu = op.gpu](const Call& c) {
    *params = drop_params(c.out().numel(), p, scale, default_generator(), c.out().device());
    gpu->words = {params->seed, params->first, params->base, params->last, static_cast<uint64_t>(params->all)};
  };
  op.alone = [params](const std::vector<Tensor>& in, std::byte* const* outs, std::vector<Tensor>& results) {
    for (const size_t o : {0, 1}) {
      Tensor& out = results.emplace_back(Ref<TensorImpl>::adopt(TensorImpl::make()));
      out->set_shape(in[0]->sizes());
      out->set_contiguous_strides();
      out->dtype = o ? DType::Bool : in[0].dtype();
      out->device = in[0].device();
      if (outs[o]) out->data = outs[o];
      else out->allocate();
    }
    const Tensor x = dense(*in[0]);
    drop(*params, x.get(), *results[0], results[1].get());
  };
  return op;
}

}  // namespace strata::cuda
