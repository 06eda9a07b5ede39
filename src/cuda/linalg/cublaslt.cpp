#include "cuda/linalg/cublaslt.h"

#include "base/trace.h"
#include "cuda/common/tensors.h"
#include "cuda/linalg/cublaslt_store.h"
#include "cuda/linalg/gemm_layout.h"
#include "cuda/runtime/device_times.h"
#include "cuda/runtime/stream.h"
#include "record/precision.h"

namespace strata::cuda {
namespace {

using namespace cublaslt;  // NOLINT: names as in its documentation

constexpr int64_t kMostLaunches = 64;  // for a batch with two strides: one per outer index

// Products of fewer multiplications are launch-bound: a call of cuBLASLt takes about 15 us of host time, one of our own
// kernels 6 us (bench/gemm.py on an H200).
constexpr int64_t kLeastWork = int64_t{1} << 26, kLeastWorkF64 = int64_t{1} << 23;

int data_type(DType t) {
  switch (t) {
    case DType::F64: return kR64F;
    case DType::F16: return kR16F;
    case DType::BF16: return kR16BF;
    default: return kR32F;
  }
}

// Everything that run needs besides the tensors.
struct LtPlan {
  Geometry geometry;
  int64_t launches, a_step, b_step, c_step, d_step;  // of the outer batch dimension, strides in bytes
  double alpha, beta;
  bool copies;  // copy_addend first
};

Geometry describe(const GemmLayout& l, const TensorImpl& c, Bias bias, bool copies, bool tf32) {
  const auto size = static_cast<int64_t>(size_of(c.dtype));
  const bool wide = c.dtype == DType::F64;
  const bool adds = bias == Bias::No && l.addend != Addend::None, reads = adds && !copies;
  Geometry g{};
  g.device = c.device.index;
  g.a_type = g.b_type = g.d_type = g.bias_type = data_type(c.dtype);
  g.compute = wide ? kCompute64F : tf32 ? kCompute32FFastTf32 : kCompute32F;
  g.scale_type = wide ? kR64F : kR32F;
  g.m = l.m;
  g.n = l.n;
  g.k = l.k;
  g.a_along_k = l.a.along_k;
  g.b_along_k = l.b.along_k;
  g.lda = l.a.ld;
  g.ldb = l.b.ld;
  g.ldd = l.c_ld;
  g.ldc = reads ? l.in_m : l.c_ld;
  g.batch = l.batch[1];
  g.a_batch = l.a_b[1];
  g.b_batch = l.b_b[1];
  g.d_batch = l.c_b[1];
  g.c_batch = reads ? l.in_b[1] : l.c_b[1];
  g.adds = adds;
  g.bias = bias;
  g.alignment[0] = alignment(l.a.address, l.a_b[0] * size);
  g.alignment[1] = alignment(l.b.address, l.b_b[0] * size);
  g.alignment[3] = alignment(l.c, l.c_b[0] * size);
  g.alignment[2] = reads ? alignment(l.in, l.in_b[0] * size) : g.alignment[3];
  return g;
}

const char* plan_product(const GemmCall& g, bool tf32, Plan& plan) {
  const TensorImpl& c = *g.c;
  if (c.device.type != DeviceType::Cuda) return "cuBLASLt runs on device cuda";
  if (c.dtype != DType::F32 && c.dtype != DType::F64 && c.dtype != DType::F16 && c.dtype != DType::BF16)
    return "cuBLASLt is used for floating-point dtypes of 16 bits and more";
  GemmLayout l;
  if (const char* reason = lay_out(g, l)) return reason;
  const int64_t least = c.dtype == DType::F64 ? kLeastWorkF64 : kLeastWork;
  if (l.m * l.n < least / l.k / (l.batch[0] * l.batch[1])) return "small: our own kernels take less time to launch";
  if (l.batch[0] > kMostLaunches) return "the outer dimension of the batch would take too many launches";
  if (l.batch[1] > INT32_MAX) return "the batch is too large for cuBLASLt";
  const Functions* f = functions();
  if (!f) return "cuBLASLt is not installed";
  Runtime::gpu(c.device).activate();
  const char* objection = nullptr;
  const auto ready = [&](Bias bias, bool copies) {
    const Geometry geometry = describe(l, c, bias, copies, tf32);
    const std::shared_ptr<Prepared> p = find_prepared(*f, geometry);
    objection = objection_to(*p);
    if (objection) return false;
    const auto size = static_cast<int64_t>(size_of(c.dtype));
    plan.keep(LtPlan{geometry, l.batch[0], l.a_b[0] * size, l.b_b[0] * size,
                     (geometry.adds && !copies ? l.in_b[0] : l.c_b[0]) * size, l.c_b[0] * size, l.alpha,
                     bias == Bias::Yes ? 0 : l.beta, copies});
    plan.workspace = p->chosen.workspace;
    plan.variant = bias == Bias::Yes ? "bias" : copies ? "copied addend" : nullptr;
    return true;
  };
  if (l.addend == Addend::Row && ready(Bias::Yes, false)) return nullptr;
  if (ready(Bias::No, l.addend == Addend::Row || l.addend == Addend::General)) return nullptr;
  return objection;
}
}  // namespace

const char* plan_gemm_cublaslt(const GemmCall& g, Plan& plan) { return plan_product(g, false, plan); }

const char* plan_gemm_cublaslt_tf32(const GemmCall& g, Plan& plan) {
  if (g.c->dtype != DType::F32) return "for float32";
  if (!allow_tf32_products()) return "TF32 is off: see set_float32_matmul_precision";
  return plan_product(g, true, plan);
}

void run_gemm_cublaslt(const GemmCall& g, const Call& call, const Plan& plan) {
  const auto p = plan.get<LtPlan>();
  const Functions& f = *functions();
  const Stream stream = stream_of(g.c->device);
  stream.gpu().activate();
  const std::shared_ptr<Prepared> prepared = find_prepared(f, p.geometry);
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  const tracing::Span span(tracing::Layer::Runtime, "cublasLtMatmul");
  const DeviceTime time(span, stream.gpu(), stream.handle(), "cublasLtMatmul");
  std::unique_lock<std::mutex> hold;
  const bool bias = p.geometry.bias == Bias::Yes;
  if (bias) {
    hold = std::unique_lock(prepared->lock);
    const uint64_t address = l.in;
    check(f, f.desc_set(prepared->desc, kDescBiasPointer, &address, sizeof address), "naming the bias");
  }
  const bool wide = g.c->dtype == DType::F64;
  const auto narrow_alpha = static_cast<float>(p.alpha), narrow_beta = static_cast<float>(p.beta);
  const void* alpha = wide ? static_cast<const void*>(&p.alpha) : &narrow_alpha;
  const void* beta = wide ? static_cast<const void*>(&p.beta) : &narrow_beta;
  const uint64_t addend = p.geometry.adds ? l.in : l.c;
  const Layouts& layouts = prepared->layouts;
  for (int64_t i = 0; i < p.launches; ++i) {
    const auto at = [i](uint64_t base, int64_t step) {
      return reinterpret_cast<void*>(base + static_cast<uint64_t>(i * step));
    };
    const Status status = f.matmul(prepared->handle, prepared->desc, alpha, at(l.b.address, p.b_step), layouts.first,
                                   at(l.a.address, p.a_step), layouts.second, beta, at(addend, p.c_step), layouts.c,
                                   at(l.c, p.d_step), layouts.d, &prepared->chosen.algorithm,
                                   call.workspace ? call.workspace->data : nullptr, plan.workspace, stream.handle());
    if (i == 0) check_product(*prepared, status);
    else check(f, status, "a product of a batch");
  }
}

}  // namespace strata::cuda
