#include "cpu/fft/fft.h"

#include <cmath>
#include <optional>

#include "base/parallel.h"
#include "cpu/fft/lines.h"
#include "cpu/reference.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {
using fft::Lines;
using fft::Plan;
using fft::plan_of;

constexpr int64_t kGrain = 1 << 14;

// [outer][n][inner], contiguous.
struct Geometry {
  int64_t outer = 1, inner = 1;
  Geometry(const TensorImpl& t, int dim) {
    for (int d = 0; d < dim; ++d) outer *= t.shape[d];
    for (int d = dim + 1; d < t.ndim; ++d) inner *= t.shape[d];
  }
  int64_t count() const { return outer * inner; }
  Lines lines(int64_t n) const { return {inner, 1, n * inner, inner}; }
};

template <class F> void dispatch_parts(DType t, F&& f) {
  if (real_type(t) == DType::F64) f.template operator()<double>();
  else f.template operator()<float>();
}

// The spectrum of a real line of 2h elements from that of its h pairs z[j] = x[2j] + i x[2j + 1]: with the spectra e and o
// of the even and odd elements, e[k] + i o[k] = z[k], and the result is e[k] + exp(-2 pi i k / 2h) o[k].
template <class T> void unpack_pairs(const Plan<T>& half, const Complex<T>* z, Complex<T>* out, T scale) {
  const int64_t h = half.n;
  const T s = scale / 2;
  const auto one = [&](int64_t k, Complex<T> a, Complex<T> b, Complex<T> w) {  // a = z[k], b = z[h - k]
    const Complex<T> even{a.re + b.re, a.im - b.im}, odd{a.im + b.im, b.re - a.re};
    out[k] = {s * (even.re + w.re * odd.re - w.im * odd.im), s * (even.im + w.re * odd.im + w.im * odd.re)};
  };
  parallel_for(h / 2 + 1, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Complex<T> a = z[k], b = z[k == 0 ? 0 : h - k], w = half.half_turns[static_cast<size_t>(k)];
      one(k, a, b, w);
      one(h - k, b, a, {-w.re, w.im});  // exp(-2 pi i (h - k) / 2h) = -conj(w)
    }
  });
}
// The opposite: pairs whose backward transform is the real line.
template <class T> void pack_pairs(const Plan<T>& half, const Complex<T>* x, Complex<T>* z) {
  const int64_t h = half.n;
  const auto one = [&](int64_t k, Complex<T> a, Complex<T> b, Complex<T> w) {  // a = x[k], b = x[h - k]
    const Complex<T> even{a.re + b.re, a.im - b.im}, d{a.re - b.re, a.im + b.im};
    const Complex<T> odd{w.re * d.re + w.im * d.im, w.re * d.im - w.im * d.re};  // times conj(w)
    z[k] = {even.re - odd.im, even.im + odd.re};
  };
  parallel_for(h / 2 + 1, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      Complex<T> a = x[k], b = x[h - k];
      if (k == 0) a.im = b.im = 0;  // the ends of the spectrum of a real line are real
      const Complex<T> w = half.half_turns[static_cast<size_t>(k)];
      one(k, a, b, w);
      if (k != 0 && k != h - k) one(h - k, b, a, {-w.re, w.im});
    }
  });
}

template <class T> Tensor with_last(const TensorImpl& t, int dim, DType dtype) {  // contiguous, dim moved to the end
  Tensor moved = alias(t);
  for (int d = dim; d + 1 < t.ndim; ++d) {
    std::swap(moved->shape[d], moved->shape[d + 1]);
    std::swap(moved->strides[d], moved->strides[d + 1]);
  }
  moved->update_contiguous();
  return staged(*moved, dtype);
}
// A contiguous tensor like `out` with dim moved to the end, and the copy back.
template <class T> struct Moved {
  Tensor place;
  const TensorImpl& out;
  int dim;
  Moved(const TensorImpl& target, int d) : out(target), dim(d) {
    if (d == target.ndim - 1 && target.contiguous) {
      place = alias(target);
      return;
    }
    Tensor shape = shape_only(target);
    for (int i = d; i + 1 < target.ndim; ++i) std::swap(shape->shape[i], shape->shape[i + 1]);
    shape->set_contiguous_strides();
    shape->allocate();
    place = shape;
  }
  void finish() const {
    if (place.bytes() == out.data) return;
    Tensor view = alias(*place);
    for (int i = out.ndim - 1; i > dim; --i) {
      std::swap(view->shape[i], view->shape[i - 1]);
      std::swap(view->strides[i], view->strides[i - 1]);
    }
    view->update_contiguous();
    copy_values(out, *view);
  }
};

constexpr int64_t kMostInLanes = 1 << 12;  // longer lines of all lanes do not stay in the L2 cache

// The lines of a tensor along a dimension, in order of the other dimensions; nothing if their strides do not merge.
std::optional<Lines> lines_of(const TensorImpl& t, int dim) {
  const auto merged = [&](int begin, int end, int64_t& count, int64_t& step) {
    count = 1;
    step = 0;
    for (int d = end; d-- > begin;) {
      if (t.shape[d] == 1) continue;
      if (count > 1 && t.strides[d] != step * count) return false;
      if (count == 1) step = t.strides[d];
      count *= t.shape[d];
    }
    return true;
  };
  int64_t outer;
  Lines lines;
  lines.stride = t.strides[dim];
  if (!merged(dim + 1, t.ndim, lines.inner_count, lines.inner_step) || !merged(0, dim, outer, lines.outer_step))
    return std::nullopt;
  return lines;
}

// Transforms real lines two at a time, in place of the tensors' memory; false if another method is better.
template <class T> bool real_in_lanes(const TensorImpl& in, int dim, double scale, const TensorImpl& out) {
  const int64_t n = in.shape[dim], count = in.numel / n;
  // An even line alone takes half the time as complex pairs.
  if (n > kMostInLanes || in.dtype != real_type(out.dtype) || (n % 2 == 0 && count <= fft::lanes<T>())) return false;
  const std::optional<Lines> from = lines_of(in, dim), to = lines_of(out, dim);
  if (!from || !to) return false;
  const auto plan = plan_of<T>(n);
  if (plan->bluestein) return false;
  transform_real_lines<T>(*plan, reinterpret_cast<const T*>(in.data), *from, nullptr,
                          reinterpret_cast<Complex<T>*>(out.data), *to, count, static_cast<T>(scale));
  return true;
}
}  // namespace

void fft_complex(const TensorImpl& in, int dim, bool forward, double scale, const TensorImpl& out) {
  if (out.numel == 0) return;
  dispatch_parts(out.dtype, [&]<class T>() {
    using C = Complex<T>;
    const int64_t n = out.shape[dim];
    const Geometry g(out, dim);
    const Tensor source = staged(in, out.dtype);
    const Tensor place = borrow(out);
    const Out<C> target(place);
    const auto plan = plan_of<T>(n);
    const Lines lines = g.lines(n);
    transform_lines<T>(*plan, source.data<C>(), lines, target.get(), lines, g.count(), forward, static_cast<T>(scale));
    target.finish();
  });
}

void fft_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out) {
  if (out.numel == 0) return;
  dispatch_parts(out.dtype, [&]<class T>() {
    using C = Complex<T>;
    if (real_in_lanes<T>(in, dim, scale, out)) return;
    const int64_t n = in.shape[dim], bins = n / 2 + 1, count = in.numel / n;
    const Tensor source = with_last<T>(in, dim, real_type(out.dtype));
    const Moved<T> target(out, dim);
    C* to = target.place.template data<C>();
    const auto factor = static_cast<T>(scale);
    // An even line is transformed as pairs, an odd one as complex numbers. In pieces, so that the lines of a piece are still
    // in the cache when they are unpacked.
    const bool even = n % 2 == 0;
    const int64_t length = even ? n / 2 : n;
    const auto plan = plan_of<T>(length);
    const Lines lines{1, 0, length, 1};
    const T* from = source.data<T>();
    const int64_t piece = std::max<int64_t>(16, (1 << 16) / n), pieces = (count + piece - 1) / piece;
    parallel_for(pieces, std::max<int64_t>(1, kGrain / (piece * n)), [&](int64_t begin, int64_t end) {
      const int64_t room = std::min(piece, count) * length;
      const Tensor spectra = make_tensor(Shape(&room, 1), out.dtype),
                   whole = even ? Tensor() : make_tensor(Shape(&room, 1), out.dtype);
      C* z = spectra.data<C>();
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p * piece, some = std::min(piece, count - first);
        const auto* values = reinterpret_cast<const C*>(from + first * n);
        if (!even) {
          C* made = whole.data<C>();
          for (int64_t i = 0; i < some * n; ++i) made[i] = {from[first * n + i], 0};
          values = made;
        }
        transform_lines<T>(*plan, values, lines, z, lines, some, true, even ? T(1) : factor);
        for (int64_t i = 0; i < some; ++i) {
          C* bin = to + (first + i) * bins;
          if (even) unpack_pairs<T>(*plan, z + i * length, bin, factor);
          else std::copy_n(z + i * length, bins, bin);
        }
      }
    });
    target.finish();
  });
}

void fft_frames(const TensorImpl& signal, const TensorImpl* window, int64_t n, int64_t hop, double scale,
                const TensorImpl& out) {
  if (out.numel == 0) return;
  dispatch_parts(out.dtype, [&]<class T>() {
    const DType type = real_type(out.dtype);
    const int64_t batch = out.shape[0], bins = out.shape[1], frames = out.shape[2], length = signal.shape[1];
    const Tensor x = staged(signal, type), weights = window ? staged(*window, type) : Tensor();
    const T* w = window ? weights.data<T>() : nullptr;
    const auto plan = plan_of<T>(n);
    if (!plan->bluestein && n <= kMostInLanes) {
      const Tensor place = borrow(out);
      const Out<Complex<T>> target(place);
      transform_real_lines<T>(*plan, x.data<T>(), {frames, hop, length, 1}, w, target.get(),
                              {frames, 1, bins * frames, frames}, batch * frames, static_cast<T>(scale));
      return target.finish();
    }
    const int64_t shape[] = {batch, frames, n}, half[] = {batch, frames, bins};
    const Tensor each = make_tensor(Shape(shape, 3), type), spectra = make_tensor(Shape(half, 3), out.dtype);
    parallel_for(batch * frames, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t f = begin; f < end; ++f) {
        const T* from = x.data<T>() + f / frames * length + f % frames * hop;
        for (int64_t i = 0; i < n; ++i) each.data<T>()[f * n + i] = w ? from[i] * w[i] : from[i];
      }
    });
    fft_real(*each, 2, scale, *spectra);
    Tensor turned = alias(*spectra);
    std::swap(turned->shape[1], turned->shape[2]);
    std::swap(turned->strides[1], turned->strides[2]);
    turned->update_contiguous();
    copy_values(out, *turned);
  });
}

void fft_to_real(const TensorImpl& in, int dim, double scale, const TensorImpl& out) {
  if (out.numel == 0) return;
  dispatch_parts(out.dtype, [&]<class T>() {
    using C = Complex<T>;
    const int64_t n = out.shape[dim], bins = n / 2 + 1, count = out.numel / n;
    const Tensor source = with_last<T>(in, dim, complex_type(out.dtype));
    const Moved<T> target(out, dim);
    T* to = target.place.template data<T>();
    const C* from = source.data<C>();
    const auto factor = static_cast<T>(scale);
    const bool even = n % 2 == 0;
    const int64_t length = even ? n / 2 : n;
    const auto plan = plan_of<T>(length);
    const Lines lines{1, 0, length, 1};
    const int64_t piece = std::max<int64_t>(16, (1 << 16) / n), pieces = (count + piece - 1) / piece;
    parallel_for(pieces, std::max<int64_t>(1, kGrain / (piece * n)), [&](int64_t begin, int64_t end) {
      const int64_t room = std::min(piece, count) * length;
      const Tensor held = make_tensor(Shape(&room, 1), source.dtype()),
                   whole = even ? Tensor() : make_tensor(Shape(&room, 1), source.dtype());
      C *z = held.data<C>(), *spectrum = even ? nullptr : whole.data<C>();
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p * piece, some = std::min(piece, count - first);
        for (int64_t i = 0; i < some; ++i) {
          const C* x = from + (first + i) * bins;
          C* line = z + i * length;
          if (even) {
            pack_pairs<T>(*plan, x, line);
            continue;
          }
          line[0] = {x[0].re, 0};
          for (int64_t k = 1; k < bins; ++k) {
            line[k] = x[k];
            line[n - k] = {x[k].re, -x[k].im};
          }
        }
        if (even) {
          auto* pairs = reinterpret_cast<C*>(to + first * n);
          transform_lines<T>(*plan, z, lines, pairs, lines, some, false, factor);
        } else {
          transform_lines<T>(*plan, z, lines, spectrum, lines, some, false, factor);
          for (int64_t i = 0; i < some * n; ++i) to[first * n + i] = spectrum[i].re;
        }
      }
    });
    target.finish();
  });
}

// --- reference -------------------------------------------------------------------------------------------------------
namespace {
// value(j): element j of the line that holds `at`; n elements.
template <class Value>
Complex<double> direct_sum(int64_t n, int64_t k, bool forward, double scale, const Value& value) {
  Complex<double> sum{0, 0};
  for (int64_t j = 0; j < n; ++j) {
    const double angle = (forward ? -2 : 2) * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n);
    const Complex<double> z = value(j);
    sum.re += z.re * std::cos(angle) - z.im * std::sin(angle);
    sum.im += z.re * std::sin(angle) + z.im * std::cos(angle);
  }
  return {sum.re * scale, sum.im * scale};
}
}  // namespace

void fft_complex_reference(const TensorImpl& in, int dim, bool forward, double scale, const TensorImpl& out) {
  const auto d = static_cast<size_t>(dim);
  each_index(out.sizes(), [&](const Index& at) {
    Index from = at;
    set(out, at, direct_sum(in.shape[dim], at[d], forward, scale, [&](int64_t j) {
          from[d] = j;
          return get<Complex<double>>(in, from);
        }));
  });
}
void fft_real_reference(const TensorImpl& in, int dim, double scale, const TensorImpl& out) {
  fft_complex_reference(in, dim, true, scale, out);
}
void fft_frames_reference(const TensorImpl& signal, const TensorImpl* window, int64_t n, int64_t hop, double scale,
                          const TensorImpl& out) {
  each_index(out.sizes(), [&](const Index& at) {
    set(out, at, direct_sum(n, at[1], true, scale, [&](int64_t j) {
          const double w = window ? get<double>(*window, {j}) : 1;
          return Complex<double>{get<double>(signal, {at[0], at[2] * hop + j}) * w, 0};
        }));
  });
}
void fft_to_real_reference(const TensorImpl& in, int dim, double scale, const TensorImpl& out) {
  const auto d = static_cast<size_t>(dim);
  const int64_t n = out.shape[dim], bins = n / 2 + 1;
  each_index(out.sizes(), [&](const Index& at) {
    Index from = at;
    const Complex<double> sum = direct_sum(n, at[d], false, scale, [&](int64_t j) {
      from[d] = j < bins ? j : n - j;
      const auto z = get<Complex<double>>(in, from);
      return Complex<double>{z.re, j < bins ? z.im : -z.im};
    });
    set(out, at, sum.re);
  });
}

}  // namespace strata::cpu
