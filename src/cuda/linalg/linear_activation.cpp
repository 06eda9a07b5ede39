#include "cuda/linalg/linear_activation.h"

#include <array>
#include <map>
#include <mutex>

#include "base/trace.h"
#include "cuda/common/tensors.h"
#include "cuda/custom/gemm.h"
#include "cuda/libs/libraries.h"
#include "cuda/linalg/cublaslt_store.h"
#include "cuda/runtime/device_times.h"
#include "cuda/runtime/stream.h"
#include "record/precision.h"

namespace strata::cuda {
namespace {

// The input as one matrix [m, k]; null if its rows are not at equal distances.
Tensor as_one_matrix(const TensorImpl& x) {
  int64_t rows = 1, step = x.shape[x.ndim - 1];
  bool first = true;
  for (int d = x.ndim - 2; d >= 0; --d) {
    if (x.shape[d] == 1) continue;
    if (first) step = x.strides[d];
    else if (x.strides[d] != step * rows) return {};
    first = false;
    rows *= x.shape[d];
  }
  const Tensor out = alias(x);
  const int64_t shape[] = {rows, x.shape[x.ndim - 1]}, dense = x.ndim ? x.strides[x.ndim - 1] : 1;
  out->set_shape(Shape(shape, 2));
  out->strides[0] = step;
  out->strides[1] = dense;
  out->update_contiguous();
  return out;
}

// What a result is written to, as one matrix. Writes are those of the op.
Tensor rows_of_result(const TensorImpl& t) {
  Tensor out = as_one_matrix(t);
  out->keep_version(0);
  return out;
}

const char* objection_to_shapes(const LinearActivationCall& c) {
  if (c.out.numel == 0) return "the result is empty";
  if (c.weight.shape[1] == 0) return "the sums are empty";
  if (!as_one_matrix(c.input)) return "the rows of the input are not at equal distances";
  if (c.bias && c.bias->numel != c.weight.shape[0]) return "the bias is one number";
  return nullptr;
}

// --- cuBLASLt --------------------------------------------------------------------------------------------------------

using namespace cublaslt;  // NOLINT: names as in its documentation

constexpr int64_t kLeastActivatedWork = int64_t{1}
                                        << 26;  // smaller products are launch-bound, as for those without activation

cublaslt::Geometry describe_activated(const LinearActivationCall& c) {
  const Tensor x = as_one_matrix(c.input);
  const TensorImpl& w = c.weight;
  const DType dtype = c.out.dtype;
  const auto size = static_cast<int64_t>(size_of(dtype));
  Geometry g{};
  g.device = c.out.device.index;
  g.m = x->shape[0];
  g.k = x->shape[1];
  g.n = w.shape[0];
  g.a_along_k = g.b_along_k = 1;
  g.lda = g.m > 1 ? x->strides[0] : g.k;
  g.ldb = g.n > 1 ? w.strides[0] : g.k;
  g.ldc = g.ldd = g.n;
  g.a_type = g.b_type = g.d_type = g.bias_type = dtype == DType::F16 ? kR16F : dtype == DType::BF16 ? kR16BF : kR32F;
  g.compute = dtype == DType::F32 && allow_tf32_products() ? kCompute32FFastTf32 : kCompute32F;
  g.scale_type = kR32F;
  g.batch = 1;
  g.bias = c.bias ? Bias::Yes : Bias::No;
  g.activation = c.activation == LinearActivation::Relu ? Activation::Relu : Activation::Gelu;
  g.keeps_argument = c.argument != nullptr;
  g.alignment[0] = alignment(address(*x), g.lda * size);
  g.alignment[1] = alignment(address(w), g.ldb * size);
  g.alignment[2] = g.alignment[3] = alignment(address(c.out), g.ldd * size);
  return g;
}
}  // namespace

const char* plan_linear_activation_cublaslt(const LinearActivationCall& c, Plan& plan) {
  const TensorImpl& out = c.out;
  if (out.device.type != DeviceType::Cuda) return "cuBLASLt runs on device cuda";
  if (out.dtype != DType::F16 && out.dtype != DType::BF16 && out.dtype != DType::F32)
    return "for float16, bfloat16 and float32";
  if (c.activation != LinearActivation::Relu && c.activation != LinearActivation::GeluTanh)
    return "cuBLASLt has ReLU and the tanh approximation of GELU";
  if (c.argument && c.activation == LinearActivation::Relu) return "cuBLASLt does not keep the argument of ReLU";
  if (const char* reason = objection_to_shapes(c)) return reason;
  const Tensor x = as_one_matrix(c.input);
  if ((x->strides[1] != 1 && x->shape[1] > 1) || (c.weight.strides[1] != 1 && c.weight.shape[1] > 1))
    return "a factor is not dense along its rows";
  if (c.bias && c.bias->numel > 1 && c.bias->strides[0] != 1) return "the bias is not dense";
  const Geometry geometry = describe_activated(c);
  if (geometry.lda < geometry.k || geometry.ldb < geometry.k) return "rows overlap";
  if (c.argument && geometry.n % 8) return "cuBLASLt keeps rows of multiples of 8 elements";
  if (geometry.m * geometry.n < kLeastActivatedWork / geometry.k)
    return "small: our own kernels take less time to launch";
  const Functions* f = functions();
  if (!f) return "cuBLASLt is not installed";
  Runtime::gpu(out.device).activate();
  const std::shared_ptr<Prepared> prepared = find_prepared(*f, geometry);
  if (const char* reason = objection_to(*prepared)) return reason;
  plan.keep(geometry);
  plan.workspace = prepared->chosen.workspace;
  return nullptr;
}

void run_linear_activation_cublaslt(const LinearActivationCall& c, const Call& call, const Plan& plan) {
  const auto geometry = plan.get<Geometry>();
  const Functions& f = *functions();
  const Stream stream = stream_of(c.out.device);
  stream.gpu().activate();
  const std::shared_ptr<Prepared> prepared = find_prepared(f, geometry);
  const tracing::Span span(tracing::Layer::Runtime, "cublasLtMatmul");
  const DeviceTime time(span, stream.gpu(), stream.handle(), "cublasLtMatmul");
  const std::lock_guard hold(prepared->lock);
  const auto name = [&](int attribute, const TensorImpl* t) {
    const uint64_t place = address(t);
    if (t) check(f, f.desc_set(prepared->desc, attribute, &place, sizeof place), "naming a tensor");
  };
  name(kDescBiasPointer, c.bias);
  name(kDescAuxPointer, c.argument);
  const float one = 1, zero = 0;
  const auto at = [](const TensorImpl& t) { return reinterpret_cast<void*>(address(t)); };
  const Layouts& layouts = prepared->layouts;
  check_product(*prepared, f.matmul(prepared->handle, prepared->desc, &one, at(c.weight), layouts.first,
                                    at(*as_one_matrix(c.input)), layouts.second, &zero, at(c.out), layouts.c, at(c.out),
                                    layouts.d, &prepared->chosen.algorithm,
                                    call.workspace ? call.workspace->data : nullptr, plan.workspace, stream.handle()));
}

// --- compiled kernels ------------------------------------------------------------------------------------------------

namespace {

const gemm::Kernel& activated_kernel(const LinearActivationCall& c) {
  static std::mutex mutex;
  static auto* kernels = new std::map<std::array<int, 4>, gemm::Kernel>;
  static constexpr const char* kFunctions[] = {"relu", "gelu", "gelu_tanh", "silu"};
  const bool tf32 = c.out.dtype == DType::F32;
  const auto function = static_cast<size_t>(c.activation);
  const std::array<int, 4> key{static_cast<int>(c.out.dtype), static_cast<int>(function), c.bias != nullptr,
                               c.argument != nullptr};
  const std::lock_guard lock(mutex);
  if (const auto found = kernels->find(key); found != kernels->end()) return found->second;
  const std::string argument = c.bias ? "acc + bias[n]" : "acc";
  gemm::Config config;
  config.dtype = c.out.dtype;
  config.tf32 = tf32;
  config.epilogue = std::string(kFunctions[function]) + "(" + argument + ")";
  if (c.argument) config.second = argument;
  config.name = std::string("linear_") + kFunctions[function];
  return kernels->emplace(key, gemm::compile(config)).first->second;
}
}  // namespace

const char* plan_linear_activation_compiled(const LinearActivationCall& c, Plan&) {
  const TensorImpl& out = c.out;
  const Properties& device = Runtime::gpu(out.device).properties;
  if (out.dtype == DType::F32 && !allow_tf32_products()) return "TF32 is off: see set_float32_matmul_precision";
  if (out.dtype != DType::F16 && out.dtype != DType::BF16 && out.dtype != DType::F32)
    return "for float16, bfloat16 and float32";
  if (device.major != 9 && out.device.type == DeviceType::Cuda)
    return "a product and a pointwise kernel are faster where there are no kernels for this GPU (Hopper)";
  if (device.major < 8) return "for GPUs of compute capability 8.0 and newer";
  if (const char* reason = objection_to_shapes(c)) return reason;
  const Library& compiler = vendor_library(Vendor::Nvrtc).library;
  return compiler ? nullptr : "NVRTC, which compiles the epilogue, is not installed";
}

void run_linear_activation_compiled(const LinearActivationCall& c, const Call&, const Plan&) {
  const Tensor turned = alias(c.weight);
  std::swap(turned->shape[0], turned->shape[1]);
  std::swap(turned->strides[0], turned->strides[1]);
  turned->update_contiguous();
  std::vector<Tensor> outs{rows_of_result(c.out)};
  if (c.argument) outs.push_back(rows_of_result(*c.argument));
  Tensor bias;
  std::vector<gemm::Named> extras;
  if (c.bias) {
    bias = alias(*c.bias);
    if (bias.dim() == 0) bias->set_shape(Shape(&bias->numel, 1));  // of one output
    extras.push_back({"bias", Operand(bias)});
  }
  activated_kernel(c).all(as_one_matrix(c.input), turned, extras, outs);
}

}  // namespace strata::cuda
