// One optimizer step over many parameters in one threaded pass: each element is read and written once.
#pragma once
#include <array>
#include <span>

#include "tensor/tensor.h"

namespace strata::cpu {

constexpr int kMaxStates = 3;     // state tensors per parameter
constexpr int kRuleMembers = 12;  // maximum number of members of a rule in device/functors/optimizers.h

enum class Rule : uint8_t {
#define STRATA_RULE(name) name,
#include "device/functors/optimizer_rules.inc"
};

// A parameter with its gradient and state. Shapes are equal; dtypes and layouts may differ.
struct Update {
  Tensor value, grad;
  std::array<Tensor, kMaxStates> state;      // empty: the rule does not use it
  std::array<double, kRuleMembers> members;  // of the rule, for this parameter and step
};

STRATA_API void update_fused(Rule rule,
                             std::span<Update> updates);  // SIMD, all parameters distributed over the threads
STRATA_API void update_reference(Rule rule, std::span<Update> updates);  // one element at a time, in double

// p[i], state[k][i] for i < n by one rule; state pointers that the rule does not use may be null.
template <class T> using UpdateLoop = void (*)(const double* members, T* p, const T* g, T* const* state, size_t n);
struct UpdateLoops {
  UpdateLoop<float> f32;
  UpdateLoop<double> f64;
};
const UpdateLoops& update_loops(Rule rule);  // of the best SIMD target of this machine

}  // namespace strata::cpu
