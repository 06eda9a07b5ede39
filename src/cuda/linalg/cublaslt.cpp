// cuBLASLt is column-major. It computes the transposed product c' = b' a', which has the same bytes as c in row-major
// order. Its heuristic is queried once per geometry, and the result is cached.
#include "cuda/linalg/cublaslt.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/trace.h"
#include "cuda/common/tensors.h"
#include "cuda/libs/cublaslt.h"
#include "cuda/libs/prepared.h"
#include "cuda/linalg/gemm_layout.h"
#include "cuda/runtime/stream.h"
#include "record/precision.h"

namespace strata::cuda {
namespace {

using namespace cublaslt;  // NOLINT: names as in its documentation

constexpr size_t kMostWorkspace = size_t{32} << 20;  // for split sums; PyTorch's limit
constexpr int64_t kMostLaunches = 64;                // for a batch with two strides: one per outer index

// Products of fewer multiplications are launch-bound: a call of cuBLASLt takes about 15 us of host time, one of our own
// kernels 6 us (bench/gemm.py on an H200).
constexpr int64_t kLeastWork = int64_t{1} << 26, kLeastWorkF64 = int64_t{1} << 23;

enum class Bias : int64_t { No, Yes };

// The key of the cache. All fields have 8 bytes, so that there is no padding.
struct Geometry {
  int64_t device, dtype, m, n, k, a_along_k, b_along_k, lda, ldb, ldc, ldd;
  int64_t batch, a_batch, b_batch, c_batch, d_batch;  // the batch dimension that one launch covers
  int64_t adds;                                       // whether beta is not 0
  Bias bias;
  int64_t tf32;
  int64_t alignment[4];  // of a, b, c and d in bytes, at most 16
};

struct Layouts {
  Layout first = nullptr, second = nullptr, c = nullptr, d = nullptr;
};

// A prepared product: descriptors and the recommended algorithm. `found` is false if there is none.
struct Prepared {
  const Functions& f;
  const Handle handle;
  MatmulDesc desc = nullptr;
  Layouts layouts;
  HeuristicResult chosen{};
  bool found = false;
  std::mutex lock;  // held while the descriptor carries the address of a bias

  Prepared(const Functions& functions, Handle h) : f(functions), handle(h) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    for (Layout l : {layouts.first, layouts.second, layouts.c, layouts.d})
      if (l) f.layout_destroy(l);
    if (desc) f.desc_destroy(desc);
  }
};

void check(const Functions& f, Status status, const char* what) {
  if (status) fail(ErrorKind::Runtime, fmt::format("cuBLASLt: {} failed with {}", what, f.status_name(status)));
}

int data_type(DType t) {
  switch (t) {
    case DType::F64: return kR64F;
    case DType::F16: return kR16F;
    case DType::BF16: return kR16BF;
    default: return kR32F;
  }
}

Layout make_layout(const Functions& f, int type, int64_t rows, int64_t columns, int64_t ld, int64_t count,
                   int64_t stride) {
  Layout made = nullptr;
  check(f, f.layout_create(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld),
        "describing a matrix");
  if (count > 1) {
    const auto batches = static_cast<int32_t>(count);
    check(f, f.layout_set(made, kLayoutBatchCount, &batches, sizeof batches), "describing a batch");
    check(f, f.layout_set(made, kLayoutBatchStride, &stride, sizeof stride), "describing a batch");
  }
  return made;
}

HeuristicResult recommended(const Geometry& g, const Prepared& p) {
  const Functions& f = p.f;
  Preference preference = nullptr;
  check(f, f.preference_create(&preference), "making a preference");
  const std::unique_ptr<PreferenceOpaque, Status (*)(Preference)> owner(preference, f.preference_destroy);
  const auto set = [&](int attribute, auto value) {
    check(f, f.preference_set(preference, attribute, &value, sizeof value), "setting a preference");
  };
  set(kPreferMaxWorkspace, kMostWorkspace);
  set(kPreferReductions, uint32_t{kReductionComputeType});  // partial sums are not rounded to the result's dtype
  const int attributes[] = {kPreferAlignmentB, kPreferAlignmentA, kPreferAlignmentC, kPreferAlignmentD};
  for (size_t i = 0; i < 4; ++i) set(attributes[i], static_cast<uint32_t>(g.alignment[i]));
  HeuristicResult result{};
  int found = 0;
  const Layouts& l = p.layouts;
  if (f.heuristic(p.handle, p.desc, l.first, l.second, l.c, l.d, preference, 1, &result, &found) || found == 0)
    result.state = -1;
  return result;
}

std::shared_ptr<Prepared> prepare(const Functions& f, Handle handle, const Geometry& g) {
  auto p = std::make_shared<Prepared>(f, handle);
  const auto dtype = static_cast<DType>(g.dtype);
  const int type = data_type(dtype);
  const bool wide = dtype == DType::F64;
  const ComputeType compute = wide ? kCompute64F : g.tf32 ? kCompute32FFastTf32 : kCompute32F;
  check(f, f.desc_create(&p->desc, compute, wide ? kR64F : kR32F), "describing a product");
  const auto set = [&](int attribute, int32_t value) {
    check(f, f.desc_set(p->desc, attribute, &value, sizeof value), "describing a product");
  };
  set(kDescTransA, g.b_along_k ? kOpT : kOpN);
  set(kDescTransB, g.a_along_k ? kOpN : kOpT);
  if (g.bias == Bias::Yes) {
    set(kDescEpilogue, kEpilogueBias);
    set(kDescBiasDataType, type);
  }
  Layouts& l = p->layouts;
  const auto layout = [&](int64_t rows, int64_t columns, int64_t ld, int64_t stride) {
    return make_layout(f, type, rows, columns, ld, g.batch, stride);
  };
  l.first = g.b_along_k ? layout(g.k, g.n, g.ldb, g.b_batch) : layout(g.n, g.k, g.ldb, g.b_batch);
  l.second = g.a_along_k ? layout(g.k, g.m, g.lda, g.a_batch) : layout(g.m, g.k, g.lda, g.a_batch);
  l.c = layout(g.n, g.m, g.ldc, g.c_batch);
  l.d = layout(g.n, g.m, g.ldd, g.d_batch);
  p->chosen = recommended(g, *p);
  p->found = p->chosen.state == 0;
  return p;
}

// Handles by device, and the cache. Never destroyed: the library may be unloaded before static destructors run.
class Store {
 public:
  static Store& get() {
    static auto* store = new Store;
    return *store;
  }
  std::shared_ptr<Prepared> find(const Functions& f, const Geometry& g) {
    return kept_.find(g, [&] { return prepare(f, handle(f, g.device), g); });
  }

 private:
  Handle handle(const Functions& f, int64_t device) {
    Handle& h = handles_[device];
    if (!h) check(f, f.create(&h), "starting it");
    return h;
  }
  std::map<int64_t, Handle> handles_;  // changed only while something is prepared
  PreparedCalls<Geometry, Prepared> kept_;
};

int64_t alignment(uint64_t address, int64_t outer_stride, size_t element) {
  const uint64_t bits = address | static_cast<uint64_t>(outer_stride) * element | 16;
  return int64_t{1} << std::countr_zero(bits);
}

// Everything that run needs besides the tensors.
struct LtPlan {
  Geometry geometry;
  int64_t launches, a_step, b_step, c_step, d_step;  // of the outer batch dimension, strides in bytes
  double alpha, beta;
  bool copies;  // copy_addend first
};

Geometry describe(const GemmLayout& l, const TensorImpl& c, Bias bias, bool copies, bool tf32) {
  const size_t size = size_of(c.dtype);
  const bool adds = bias == Bias::No && l.addend != Addend::None, reads = adds && !copies;
  Geometry g{};
  g.device = c.device.index;
  g.dtype = static_cast<int64_t>(c.dtype);
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
  g.tf32 = tf32;
  g.alignment[0] = alignment(l.a.address, l.a_b[0], size);
  g.alignment[1] = alignment(l.b.address, l.b_b[0], size);
  g.alignment[3] = alignment(l.c, l.c_b[0], size);
  g.alignment[2] = reads ? alignment(l.in, l.in_b[0], size) : g.alignment[3];
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
  const auto ready = [&](Bias bias, bool copies) {
    const Geometry geometry = describe(l, c, bias, copies, tf32);
    const std::shared_ptr<Prepared> p = Store::get().find(*f, geometry);
    if (!p->found) return false;
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
  return "cuBLASLt has no kernel for this product";
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
  const std::shared_ptr<Prepared> prepared = Store::get().find(f, p.geometry);
  GemmLayout l;
  lay_out(g, l);
  if (p.copies) copy_addend(g, l);
  const trace::Span span(trace::Layer::Runtime, "cublasLtMatmul");
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
    check(f,
          f.matmul(prepared->handle, prepared->desc, alpha, at(l.b.address, p.b_step), layouts.first,
                   at(l.a.address, p.a_step), layouts.second, beta, at(addend, p.c_step), layouts.c, at(l.c, p.d_step),
                   layouts.d, &prepared->chosen.algorithm, call.workspace ? call.workspace->data : nullptr,
                   plan.workspace, stream.handle()),
          "a product");
  }
}

}  // namespace strata::cuda
