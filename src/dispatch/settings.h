// Settings of the program and questions about types, under the names that they have in Python.
#pragma once
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "record/op.h"
#include "record/precision.h"
#include "tensor/generator.h"

namespace strata {

inline int get_num_threads() { return num_threads(); }

// The default device of new tensors, in this thread.
inline Device get_default_device() { return thread_state.default_device; }
STRATA_API void set_default_device(Device device);

inline PrintOptions get_printoptions() { return print_options; }
STRATA_API void set_printoptions(const PrintOptions& options);

inline std::string_view get_float32_matmul_precision() { return float32_matmul_precision(); }

// Workspace limit in bytes; kernels that need more are skipped. From STRATA_WORKSPACE_LIMIT, otherwise unlimited.
STRATA_API size_t workspace_limit();
STRATA_API void set_workspace_limit(size_t bytes);

// The state of a generator as a uint8 tensor, and the generator at that state again.
STRATA_API Tensor get_state(const Generator& generator);
STRATA_API void set_state(Generator& generator, const Tensor& state);
inline Tensor get_rng_state() { return get_state(default_generator()); }
inline void set_rng_state(const Tensor& state) { set_state(default_generator(), state); }

// The dtype of an op on both; a number has less weight than a tensor.
STRATA_API DType result_type(const Operand& a, const Operand& b);
// Whether a value of one dtype may be stored in another without leaving its category.
STRATA_API bool can_cast(DType from, DType to);
// The shape that tensors of the given shapes broadcast to.
STRATA_API std::vector<int64_t> broadcast_shapes(const std::vector<std::vector<int64_t>>& shapes);

// Which kernels were considered for the calls of `run`, and why they were skipped: explain([&] { matmul(a, b); }).
template <class F> Explanation explain(F&& run) {
  Explanation seen;
  const Scoped<Explanation*> scope(thread_state.explain, &seen);
  std::forward<F>(run)();
  return seen;
}
// Whether convolutions on GPUs are measured at their first call with new shapes, as by PyTorch's backends.cudnn.benchmark:
// in every thread, without a TuneGuard, but not while a graph is captured. Off unless set.
STRATA_API bool benchmark_convolutions();
STRATA_API void set_benchmark_convolutions(bool on);

// Until the end of the block, all kernels that accept a call are timed; later calls with equal shapes use the fastest.
struct TuneGuard {
  Scoped<bool> scope{thread_state.tuning, true};
};

namespace cuda {

// How many devices of a type can be used: kCUDA or kVGPU.
STRATA_API int device_count(DeviceType type = DeviceType::Cuda);
inline bool is_available(DeviceType type = DeviceType::Cuda) { return device_count(type) > 0; }
// Waits for all work on a device, and throws the errors that its kernels reported.
STRATA_API void synchronize(Device device = DeviceType::Cuda);

}  // namespace cuda
}  // namespace strata
