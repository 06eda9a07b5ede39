#include "cuda/nn/convolution_relu.h"

#include <array>
#include <map>
#include <mutex>

#include "cuda/common/tensors.h"
#include "cuda/custom/gemm.h"
#include "cuda/libs/libraries.h"
#include "cuda/nn/convolution_order.h"
#include "cuda/nn/convolution_product.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

// A dense channels-last tensor as a matrix of positions and channels.
Tensor positions_of(const TensorImpl& t) {
  const Tensor out = alias(t);
  const int64_t channels = t.shape[1], shape[] = {t.numel / channels, channels};
  out->set_shape(Shape(shape, 2));
  out->set_contiguous_strides();
  out->keep_version(0);
  return out;
}

const gemm::Kernel& convolution_kernel(DType dtype, bool bias, bool other) {
  static std::mutex mutex;
  static auto* kernels = new std::map<std::array<int, 3>, gemm::Kernel>;
  const std::lock_guard lock(mutex);
  const std::array<int, 3> key{static_cast<int>(dtype), bias, other};
  if (const auto found = kernels->find(key); found != kernels->end()) return found->second;
  gemm::Config config;
  config.dtype = dtype;
  config.epilogue = std::string("relu(acc") + (bias ? " + bias[n]" : "") + (other ? " + other[m, n])" : ")");
  config.name = "convolution_relu";
  return kernels->emplace(key, gemm::compile(config)).first->second;
}
}  // namespace

const char* plan_convolution_relu_compiled(const ConvReluCall& call, Plan&) {
  const ConvCall& v = call.convolution;
  const TensorImpl& out = *v.small;
  if (out.dtype != DType::F16 && out.dtype != DType::BF16) return "for float16 and bfloat16";
  if (!is_pointwise(v.shape)) return "for kernels of one element, stride 1, no padding and one group";
  if (sums_nothing(v)) return "a tensor is empty";
  if (Runtime::gpu(out.device).properties.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  for (const Tensor* t : {&v.big, &v.small, &call.other})
    if (*t && !is_dense(**t, Order::ChannelsLast)) return "the tensors are not in channels-last order";
  if (v.shape.c % 8 || v.shape.o % 8) return "the channels are not multiples of 8";
  const Library& compiler = vendor_library(Vendor::Nvrtc).library;
  return compiler ? nullptr : "NVRTC, which compiles the epilogue, is not installed";
}

void run_convolution_relu_compiled(const ConvReluCall& call, const Call&, const Plan&) {
  const ConvCall& v = call.convolution;
  const Tensor weight = alias(*v.weight);  // [c, o], as it is
  const int64_t shape[] = {v.shape.c, v.shape.o};
  const int64_t of_c = weight->strides[1], of_o = weight->strides[0];
  weight->set_shape(Shape(shape, 2));
  weight->strides[0] = of_c;
  weight->strides[1] = of_o;
  weight->update_contiguous();
  std::vector<gemm::Named> extras;
  const Tensor bias = v.bias, other = call.other ? positions_of(*call.other) : Tensor();
  if (bias) extras.push_back({"bias", Operand(bias)});
  if (other) extras.push_back({"other", Operand(other)});
  const std::array outs{positions_of(*v.small)};
  convolution_kernel(v.small.dtype(), static_cast<bool>(bias), static_cast<bool>(other))
    .all(positions_of(*v.big), weight, extras, outs);
}

}  // namespace strata::cuda
