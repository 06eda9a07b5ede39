// The kernels of all pointwise ops: a fast path for contiguous operands, blocks for everything else, and a plain
// reference.
#include "cpu/pointwise/pointwise.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/movement/runs.h"
#include "cpu/pointwise/bfloat.h"
#include "cpu/pointwise/gather.h"
#include "record/promotion.h"
#include "record/walk.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // minimum elements per thread
constexpr int64_t kLongRow = 128;  // longer rows are computed in place, shorter ones are gathered into blocks
constexpr int64_t kShortRow = 16;  // rows that need no buffer are computed in place from this length on

template <class T> Loop<T> loop_of(const Call& c, const Formula& f) {
  if constexpr (std::is_same_v<T, Complex<float>>) return c.op.complex_formula->loops.c64;
  else if constexpr (std::is_same_v<T, Complex<double>>) return c.op.complex_formula->loops.c128;
  else if constexpr (std::is_same_v<T, float>) return f.loops.f32;
  else if constexpr (std::is_same_v<T, double>) return f.loops.f64;
  else if constexpr (std::is_same_v<T, uint8_t>) return f.loops.bools;
  else return f.loops.i64;
}

// Runs the loop of T; that of uint64_t for the bits of uint64 if the functor has one.
template <class T>
void run_loop(const Call& c, const Formula& f, [[maybe_unused]] DType common, const T* members, const T* const* in,
              const size_t* mask, T* out, int64_t n) {
  if constexpr (std::is_same_v<T, int64_t>)
    if (common == DType::U64 && f.loops.u64)
      return f.loops.u64(members, reinterpret_cast<const uint64_t* const*>(in), mask, reinterpret_cast<uint64_t*>(out),
                         static_cast<size_t>(n));
  loop_of<T>(c, f)(members, in, mask, out, static_cast<size_t>(n));
}

template <class T> struct alignas(kVectorBytes) Fill {  // a vector of copies of one number
  T value[kVectorBytes / sizeof(T)];
  void set(T v) { std::fill_n(value, std::size(value), v); }
};

void check_divisor(const int64_t* p, size_t mask, int64_t n, const char* op) {
  bool zero = false;
  const int64_t count = mask ? n : 1;
  for (int64_t i = 0; i < count; ++i) zero |= p[i] == 0;
  STRATA_CHECK(!zero, Runtime, "{}: ZeroDivisionError: an integer was divided by zero", op);
}

// --- dense ----------------------------------------------------------------------------------------------------------

template <class T> void flat(const Call& c, const Formula& f) {
  const Loop<T> loop = loop_of<T>(c, f);
  const TensorImpl& out = *c.out();
  T members[kMaxMembers];
  Fill<T> fill[kMaxOperands];
  const T* in[kMaxOperands];
  size_t mask[kMaxOperands];
  read_members(f, c.args, members);
  const Value* const args = c.args.v;
  for (int k = 0, inputs = f.inputs; k < inputs; ++k) {
    const Value& v = args[k];
    if (v.tag == Tag::Tensor && (v.tensor->contiguous || !repeats_one(*v.tensor))) {
      in[k] = reinterpret_cast<const T*>(v.tensor->data);
      mask[k] = ~size_t{0};
    } else {
      fill[k].set(v.tag == Tag::Tensor ? *reinterpret_cast<const T*>(v.tensor->data)
                                       : number_operand<T>(f, v, k, out.dtype));
      in[k] = fill[k].value;
      mask[k] = 0;
    }
  }
  T* to = reinterpret_cast<T*>(out.data);
  if (out.numel <= kGrain) return loop(members, in, mask, to, out.numel);
  parallel_for(out.numel, kGrain, [&](int64_t begin, int64_t end) {
    const T* from[kMaxOperands];
    for (int k = 0; k < f.inputs; ++k) from[k] = mask[k] ? in[k] + begin : in[k];
    loop(members, from, mask, to + begin, end - begin);
  });
}

// --- blocks ---------------------------------------------------------------------------------------------------------

template <class T> void scatter(const Walk& w, const int64_t* start, int64_t n, const T* from) {
  int64_t index[kMaxDims];
  std::copy_n(start, w.ndim, index);
  const Walk::View& v = w.view[0];
  dispatch_dtype(v.type, [&]<class S>() {
    const int64_t step = v.step[w.ndim - 1];
    while (n > 0) {
      const int64_t run = std::min(n, w.inner() - index[w.ndim - 1]);
      S* p = reinterpret_cast<S*>(v.data) + w.offset(0, index);
      for (int64_t i = 0; i < run; ++i) p[i * step] = convert<S>(from[i]);
      from += run;
      n -= run;
      w.advance(index, run);
    }
  });
}

template <class T> struct Blocks {
  static constexpr bool kBools = std::is_same_v<T, uint8_t>;  // all tensors are bool
  // Elements converted at a time: a few blocks stay in the L1 cache.
  static constexpr int64_t kBlock = 4096 / static_cast<int64_t>(kBools ? 1 : std::max<size_t>(8, sizeof(T)));
  const Call& c;
  const Formula& f;
  DType common;
  Walk w;
  int view_of[kMaxOperands];  // in the walk; 0: a number
  T members[kMaxMembers];
  Fill<T> numbers[kMaxOperands];
  bool direct[Walk::kMaxViews];  // is of type T

  Blocks(const Call& call, const Formula& formula, DType type) : c(call), f(formula), common(type), w(*call.out()) {
    if constexpr (!kBools) read_members(f, c.args, members);
    for (int k = 0; k < f.inputs; ++k) {
      const Value& v = c.args[k];
      if (v.tag == Tag::Tensor) {
        view_of[k] = w.views;
        w.add(*v.tensor);
      } else {
        view_of[k] = 0;
        if constexpr (kBools) numbers[k].set(static_cast<T>(number_operand<int64_t>(f, v, k, common)));
        else numbers[k].set(number_operand<T>(f, v, k, common));
      }
    }
    w.collapse();
    if constexpr (std::is_same_v<T, int64_t>)
      for (int k = 0; k < w.views; ++k)  // the bits are the same
        if (w.view[k].type == DType::U64) w.view[k].type = DType::I64;
    for (int k = 0; k < w.views; ++k) direct[k] = kBools || w.view[k].type == dtype_of<T>;
  }

  void run() {
    if (w.total == 0) return;
    const bool rows = w.ndim == 1 || w.inner() >= kLongRow;
    if (w.ndim > 1 && w.inner() >= kShortRow && whole_rows())
      return parallel_for(w.total / w.inner(), std::max<int64_t>(1, kGrain / w.inner()),
                          [&](int64_t begin, int64_t end) { by_whole_rows(begin, end); });
    parallel_for(w.total, kGrain,
                 [&](int64_t begin, int64_t end) { rows ? by_rows(begin, end) : by_blocks(begin, end); });
  }

  void compute(const T* const* in, const size_t* mask, T* out, int64_t n) const {
    if constexpr (std::is_same_v<T, int64_t>)
      if (f.nonzero >= 0) check_divisor(in[f.nonzero], mask[f.nonzero], n, c.op.name.c_str());
    run_loop<T>(c, f, common, members, in, mask, out, n);
  }

  // Whether an operand is read or written in memory without a conversion, along a row.
  bool in_place(int k) const { return direct[k] && w.view[k].step[w.ndim - 1] == 1; }
  // Whether no operand needs a buffer: all are in place, or one value per row.
  bool whole_rows() const {
    bool whole = in_place(0);
    for (int k = 1; k < w.views; ++k) whole &= in_place(k) || (direct[k] && w.view[k].step[w.ndim - 1] == 0);
    return whole;
  }
  // Rows [begin, end), if whole_rows(): addresses advance from row to row, which costs less than an index.
  void by_whole_rows(int64_t begin, int64_t end) const {
    const int last = w.ndim - 1;
    Fill<T> fill[kMaxOperands];
    const T* in[kMaxOperands];
    size_t mask[kMaxOperands];
    int64_t index[kMaxDims];
    w.locate(begin * w.inner(), index);
    for (int64_t row = begin, rows; row < end; row += rows) {
      rows = std::min(end - row, w.shape[last - 1] - index[last - 1]);
      T* to = reinterpret_cast<T*>(w.view[0].data) + w.offset(0, index);
      const T* from[kMaxOperands];
      for (int k = 0; k < f.inputs; ++k) {
        const int v = view_of[k];
        mask[k] = v && w.view[v].step[last] ? ~size_t{0} : 0;
        if (v) from[k] = reinterpret_cast<const T*>(w.view[v].data) + w.offset(v, index);
        else in[k] = numbers[k].value;
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int k = 0; k < f.inputs; ++k) {
          if (!view_of[k]) continue;
          const T* p = from[k] + r * w.view[view_of[k]].step[last - 1];
          if (!mask[k]) {
            fill[k].set(*p);
            p = fill[k].value;
          }
          in[k] = p;
        }
        compute(in, mask, to + r * w.view[0].step[last - 1], w.inner());
      }
      index[last - 1] += rows;
      for (int d = last - 1; d > 0 && index[d] == w.shape[d]; --d) {
        index[d] = 0;
        ++index[d - 1];
      }
    }
  }

  // Long rows: operands that are contiguous within a row are used in place.
  void by_rows(int64_t begin, int64_t end) const {
    alignas(64) T buffer[kMaxOperands + 1][kBlock];
    Fill<T> fill[kMaxOperands];
    const T* in[kMaxOperands];
    size_t mask[kMaxOperands];
    int64_t index[kMaxDims];
    const int last = w.ndim - 1;
    bool whole = in_place(0);  // no buffer needed: use rows in place
    for (int k = 1; k < w.views; ++k) whole &= in_place(k) || w.view[k].step[last] == 0;
    w.locate(begin, index);
    for (int64_t at = begin, n; at < end; at += n, w.advance(index, n)) {
      n = std::min(end - at, w.inner() - index[last]);
      if (!whole) n = std::min(n, kBlock);
      for (int k = 0; k < f.inputs; ++k) {
        const int v = view_of[k];
        mask[k] = 0;
        if (v == 0) {
          in[k] = numbers[k].value;
          continue;
        }
        const Walk::View& view = w.view[v];
        const std::byte* from = view.data + w.offset(v, index) * static_cast<int64_t>(size_of(view.type));
        if (view.step[last] == 0) {
          T one;
          if (direct[v]) one = *reinterpret_cast<const T*>(from);
          else load_run(&one, from, view.type, 1, 1);
          fill[k].set(one);
          in[k] = fill[k].value;
          continue;
        }
        mask[k] = ~size_t{0};
        if (in_place(v)) in[k] = reinterpret_cast<const T*>(from);
        else {
          load_run(buffer[k], from, view.type, view.step[last], n);
          in[k] = buffer[k];
        }
      }
      const Walk::View& out = w.view[0];
      std::byte* to = out.data + w.offset(0, index) * static_cast<int64_t>(size_of(out.type));
      if (in_place(0)) {
        compute(in, mask, reinterpret_cast<T*>(to), n);
      } else {
        compute(in, mask, buffer[kMaxOperands], n);
        store_run(buffer[kMaxOperands], to, out.type, out.step[last], n);
      }
    }
  }

  // Short rows: operands that are not one contiguous run are gathered over several rows. Blocks begin with a row, so that a
  // row that is the same everywhere is gathered once.
  void by_blocks(int64_t begin, int64_t end) const {
    alignas(64) T buffer[kMaxOperands + 1][kBlock];
    const T* in[kMaxOperands];
    size_t mask[kMaxOperands];
    int64_t index[kMaxDims], kept[kMaxOperands] = {};  // elements of a repeated row that a buffer already holds
    const int64_t inner = w.inner(), whole_rows = kBlock / inner * inner;
    w.locate(begin, index);
    for (int64_t at = begin, n; at < end; at += n) {
      const int64_t within = index[w.ndim - 1];
      n = std::min(end - at, within ? inner - within : whole_rows);
      for (int k = 0; k < f.inputs; ++k) {
        const int v = view_of[k];
        mask[k] = v == 0 ? 0 : ~size_t{0};
        if (v == 0) in[k] = numbers[k].value;
        else if (linear(v) && direct[v]) in[k] = reinterpret_cast<const T*>(w.view[v].data) + at;
        else {
          if (linear(v)) {
            const Walk::View& view = w.view[v];
            load_run(buffer[k], view.data + at * static_cast<int64_t>(size_of(view.type)), view.type, 1, n);
          } else if (within || kept[k] < n) {
            gather(w, v, index, n, buffer[k]);
            kept[k] = within == 0 && repeats(v) ? n : 0;
          }
          in[k] = buffer[k];
        }
      }
      if (linear(0) && direct[0]) {
        compute(in, mask, reinterpret_cast<T*>(w.view[0].data) + at, n);
      } else {
        compute(in, mask, buffer[kMaxOperands], n);
        const Walk::View& out = w.view[0];
        if (linear(0))
          store_run(buffer[kMaxOperands], out.data + at * static_cast<int64_t>(size_of(out.type)), out.type, 1, n);
        else scatter(w, index, n, buffer[kMaxOperands]);
      }
      w.locate(at + n, index);
    }
  }

  // Whether all rows of the view are the same.
  bool repeats(int k) const {
    return std::all_of(w.view[k].step, w.view[k].step + w.ndim - 1, [](int64_t step) { return step == 0; });
  }
  // Whether the view's elements are contiguous in the walk's order, although another view keeps its dimensions apart.
  bool linear(int k) const {
    int64_t n = 1;
    for (int d = w.ndim; d-- > 0; n *= w.shape[d])
      if (w.view[k].step[d] != n) return false;
    return true;
  }
};

// --- reference ------------------------------------------------------------------------------------------------------

template <class T>
T one_element(const Call& c, const Formula& f, [[maybe_unused]] DType common, const T* members, const T* in) {
  if constexpr (kIsComplex<T>) return c.op.complex_formula->element(members, in);
  else if constexpr (std::is_same_v<T, float>) return f.f32(members, in);
  else if constexpr (std::is_same_v<T, double>) return f.f64(members, in);
  else {
    if (common == DType::U64 && f.u64)
      return static_cast<int64_t>(
        f.u64(reinterpret_cast<const uint64_t*>(members), reinterpret_cast<const uint64_t*>(in)));
    return f.i64(members, in);
  }
}

template <class T> void reference(const Call& c, const Formula& f, DType common) {
  const TensorImpl& out = *c.out();
  T members[kMaxMembers], in[kMaxOperands];
  read_members(f, c.args, members);
  int64_t index[kMaxDims] = {};
  for (int64_t i = 0; i < out.numel; ++i) {
    const auto element = [&](const TensorImpl& t) {
      int64_t offset = 0;
      for (int d = 0; d < t.ndim; ++d) offset += t.shape[d] == 1 ? 0 : index[out.ndim - t.ndim + d] * t.strides[d];
      return t.data + offset * static_cast<int64_t>(size_of(t.dtype));
    };
    for (int k = 0; k < f.inputs; ++k) {
      const Value& v = c.args[k];
      if (v.tag == Tag::Tensor) load_run(&in[k], element(*v.tensor), v.tensor->dtype, 1, 1);
      else in[k] = number_operand<T>(f, v, k, common);
    }
    if constexpr (std::is_same_v<T, int64_t>)
      if (f.nonzero >= 0) check_divisor(&in[f.nonzero], 0, 1, c.op.name.c_str());
    const T result = one_element(c, f, common, members, in);
    store_run(&result, element(out), out.dtype, 1, 1);
    for (int d = out.ndim; d-- > 0 && ++index[d] == out.shape[d];) index[d] = 0;
  }
}
}  // namespace

// Whether the elements of both are in the same memory order.
static bool same_order(const TensorImpl& a, const TensorImpl& b) {
  if (!a.same_shape(b)) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

const char* flat_ready(const Call& c) {
  const Formula& f = formula_of(c);
  const TensorImpl& out = *c.out();
  if (out.dtype != DType::F32 && out.dtype != DType::F64 && out.dtype != DType::I64)
    return "the result is not float32, float64 or int64";
  if (!out.contiguous && !out.is_dense()) return "the result is not dense";
  if (f.nonzero >= 0 && out.dtype == DType::I64) return "an integer divisor must be checked first";
  const Value* const args = c.args.v;
  for (int k = 0, inputs = f.inputs; k < inputs; ++k) {
    if (args[k].tag != Tag::Tensor) continue;
    const TensorImpl& t = *args[k].tensor;
    if (t.dtype != out.dtype) return "an operand has another dtype";
    if (t.numel != out.numel) return "an operand is broadcast";
    if (!(t.contiguous && out.contiguous) && !same_order(t, out) && !repeats_one(t))
      return "an operand has another memory order";
  }
  return nullptr;
}

void run_flat(const Call& c) {
  const Formula& f = formula_of(c);
  dispatch_compute(c.out()->dtype, [&]<class T>() { flat<T>(c, f); });
}

// Integers are finite: these predicates have one value for all of them.
static bool same_for_integers(const Formula& f) {
  if (!f.predicate || f.inputs != 1 || !f.loops.name) return false;
  const std::string_view name = f.loops.name;
  return name == "IsFinite" || name == "IsInf" || name == "IsPosInf" || name == "IsNegInf" || name == "IsNan";
}

// The sign of a 16-bit float is the first bit of both formats: no conversion is needed to change it.
static bool run_sign_bits(const Call& c, const Formula& f) {
  const TensorImpl& out = *c.out();
  if ((out.dtype != DType::BF16 && out.dtype != DType::F16) || !f.loops.name || !out.is_dense()) return false;
  const std::string_view name = f.loops.name;
  if (name != "Abs" && name != "Neg" && name != "Copysign") return false;
  const uint16_t* in[2] = {};
  for (int k = 0; k < f.inputs; ++k) {
    if (!c.args.is_tensor(k)) return false;
    const TensorImpl& t = c.args.tensor(k);
    if (t.dtype != out.dtype || !same_order(t, out)) return false;
    in[k] = reinterpret_cast<const uint16_t*>(t.data);
  }
  auto* to = reinterpret_cast<uint16_t*>(out.data);
  parallel_for(out.numel, 2 * kGrain, [&](int64_t begin, int64_t end) {
    const auto each = [&](auto bits) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<uint16_t>(bits(i));
    };
    const uint16_t *a = in[0], *b = in[1];
    if (name == "Abs") each([a](int64_t i) { return a[i] & 0x7fff; });
    else if (name == "Neg") each([a](int64_t i) { return a[i] ^ 0x8000; });
    else each([a, b](int64_t i) { return (a[i] & 0x7fff) | (b[i] & 0x8000); });
  });
  return true;
}

// Long rows of bfloat16, of which an operand may be one value, without conversions through memory.
static bool run_bfloats(const Call& c, const Formula& f) {
  const TensorImpl& out = *c.out();
  if (out.dtype != DType::BF16 || out.numel < kLongRow || !f.loops.name) return false;
  const SmallLoop loop = bfloat_loop(f.loops.name);
  if (!loop) return false;
  Walk w(out);
  int view_of[kMaxOperands];
  Fill<float> numbers[kMaxOperands];
  float members[kMaxMembers];
  for (int k = 0; k < f.inputs; ++k) {
    const Value& v = c.args[k];
    view_of[k] = v.tag == Tag::Tensor ? w.views : 0;
    if (v.tag != Tag::Tensor) numbers[k].set(number_operand<float>(f, v, k, DType::BF16));
    else if (v.tensor->dtype != DType::BF16) return false;
    else w.add(*v.tensor);
  }
  read_members(f, c.args, members);
  w.collapse();
  const int last = w.ndim - 1;
  if (w.inner() < kLongRow || w.view[0].step[last] != 1) return false;
  for (int k = 1; k < w.views; ++k)
    if (w.view[k].step[last] != 0 && w.view[k].step[last] != 1) return false;
  parallel_for(w.total, kGrain, [&](int64_t begin, int64_t end) {
    Fill<float> fill[kMaxOperands];
    const void* in[kMaxOperands];
    size_t mask[kMaxOperands];
    int64_t index[kMaxDims];
    w.locate(begin, index);
    for (int64_t at = begin, n; at < end; at += n, w.advance(index, n)) {
      n = std::min(end - at, w.inner() - index[last]);
      for (int k = 0; k < f.inputs; ++k) {
        const int v = view_of[k];
        mask[k] = v && w.view[v].step[last] ? ~size_t{0} : 0;
        in[k] = numbers[k].value;
        if (!v) continue;
        const auto* from = reinterpret_cast<const BFloat16*>(w.view[v].data) + w.offset(v, index);
        in[k] = from;
        if (mask[k]) continue;
        fill[k].set(static_cast<float>(*from));
        in[k] = fill[k].value;
      }
      loop(members, in, mask, reinterpret_cast<BFloat16*>(w.view[0].data) + w.offset(0, index), static_cast<size_t>(n));
    }
  });
  return true;
}

void run_blocked(const Call& c) {
  const Formula& f = formula_of(c);
  if (run_sign_bits(c, f) || run_bfloats(c, f)) return;
  const DType common = computed_type(f, c);
  if (!is_floating(common) && !is_complex(common) && same_for_integers(f)) {
    const int64_t zero = 0;
    return fill(*c.out(), f.i64(nullptr, &zero) != 0);
  }
  if (common == DType::Bool && f.loops.bools && c.out()->dtype == DType::Bool)
    return Blocks<uint8_t>(c, f, common).run();
  if (common == DType::C64) return Blocks<Complex<float>>(c, f, common).run();
  if (common == DType::C128) return Blocks<Complex<double>>(c, f, common).run();
  dispatch_compute(common, [&]<class T>() { Blocks<T>(c, f, common).run(); });
}

void run_reference(const Call& c) {
  const Formula& f = formula_of(c);
  const DType common = computed_type(f, c);
  if (is_complex(common)) return reference<Complex<double>>(c, f, common);
  if (!is_floating(common)) return reference<int64_t>(c, f, common);
  if (f.own_precision && common != DType::F64) return reference<float>(c, f, common);
  reference<double>(c, f, common);
}

}  // namespace strata::cpu
