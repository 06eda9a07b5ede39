// The names of libtorch and of the CUDA runtime that extensions use, for sources that load_inline compiles. torch::, at::
// and c10:: are names for strata::, so torch::Tensor is strata::Tensor.
//
// The virtual GPU counts as a CUDA device in extensions: x.is_cuda() is true for its tensors.
#pragma once
#include <sstream>
#include <string>

#include "cuda/custom/extension_accessor.h"
#include "strata/strata.h"

// --- the CUDA runtime ------------------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)

using cudaStream_t = void*;
// Calls of the runtime throw, so the codes that they return are always success.
enum cudaError_t { cudaSuccess = 0 };
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() {
  strata::cuda::synchronize_extension();
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaDeviceSynchronize(); }

// --- torch::, at::, c10:: --------------------------------------------------------------------------------------------

namespace strata::torch_names {
using ScalarType = strata::DType;
using IntArrayRef = strata::Shape;
using std::nullopt;
using std::optional;
}  // namespace strata::torch_names
namespace c10 {
using namespace strata;
using namespace strata::torch_names;
}  // namespace c10

namespace at {
using namespace strata;
using namespace strata::torch_names;
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

namespace cuda {
using namespace strata::cuda;
struct CUDAStream {
  void* handle;
  cudaStream_t stream() const { return handle; }
  operator cudaStream_t() const { return handle; }
};
// The current stream of the device that the function's tensors are on.
inline CUDAStream getCurrentCUDAStream(int64_t = -1) { return {strata::cuda::current_stream()}; }
// Kernels run on the device of the function's first tensor on a GPU: a guard has nothing to do.
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  template <class D> explicit OptionalCUDAGuard(const D&) {}
};
using CUDAGuard = OptionalCUDAGuard;
}  // namespace cuda
}  // namespace at
namespace c10::cuda {
using at::cuda::CUDAGuard;
using at::cuda::CUDAStream;
using at::cuda::getCurrentCUDAStream;
using at::cuda::OptionalCUDAGuard;
}  // namespace c10::cuda

namespace torch {
using namespace strata;
using namespace strata::torch_names;
}  // namespace torch

template <class... T> auto device_of(const T&...) { return 0; }

namespace strata {

namespace torch_names {

// The parts of a message, written one after the other.
template <class... T> std::string text_of(const T&... parts) {
  if constexpr (sizeof...(T) == 0) {
    return "";
  } else {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
  }
}
[[noreturn, gnu::cold]] inline void refuse(ErrorKind kind, const char* condition, const std::string& message) {
  fail(kind, message.empty() ? "Expected " + std::string(condition) + " to be true, but got false." : message);
}
[[noreturn, gnu::cold]] inline void refuse_dtype(const char* name, DType t) {
  fail(ErrorKind::NotImplemented, "\"" + std::string(name) + "\" not implemented for '" + info_of(t).title + "'");
}
// Calls f<T>() for the type among T... that is the element type.
template <class... T, class F> auto dispatch(DType t, const char* name, F f) {
  using R = std::common_type_t<decltype(f.template operator()<T>())...>;
  if constexpr (std::is_void_v<R>) {
    if (!((t == dtype_of<T> ? (f.template operator()<T>(), true) : false) || ...)) refuse_dtype(name, t);
  } else {
    std::optional<R> out;
    static_cast<void>(((t == dtype_of<T> ? (out = f.template operator()<T>(), true) : false) || ...));
    if (!out) refuse_dtype(name, t);
    return std::move(*out);
  }
}
template <class P, class T, int N> P accessor_of(const Tensor& t) {
  STRATA_CHECK(t.dim() == N, Runtime, "accessor: expected {} dimensions, but the tensor has {}", N, t.dim());
  return P(t.data_ptr<T>(), t.sizes().data(), t.strides().data());
}
template <template <class> class... Traits> struct FirstOf {
  template <class T, int N, class I> using Accessor = at::GenericPackedTensorAccessor<T, N, Traits..., I>;
};
template <> struct FirstOf<> {
  template <class T, int N, class I> using Accessor = at::GenericPackedTensorAccessor<T, N, at::DefaultPtrTraits, I>;
};
}  // namespace torch_names

template <class T, int N, template <class> class... Traits> auto Tensor::packed_accessor32() const {
  STRATA_CHECK(numel() <= INT32_MAX, Runtime, "packed_accessor32: {} elements are too many for 32-bit indices",
               numel());
  return torch_names::accessor_of<typename torch_names::FirstOf<Traits...>::template Accessor<T, N, int>, T, N>(*this);
}
template <class T, int N, template <class> class... Traits> auto Tensor::packed_accessor64() const {
  return torch_names::accessor_of<typename torch_names::FirstOf<Traits...>::template Accessor<T, N, long>, T, N>(*this);
}
template <class T, int N> auto Tensor::accessor() const {
  static_cast<void>(data<T>());  // on the host only
  return torch_names::accessor_of<at::TensorAccessor<T, N>, T, N>(*this);
}

}  // namespace strata

#define TORCH_CHECK_KIND(kind, condition, ...)                                    \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::strata::torch_names::refuse(::strata::ErrorKind::kind, #condition,        \
                                    ::strata::torch_names::text_of(__VA_ARGS__)); \
  } while (0)
#define TORCH_CHECK(condition, ...) TORCH_CHECK_KIND(Runtime, condition, __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_CHECK_KIND(Value, condition, __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TORCH_CHECK_KIND(Type, condition, __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TORCH_CHECK_KIND(Index, condition, __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TORCH_CHECK_KIND(NotImplemented, condition, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK_KIND(Runtime, condition, __VA_ARGS__)
#define AT_ASSERT(condition, ...) TORCH_CHECK_KIND(Runtime, condition, __VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK_KIND(Runtime, condition, __VA_ARGS__)
#define AT_ERROR(...) TORCH_CHECK_KIND(Runtime, false, __VA_ARGS__)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() static_cast<void>(0)
#define C10_CUDA_CHECK(call) static_cast<void>(call)
#define AT_CUDA_CHECK(call) static_cast<void>(call)
#define C10_RESTRICT __restrict__

// The lambda is compiled with scalar_t as each of the types.
#define STRATA_AT_DISPATCH(type, name, lambda, ...)                                                                \
  [&] {                                                                                                            \
    return ::strata::torch_names::dispatch<__VA_ARGS__>(type, name, [&]<class scalar_t>() { return (lambda)(); }); \
  }()
#define STRATA_AT_FLOATING float, double
#define STRATA_AT_INTEGRAL uint8_t, int8_t, int16_t, int32_t, int64_t
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) STRATA_AT_DISPATCH(type, name, (__VA_ARGS__), STRATA_AT_FLOATING)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  STRATA_AT_DISPATCH(type, name, (__VA_ARGS__), STRATA_AT_FLOATING, ::strata::Half)
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) STRATA_AT_DISPATCH(type, name, (__VA_ARGS__), STRATA_AT_INTEGRAL)
#define AT_DISPATCH_ALL_TYPES(type, name, ...) \
  STRATA_AT_DISPATCH(type, name, (__VA_ARGS__), STRATA_AT_FLOATING, STRATA_AT_INTEGRAL)

// The functions that Python sees: PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f, "its documentation"); }
#define PYBIND11_MODULE(name, module) \
  extern "C" STRATA_API void strata_define_extension(::strata::cuda::Extension& module)
