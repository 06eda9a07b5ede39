// Each thread owns some hidden units for all steps: their weights stay in its L2 cache, packed so that the four gates
// of a vector of units are computed together, and the gate functions are applied while the sums are in the L1 cache.
// One barrier per step. Every sum has the same order on any thread, so any number of threads gives the same bits. Bound
// by the multiply-add rate.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/nn/lstm_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "cpu/movement/transpose.h"
#include "cpu/nn/lstm.h"
#include "tensor/allocator.h"

#define STRATA_SIMD_TARGET
#include "device/math.h"

HWY_BEFORE_NAMESPACE();
namespace strata::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#include "cpu/linalg/gemm_tiles.inl"

#if HWY_TARGET == HWY_SCALAR
template <class V> HWY_INLINE V sigmoid_of(V x) {
  return hn::Set(hn::DFromV<V>(), 1 / (1 + std::exp(-hn::GetLane(x))));
}
template <class V> HWY_INLINE V tanh_of(V x) { return hn::Set(hn::DFromV<V>(), std::tanh(hn::GetLane(x))); }
#else
template <class V> HWY_INLINE V sigmoid_of(V x) { return strata::HWY_NAMESPACE::math::sigmoid(x); }
template <class V> HWY_INLINE V tanh_of(V x) { return strata::HWY_NAMESPACE::math::tanh(x); }
#endif

template <class T> HWY_INLINE int64_t lanes_of() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())); }

// c[rows, columns] = a b: the rows in equal parts that fit the registers.
template <class T>
HWY_INLINE void product(int64_t rows, int64_t k, const T* a, int64_t a_m, const T* b, int64_t b_k, T* c, int64_t c_m,
                        int64_t columns) {
  const int64_t parts = (rows + kRows - 1) / kRows, most = (rows + parts - 1) / parts;
  for (int64_t i = 0; i < rows; i += most)
    micro_rows<kRows, T>(std::min(most, rows - i), k, a + i * a_m, a_m, int64_t{1}, b, b_k, c + i * c_m, c_m, columns,
                         T(1), false);
}

// The first block of a member, when a team shares `count` blocks.
HWY_INLINE int64_t share(int64_t count, int index, int members) { return count * index / members; }

// Weights of a block of `lanes` units: [gate pair][k][2 * lanes], padded with zeros.
template <class T> void pack_gates(const Lstm& s, const T* weight, int64_t block, T* to) {
  const int64_t lanes = lanes_of<T>(), h = s.hidden, first = block * lanes, count = std::min(lanes, h - first);
  if (count < lanes) std::fill_n(to, 4 * lanes * h, T(0));
  for (int64_t gate = 0; gate < 4; ++gate)
    transpose_tile<T, false>(to + (gate / 2 * h * 2 + gate % 2) * lanes, 2 * lanes, weight + (gate * h + first) * h, h,
                             h, count);
}

template <class T>
void forward_member(const Lstm& s, const LstmForward<T>& p, T* space, int index, int members, TeamBarrier& barrier,
                    T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = lanes_of<T>(), h = s.hidden, blocks = (h + lanes - 1) / lanes, size = s.batch * h;
  const int64_t begin = share(blocks, index, members), end = share(blocks, index + 1, members);
  for (int64_t b = begin; space && b < end; ++b) pack_gates(s, p.weight, b, space + b * 4 * lanes * h);
  const T* packed = space ? space : p.packed;
  const T *before = p.h0, *cell = p.c0;
  for (int64_t i = 0; i < s.steps; ++i) {
    const int64_t t = s.step_at(i);
    const T* x = p.gates + t * 4 * size;
    T *out = p.output + t * size, *c = p.cells ? p.cells + t * size : p.c_last;
    T* act = p.activations ? p.activations + t * 4 * size : nullptr;
    for (int64_t b = begin; b < end; ++b) {
      const T* w = packed + b * 4 * lanes * h;
      for (int64_t pair = 0; pair < 2; ++pair)
        product(s.batch, h, before, h, w + pair * 2 * lanes * h, 2 * lanes, sums + pair * 2 * lanes, 4 * lanes,
                2 * lanes);
      const int64_t unit = b * lanes;
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, h - unit)));
      for (int64_t r = 0; r < s.batch; ++r) {
        const auto sum = [&](int64_t gate) HWY_ATTR {
          return hn::Add(hn::MaskedLoad(mask, d, x + (r * 4 + gate) * h + unit),
                         hn::LoadU(d, sums + (r * 4 + gate) * lanes));
        };
        const auto in = sigmoid_of(sum(0)), forget = sigmoid_of(sum(1)), fresh = tanh_of(sum(2)),
                   open = sigmoid_of(sum(3));
        const auto now = hn::MulAdd(forget, hn::MaskedLoad(mask, d, cell + r * h + unit), hn::Mul(in, fresh));
        hn::BlendedStore(now, mask, d, c + r * h + unit);
        hn::BlendedStore(hn::Mul(open, tanh_of(now)), mask, d, out + r * h + unit);
        if (!act) continue;
        T* to = act + r * 4 * h + unit;
        hn::BlendedStore(in, mask, d, to);
        hn::BlendedStore(forget, mask, d, to + h);
        hn::BlendedStore(fresh, mask, d, to + 2 * h);
        hn::BlendedStore(open, mask, d, to + 3 * h);
      }
    }
    before = out;
    cell = c;
    barrier.wait(members);
  }
  if (p.cells)
    for (int64_t r = 0; r < s.batch; ++r) {
      const int64_t from = begin * lanes, to = std::min(h, end * lanes);
      if (from < to) std::copy(cell + r * h + from, cell + r * h + to, p.c_last + r * h + from);
    }
}

template <class T>
void backward_member(const Lstm& s, const LstmBackward<T>& p, T* packed, int index, int members, TeamBarrier& barrier) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = lanes_of<T>(), width = kVectors * lanes, h = s.hidden, size = s.batch * h;
  const int64_t panels = (h + width - 1) / width;
  const int64_t first = share(panels, index, members), last = share(panels, index + 1, members);
  const int64_t begin = first * width, end = std::min(h, last * width);
  for (int64_t j = first; j < last; ++j)
    for (int64_t k = 0; k < 4 * h; ++k) {
      const int64_t count = std::min(width, h - j * width);
      T* to = packed + (j * 4 * h + k) * width;
      std::copy_n(p.weight + k * h + j * width, count, to);
      std::fill_n(to + count, width - count, T(0));
    }
  // grad_h0 and grad_c0 carry the gradients from step to step.
  for (int64_t r = 0; r < s.batch; ++r)
    for (int64_t u = begin; u < end; ++u) {
      p.grad_h0[r * h + u] = T(0);
      p.grad_c0[r * h + u] = p.grad_c ? p.grad_c[r * h + u] : T(0);
    }
  const auto one = hn::Set(d, T(1));
  for (int64_t i = s.steps; i-- > 0;) {
    const int64_t t = s.step_at(i);
    const T *act = p.activations + t * 4 * size, *cell = p.cells + t * size,
            *before = i ? p.cells + s.step_at(i - 1) * size : p.c0, *grad = p.grad_output + t * size;
    T* gates = p.grad_gates + t * 4 * size;
    for (int64_t r = 0; r < s.batch; ++r)
      for (int64_t u = begin; u < end; u += lanes) {
        const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, end - u)));
        const auto at = [&](const T* q) HWY_ATTR { return hn::MaskedLoad(mask, d, q + r * h + u); };
        const auto gate = [&](int64_t k) HWY_ATTR { return hn::MaskedLoad(mask, d, act + (r * 4 + k) * h + u); };
        const auto put = [&](int64_t k, auto v) HWY_ATTR { hn::BlendedStore(v, mask, d, gates + (r * 4 + k) * h + u); };
        const auto in = gate(0), forget = gate(1), fresh = gate(2), open = gate(3), squashed = tanh_of(at(cell));
        const auto gh = hn::Add(at(grad), at(p.grad_h0));
        const auto gc = hn::MulAdd(hn::Mul(gh, open), hn::NegMulAdd(squashed, squashed, one), at(p.grad_c0));
        const auto slope = [&](auto y) HWY_ATTR { return hn::Mul(y, hn::Sub(one, y)); };
        put(0, hn::Mul(hn::Mul(gc, fresh), slope(in)));
        put(1, hn::Mul(hn::Mul(gc, at(before)), slope(forget)));
        put(2, hn::Mul(hn::Mul(gc, in), hn::NegMulAdd(fresh, fresh, one)));
        put(3, hn::Mul(hn::Mul(gh, squashed), slope(open)));
        hn::BlendedStore(hn::Mul(gc, forget), mask, d, p.grad_c0 + r * h + u);
      }
    barrier.wait(members);
    for (int64_t j = first; j < last; ++j)
      product(s.batch, 4 * h, static_cast<const T*>(gates), 4 * h, static_cast<const T*>(packed + j * 4 * h * width),
              width, p.grad_h0 + j * width, h, std::min(width, h - j * width));
  }
}

// Threads are worth it once a step's product takes longer than two barriers.
int team_size(const Lstm& s, int64_t blocks) {
  const int64_t work = s.batch * s.hidden * s.hidden * 4;
  return work < 200000 ? 1 : static_cast<int>(std::min<int64_t>(num_threads(), blocks));
}
template <class T> T* memory(const Ref<Storage>& s) { return reinterpret_cast<T*>(s->data); }

template <class T> size_t packed_bytes(const Lstm& s) {
  const int64_t lanes = lanes_of<T>(), blocks = (s.hidden + lanes - 1) / lanes;
  return static_cast<size_t>(blocks * lanes * 4 * s.hidden) * sizeof(T);
}
template <class T> void pack(const Lstm& s, const T* weight, T* packed) {
  const int64_t lanes = lanes_of<T>();
  for (int64_t b = 0; b * lanes < s.hidden; ++b) pack_gates(s, weight, b, packed + b * 4 * lanes * s.hidden);
}

template <class T> void run_forward(const Lstm& s, const LstmForward<T>& p) {
  const int64_t lanes = lanes_of<T>(), blocks = (s.hidden + lanes - 1) / lanes;
  const int most = team_size(s, blocks);
  const int64_t per_member = s.batch * 4 * lanes + 64;
  const auto space = p.packed ? Ref<Storage>() : allocate(packed_bytes<T>(s)),
             sums = allocate(static_cast<size_t>(per_member * most) * sizeof(T));
  parallel_team(most, [&](int index, int members, TeamBarrier& barrier) {
    forward_member(s, p, space ? memory<T>(space) : nullptr, index, members, barrier,
                   memory<T>(sums) + index * per_member);
  });
}
template <class T> void run_backward(const Lstm& s, const LstmBackward<T>& p) {
  const int64_t width = kVectors * lanes_of<T>(), panels = (s.hidden + width - 1) / width;
  const auto packed = allocate(static_cast<size_t>(panels * width * 4 * s.hidden) * sizeof(T));
  parallel_team(team_size(s, panels), [&](int index, int members, TeamBarrier& barrier) {
    backward_member(s, p, memory<T>(packed), index, members, barrier);
  });
}

size_t BytesFloat(const Lstm& s) { return packed_bytes<float>(s); }
size_t BytesDouble(const Lstm& s) { return packed_bytes<double>(s); }
void PackFloat(const Lstm& s, const float* weight, float* packed) { pack(s, weight, packed); }
void PackDouble(const Lstm& s, const double* weight, double* packed) { pack(s, weight, packed); }
void ForwardFloat(const Lstm& s, const LstmForward<float>& p) { run_forward(s, p); }
void ForwardDouble(const Lstm& s, const LstmForward<double>& p) { run_forward(s, p); }
void BackwardFloat(const Lstm& s, const LstmBackward<float>& p) { run_backward(s, p); }
void BackwardDouble(const Lstm& s, const LstmBackward<double>& p) { run_backward(s, p); }

}  // namespace strata::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::cpu {
HWY_EXPORT(BytesFloat);
HWY_EXPORT(BytesDouble);
HWY_EXPORT(PackFloat);
HWY_EXPORT(PackDouble);
HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);
HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardDouble);
template <> size_t lstm_packed_bytes<float>(const Lstm& s) { return HWY_DYNAMIC_DISPATCH(BytesFloat)(s); }
template <> size_t lstm_packed_bytes<double>(const Lstm& s) { return HWY_DYNAMIC_DISPATCH(BytesDouble)(s); }
template <> void lstm_pack(const Lstm& s, const float* weight, float* packed) {
  HWY_DYNAMIC_DISPATCH(PackFloat)(s, weight, packed);
}
template <> void lstm_pack(const Lstm& s, const double* weight, double* packed) {
  HWY_DYNAMIC_DISPATCH(PackDouble)(s, weight, packed);
}
template <> void lstm_forward(const Lstm& s, const LstmForward<float>& p) { HWY_DYNAMIC_DISPATCH(ForwardFloat)(s, p); }
template <> void lstm_forward(const Lstm& s, const LstmForward<double>& p) {
  HWY_DYNAMIC_DISPATCH(ForwardDouble)(s, p);
}
template <> void lstm_backward(const Lstm& s, const LstmBackward<float>& p) {
  HWY_DYNAMIC_DISPATCH(BackwardFloat)(s, p);
}
template <> void lstm_backward(const Lstm& s, const LstmBackward<double>& p) {
  HWY_DYNAMIC_DISPATCH(BackwardDouble)(s, p);
}
}  // namespace strata::cpu
#endif
