// One step of each optimizer's rule over all parameters of a group in one launch.
//
// Bound by memory: parameter, gradient and state are read once, parameter and state written once. A block takes a piece of one
// parameter: the host lists the pieces, so that many small parameters cost no more launches than one large.
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/optimizers_params.h"
#include "device/functors/optimizers.h"

namespace strata::cuda {
namespace {

template <class Rule, class T> __device__ __forceinline__ void update(const OptimizerParams& p) {
  constexpr int kMembers = sizeof(Rule) / sizeof(T);
  const OptimizerPiece piece = reinterpret_cast<const OptimizerPiece*>(p.pieces)[blockIdx.x];
  const OptimizerTensor& t = reinterpret_cast<const OptimizerTensor*>(p.tensors)[piece.tensor];
  Rule rule;
  T* members = reinterpret_cast<T*>(&rule);
#pragma unroll
  for (int k = 0; k < kMembers; ++k) members[k] = T(t.members[k]);
  const int64_t end = min(piece.begin + p.piece, t.count);
  for (int64_t i = piece.begin + threadIdx.x; i < end; i += blockDim.x) {
    T value = load<T>(element(t.value, t.type, i), t.type), state[3] = {};
#pragma unroll
    for (int k = 0; k < 3; ++k)
      if (t.state[k]) state[k] = load<T>(element(t.state[k], t.type, i), t.type);
    rule(value, load<T>(element(t.grad, t.type, i), t.type), state[0], state[1], state[2]);
    store<T>(const_cast<void*>(element(t.value, t.type, i)), t.type, value);
#pragma unroll
    for (int k = 0; k < 3; ++k)
      if (t.state[k]) store<T>(const_cast<void*>(element(t.state[k], t.type, i)), t.type, state[k]);
  }
}
}  // namespace

#define STRATA_RULE(name)                                                           \
  extern "C" __global__ void __launch_bounds__(256) name##_f32(OptimizerParams p) { \
    update<fn::name##Rule<float>, float>(p);                                        \
  }                                                                                 \
  extern "C" __global__ void __launch_bounds__(256) name##_f64(OptimizerParams p) { \
    update<fn::name##Rule<double>, double>(p);                                      \
  }
STRATA_RULE(Sgd)
STRATA_RULE(Adam)
STRATA_RULE(Nadam)
STRATA_RULE(Radam)
STRATA_RULE(Adamax)
STRATA_RULE(Adagrad)
STRATA_RULE(Adadelta)
STRATA_RULE(Rmsprop)
STRATA_RULE(Asgd)
STRATA_RULE(Rprop)

}  // namespace strata::cuda
