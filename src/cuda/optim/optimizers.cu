// One optimizer step over many parameters in one launch.
//
// Bound by memory: parameter, gradient and state are read once, parameter and state written once, in 16-byte accesses
// if all are aligned. The list of tensors is a launch parameter. A block processes a piece of one tensor, which it
// finds by binary search: 64 small tensors cost one launch, like one large one. If the step counts are on the device, a
// launch of one block first increments them and computes the rule's members.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/tensor_lists.cuh"
#include "cuda/optim/optimizers_params.h"
#include "device/functors/optimizer_numbers.h"
#include "device/functors/optimizers.h"

namespace strata::cuda {
namespace {

template <class Rule, class T> __device__ __forceinline__ void update(const OptimizerParams& p) {
  constexpr int kMembers = sizeof(Rule) / sizeof(T), kVector = 16 / sizeof(T);
  const int which = tensor_of_block(p);
  const OptimizerTensor& t = p.tensor[which];
  const double* list = reinterpret_cast<const double*>(p.list) + which * kRuleNumbers;
  Rule rule;
  T* members = reinterpret_cast<T*>(&rule);
#pragma unroll
  for (int k = 0; k < kMembers; ++k) members[k] = T(p.list ? list[k] : p.members[k]);
  int64_t begin = int64_t(blockIdx.x - p.first_block[which]) * p.piece;
  const int64_t end = min(begin + p.piece, t.count);
  const int32_t type = t.type;
  const uint64_t address = t.value, grad = t.grad, states[3] = {t.state[0], t.state[1], t.state[2]};
  if (t.vectors) {
    const int64_t whole = end - (end - begin) % kVector;
    for (int64_t i = begin + threadIdx.x * kVector; i < whole; i += blockDim.x * kVector) {
      T value[kVector], g[kVector], state[3][kVector] = {};
      load_common<T>(element(address, type, i), type, value);
      load_common<T>(element(grad, type, i), type, g);
#pragma unroll
      for (int k = 0; k < Rule::kStates; ++k)
        if (states[k]) load_common<T>(element(states[k], type, i), type, state[k]);
#pragma unroll
      for (int j = 0; j < kVector; ++j) rule(value[j], g[j], state[0][j], state[1][j], state[2][j]);
      store_common<T>(const_cast<void*>(element(address, type, i)), type, value);
#pragma unroll
      for (int k = 0; k < Rule::kStates; ++k)
        if (states[k]) store_common<T>(const_cast<void*>(element(states[k], type, i)), type, state[k]);
    }
    begin = whole;
  }
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    T value = load<T>(element(address, type, i), type), state[3] = {};
#pragma unroll
    for (int k = 0; k < Rule::kStates; ++k)
      if (states[k]) state[k] = load<T>(element(states[k], type, i), type);
    rule(value, load<T>(element(grad, type, i), type), state[0], state[1], state[2]);
    store<T>(const_cast<void*>(element(address, type, i)), type, value);
#pragma unroll
    for (int k = 0; k < Rule::kStates; ++k)
      if (states[k]) store<T>(const_cast<void*>(element(states[k], type, i)), type, state[k]);
  }
}

// A thread processes one parameter.
template <class Numbers> __device__ __forceinline__ void advance(const OptimizerNumbersParams& p) {
  const int i = threadIdx.x;
  if (i >= p.tensors) return;
  Numbers numbers;
  double* options = reinterpret_cast<double*>(&numbers);
#pragma unroll
  for (int k = 0; k < int(sizeof(Numbers) / sizeof(double)); ++k) options[k] = p.options[k];
  if (p.lr) numbers.lr = load<double>(reinterpret_cast<const void*>(p.lr), p.lr_type);
  double kept[kKeptNumbers] = {};
#pragma unroll
  for (int k = 0; k < kKeptNumbers; ++k)
    if (p.kept[i][k]) kept[k] = load<double>(reinterpret_cast<const void*>(p.kept[i][k]), p.kept_type[i][k]);
  double members[kRuleNumbers] = {};
  numbers(kept, members);
#pragma unroll
  for (int k = 0; k < kKeptNumbers; ++k)
    if (p.kept[i][k]) store<double>(reinterpret_cast<void*>(p.kept[i][k]), p.kept_type[i][k], kept[k]);
#pragma unroll
  for (int k = 0; k < kRuleNumbers; ++k) reinterpret_cast<double*>(p.list)[i * kRuleNumbers + k] = members[k];
}
}  // namespace

#define STRATA_RULE(name)                                                                                   \
  extern "C" __global__ void __launch_bounds__(256) name##_f32(const __grid_constant__ OptimizerParams p) { \
    update<fn::name##Rule<float>, float>(p);                                                                \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(256) name##_f64(const __grid_constant__ OptimizerParams p) { \
    update<fn::name##Rule<double>, double>(p);                                                              \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(kTensorsPerLaunch)                                           \
    name##_numbers(const __grid_constant__ OptimizerNumbersParams p) {                                      \
    advance<fn::name##Numbers>(p);                                                                          \
  }
#include "device/functors/optimizer_rules.inc"

}  // namespace strata::cuda
