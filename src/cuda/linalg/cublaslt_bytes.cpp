// Products of 8-bit matrices by cuBLASLt, which has kernels for factors that are dense along k.
#include <array>

#include "base/trace.h"
#include "cuda/common/tensors.h"
#include "cuda/linalg/cublaslt_store.h"
#include "cuda/linalg/gemm_bytes.h"
#include "cuda/runtime/device_times.h"

namespace strata::cuda {
namespace {

using namespace cublaslt;  // NOLINT: names as in its documentation

DataType type_of(DType t) {
  switch (t) {
    case DType::I8: return kR8I;
    case DType::I32: return kR32I;
    case DType::F8E4M3: return kR8FE4M3;
    case DType::F8E5M2: return kR8FE5M2;
    case DType::F16: return kR16F;
    case DType::BF16: return kR16BF;
    default: return kR32F;
  }
}

Geometry describe(const ByteProduct& p, const GemmLayout& l) {
  const TensorImpl& d = *p.d;
  const bool integers = p.a.dtype == DType::I8;
  Geometry g{};
  g.device = d.device.index;
  g.m = l.m;
  g.n = l.n;
  g.k = p.a.shape[1];
  g.a_along_k = g.b_along_k = 1;
  g.lda = 2 * l.a.ld;
  g.ldb = 2 * l.b.ld;
  g.ldc = g.ldd = l.c_ld;
  g.a_type = type_of(p.a.dtype);
  g.b_type = type_of(p.b.dtype);
  g.d_type = type_of(d.dtype);
  g.bias = p.bias ? Bias::Yes : Bias::No;
  g.bias_type = type_of(p.bias ? p.bias->dtype : d.dtype);
  g.compute = integers ? kCompute32I : kCompute32F;
  g.scale_type = integers ? kR32I : kR32F;
  g.batch = 1;
  g.scales = integers ? Scales::None : p.by_rows ? Scales::Rows : Scales::Numbers;
  g.fast = !integers && p.fast;
  g.alignment[0] = g.alignment[1] = 16;
  g.alignment[2] = g.alignment[3] = alignment(l.c, l.c_ld * static_cast<int64_t>(size_of(d.dtype)));
  return g;
}
}  // namespace

const char* plan_bytes_cublaslt(const ByteProduct& p, Plan& plan) {
  if (p.d.device().type != DeviceType::Cuda) return "cuBLASLt runs on device cuda";
  if (p.bias && p.bias->dtype == DType::F32) return "cuBLASLt adds a bias of 16 bits";
  GemmLayout l;
  const Functions* f = functions();
  if (!f) return "cuBLASLt is not installed";
  Workspace space(plan);
  if (const char* reason = lay_out_bytes(p, space, nullptr, l)) return reason;
  const Geometry geometry = describe(p, l);
  if (p.a.dtype != DType::I8) {  // what its documentation requires of float8; factors are aligned by lay_out_bytes
    if (geometry.k % 16) return "cuBLASLt multiplies float8 matrices whose sums have a multiple of 16 terms";
    if (geometry.n * static_cast<int64_t>(size_of(p.d.dtype())) % 16 || geometry.alignment[3] < 16)
      return "cuBLASLt writes products of float8 to rows that are aligned to 16 bytes";
  }
  Runtime::gpu(p.d.device()).activate();
  const std::shared_ptr<Prepared> prepared = find_prepared(*f, geometry);
  if (const char* reason = objection_to(*prepared)) return reason;
  space.take(Shape(std::array{static_cast<int64_t>(prepared->chosen.workspace)}), DType::U8);
  plan.keep(geometry);
  return nullptr;
}

void run_bytes_cublaslt(const ByteProduct& p, const Call& call, const Plan& plan) {
  const auto geometry = plan.get<Geometry>();
  const Functions& f = *functions();
  const Stream stream = stream_of(p.d.device());
  stream.gpu().activate();
  const std::shared_ptr<Prepared> prepared = find_prepared(f, geometry);
  GemmLayout l;
  Workspace space(call);
  lay_out_bytes(p, space, &stream, l);
  const size_t bytes = prepared->chosen.workspace;
  const Tensor memory = space.take(Shape(std::array{static_cast<int64_t>(bytes)}), DType::U8);
  const tracing::Span span(tracing::Layer::Runtime, "cublasLtMatmul");
  const DeviceTime time(span, stream.gpu(), stream.handle(), "cublasLtMatmul");
  const std::lock_guard hold(prepared->lock);
  const auto name = [&](int attribute, const TensorImpl* t) {
    const uint64_t place = address(t);
    if (t) check(f, f.desc_set(prepared->desc, attribute, &place, sizeof place), "naming a tensor");
  };
  name(kDescScaleA, p.scale_b);  // its first matrix is b
  name(kDescScaleB, p.scale_a);
  name(kDescBiasPointer, p.bias);
  const float one = 1, zero = 0;
  const int32_t integer_one = 1, integer_zero = 0;
  const bool integers = p.a.dtype == DType::I8;
  const void* alpha = integers ? static_cast<const void*>(&integer_one) : &one;
  const void* beta = integers ? static_cast<const void*>(&integer_zero) : &zero;
  const auto at = [](uint64_t place) { return reinterpret_cast<void*>(place); };
  const Layouts& layouts = prepared->layouts;
  check_product(*prepared,
                f.matmul(prepared->handle, prepared->desc, alpha, at(l.b.address), layouts.first, at(l.a.address),
                         layouts.second, beta, at(l.c), layouts.c, at(l.c), layouts.d, &prepared->chosen.algorithm,
                         memory ? memory->data : nullptr, bytes, stream.handle()));
}

}  // namespace strata::cuda
