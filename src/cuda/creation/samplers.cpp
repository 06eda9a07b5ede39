#include "cuda/creation/samplers.h"

#include "cuda/common/tensors.h"
#include "cuda/creation/samplers_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/graph.h"
#include "record/distributions.h"

namespace strata::cuda {
namespace {
constexpr int64_t kSamplerThreads = 128;
}  // namespace

void draw_samples(Sampler sampler, const TensorImpl& out, const TensorImpl& a, const TensorImpl* b, double least,
                  Generator& generator, const Tensor& worst) {
  static const Function kernels[] = {{"samplers", "gamma_numbers"},
                                     {"samplers", "log_gamma_numbers"},
                                     {"samplers", "poisson_numbers"},
                                     {"samplers", "binomial_numbers"}};
  const RandomDraw draw = Graph::reserve(generator, static_cast<uint64_t>(out.numel), out.device);
  if (out.numel == 0) return;
  SamplerParams p{};
  p.out = address(out);
  p.out_type = tag(out);
  p.a = address(a);
  p.a_type = tag(a);
  p.a_step = a.numel != 1;
  if (b) {
    p.b = address(*b);
    p.b_type = tag(*b);
    p.b_step = b->numel != 1;
  }
  if (worst) {
    fill(*worst, 0);
    p.worst = address(*worst);
  }
  p.count = out.numel;
  p.seed = draw.seed;
  p.first = draw.first;
  p.base = draw.base;
  p.least = least;
  stream_of(out.device)
    .launch(kernels[static_cast<int>(sampler)], {blocks_for(out.numel, kSamplerThreads)}, {kSamplerThreads}, 0, p);
  if (worst) check_rate(worst.item<double>());
}

void normalize_logs(const TensorImpl& out, const TensorImpl& logs) {
  static const Function kernel("samplers", "normalize_logs");
  if (out.numel == 0) return;
  const int64_t n = out.shape[out.ndim - 1];
  const NormalizeParams p{address(out), address(logs), tag(out), tag(logs), out.numel / n, n};
  stream_of(out.device).launch(kernel, {blocks_for(p.rows, kSamplerThreads)}, {kSamplerThreads}, 0, p);
}

}  // namespace strata::cuda
