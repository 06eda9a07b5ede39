// Gamma, Poisson and binomial numbers (device/samplers.h), one element per thread, with the bits of the host.
//
// Bound by double arithmetic and by the slowest lane of a warp: an attempt is accepted with a probability of 0.7 to 0.98.
#include "cuda/common/dtypes.cuh"
#include "cuda/creation/samplers_params.h"
#include "device/samplers.h"

namespace strata::cuda {
namespace {

template <Sampler kSampler> __device__ __forceinline__ void draw(const SamplerParams& p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const double a = load<double>(element(p.a, p.a_type, i * p.a_step), p.a_type);
  const double b = kSampler == Sampler::Binomial ? load<double>(element(p.b, p.b_type, i * p.b_step), p.b_type) : 0;
  if (kSampler == Sampler::Poisson && !(a >= 0)) *reinterpret_cast<double*>(p.worst) = a;
  // A captured launch reads the seed and the stream position from the device, where each replay writes them.
  const uint64_t* base = reinterpret_cast<const uint64_t*>(p.base);
  const uint64_t seed = base ? base[0] : p.seed, position = (base ? base[1] : 0) + p.first + uint64_t(i);
  const double number = draw_sample(kSampler, a, b, seed, position);
  store<double>(const_cast<void*>(element(p.out, p.out_type, i)), p.out_type, number < p.least ? p.least : number);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) gamma_numbers(SamplerParams p) { draw<Sampler::Gamma>(p); }
extern "C" __global__ void __launch_bounds__(128) log_gamma_numbers(SamplerParams p) { draw<Sampler::LogGamma>(p); }
extern "C" __global__ void __launch_bounds__(128) poisson_numbers(SamplerParams p) { draw<Sampler::Poisson>(p); }
extern "C" __global__ void __launch_bounds__(128) binomial_numbers(SamplerParams p) { draw<Sampler::Binomial>(p); }

extern "C" __global__ void __launch_bounds__(128) normalize_logs(NormalizeParams p) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, first = row * p.n;
  if (row >= p.rows) return;
  samplers::normalize_logs(
    p.n, [&](int64_t i) { return load<double>(element(p.logs, p.logs_type, first + i), p.logs_type); },
    [&](int64_t i, double x) {
      store<double>(const_cast<void*>(element(p.out, p.out_type, first + i)), p.out_type, x);
    });
}

}  // namespace strata::cuda
