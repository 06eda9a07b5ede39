#include "cpu/optim/optimizers.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "cpu/movement/convert.h"
#include "cpu/movement/copy.h"
#include "device/functors/optimizers.h"

namespace strata::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements per task: small enough to balance, large enough to stream
constexpr int64_t kBlock = 1024;  // elements of a 16-bit tensor that are converted at a time: they stay in the L1 cache

// The tensors of an update as dense arrays in one order and one dtype. Other layouts are copied; written ones are
// copied back at the end.
class Arrays {
 public:
  Arrays(Update& u, DType dtype) : length(u.value.numel()) {
    const TensorImpl& value = *u.value;
    order_ = Ref<TensorImpl>::adopt(TensorImpl::make());
    order_->dtype = dtype;
    order_->set_shape(value.sizes());
    order_->set_strides_like(value);
    this->value = array(u.value, true);
    grad = array(u.grad, false);
    for (int k = 0; k < kMaxStates; ++k) state[k] = u.state[k] ? array(u.state[k], true) : nullptr;
  }
  void write_back() {
    for (auto& [from, to] : copies_) copy(*to, *from);
  }

  int64_t length;
  std::byte *value = nullptr, *grad = nullptr, *state[kMaxStates] = {};

 private:
  std::byte* array(const Tensor& t, bool written) {
    const TensorImpl& have = *t;
    bool same = have.dtype == order_->dtype;
    for (int d = 0; d < have.ndim; ++d) same &= have.shape[d] == 1 || have.strides[d] == order_->strides[d];
    if (same) return have.data;
    Tensor staged = Ref<TensorImpl>::adopt(TensorImpl::make());
    staged->dtype = order_->dtype;
    staged->set_shape(order_->sizes());
    staged->set_strides_like(*order_);
    staged->allocate();
    copy(*staged, have);
    std::byte* data = staged->data;
    if (written) copies_.emplace_back(staged, t);
    else kept_.push_back(staged);
    return data;
  }
  Tensor order_;  // shape only
  std::vector<std::pair<Tensor, Tensor>> copies_;
  std::vector<Tensor> kept_;
};

template <class T>
void run_plain(UpdateLoop<T> loop, const double* members, const Arrays& a, int64_t begin, int64_t count) {
  const auto at = [&](std::byte* base) { return base ? reinterpret_cast<T*>(base) + begin : nullptr; };
  T* const state[kMaxStates] = {at(a.state[0]), at(a.state[1]), at(a.state[2])};
  loop(members, at(a.value), at(a.grad), state, static_cast<size_t>(count));
}

// 16-bit numbers are computed in float, a block at a time.
void run_widened(UpdateLoop<float> loop, DType dtype, const double* members, const Arrays& a, int64_t begin,
                 int64_t count) {
  alignas(64) float wide[2 + kMaxStates][kBlock];
  const ConvertRow widen = convert_row(DType::F32, dtype), narrow = convert_row(dtype, DType::F32);
  std::byte* const base[2 + kMaxStates] = {a.grad, a.value, a.state[0], a.state[1], a.state[2]};
  float* state[kMaxStates];
  for (int k = 0; k < kMaxStates; ++k) state[k] = a.state[k] ? wide[2 + k] : nullptr;
  for (int64_t i = begin; i < begin + count; i += kBlock) {
    const int64_t n = std::min(kBlock, begin + count - i), offset = i * static_cast<int64_t>(size_of(dtype));
    for (int k = 0; k < 2 + kMaxStates; ++k)
      if (base[k]) widen(reinterpret_cast<std::byte*>(wide[k]), 1, base[k] + offset, 1, n);
    loop(members, wide[1], wide[0], state, static_cast<size_t>(n));
    for (int k = 1; k < 2 + kMaxStates; ++k)
      if (base[k]) narrow(base[k] + offset, 1, reinterpret_cast<const std::byte*>(wide[k]), 1, n);
  }
}

using ElementRule = void (*)(const double* members, double* p, double g, double* state);
template <template <class> class R> void element(const double* members, double* p, double g, double* state) {
  R<double> rule;
  std::memcpy(static_cast<void*>(&rule), members, sizeof rule);
  rule(*p, g, state[0], state[1], state[2]);
}
constexpr ElementRule kElementRules[] = {
#define STRATA_RULE(name) element<fn::name##Rule>,
#include "device/functors/optimizer_rules.inc"
};

}  // namespace

void update_fused(Rule rule, std::span<Update> updates) {
  const UpdateLoops& loops = update_loops(rule);
  std::vector<Arrays> arrays;
  std::vector<int64_t> first_chunk(1, 0);  // of each parameter
  arrays.reserve(updates.size());
  first_chunk.reserve(updates.size() + 1);
  for (Update& u : updates) {
    arrays.emplace_back(u, u.value.dtype());
    first_chunk.push_back(first_chunk.back() + (u.value.numel() + kChunk - 1) / kChunk);
  }
  parallel_for(first_chunk.back(), 1, [&](int64_t begin, int64_t end) {
    size_t which = std::upper_bound(first_chunk.begin(), first_chunk.end(), begin) - first_chunk.begin() - 1;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      while (chunk >= first_chunk[which + 1]) ++which;
      const Arrays& a = arrays[which];
      const int64_t from = (chunk - first_chunk[which]) * kChunk, count = std::min(kChunk, a.length - from);
      const double* members = updates[which].members.data();
      const DType dtype = updates[which].value.dtype();
      if (dtype == DType::F32) run_plain<float>(loops.f32, members, a, from, count);
      else if (dtype == DType::F64) run_plain<double>(loops.f64, members, a, from, count);
      else run_widened(loops.f32, dtype, members, a, from, count);
    }
  });
  for (Arrays& a : arrays) a.write_back();
}

void update_reference(Rule rule, std::span<Update> updates) {
  for (Update& u : updates) {
    Arrays a(u, DType::F64);
    for (int64_t i = 0; i < a.length; ++i) {
      const auto at = [i](std::byte* base) { return reinterpret_cast<double*>(base) + i; };
      double state[kMaxStates] = {};
      for (int k = 0; k < kMaxStates; ++k)
        if (a.state[k]) state[k] = *at(a.state[k]);
      kElementRules[static_cast<int>(rule)](u.members.data(), at(a.value), *at(a.grad), state);
      for (int k = 0; k < kMaxStates; ++k)
        if (a.state[k]) *at(a.state[k]) = state[k];
    }
    a.write_back();
  }
}

}  // namespace strata::cpu
