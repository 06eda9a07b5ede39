// Transforms of many lines, of one long line, and of lines whose length has large prime factors.
#include "cpu/fft/lines.h"

#include <algorithm>

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace strata::cpu::fft {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements of a piece of parallel work
constexpr int64_t kLineBlock = 16;   // elements of all lines that are transposed while they are in the L1 cache

// Memory from the tensors' allocator, which keeps freed blocks: a new mapping would cost more than a transform.
template <class T> struct Buffer {
  explicit Buffer(int64_t n) : memory(make_tensor(Shape(&n, 1), dtype_of<T>)), start(memory.data<T>()) {}
  Tensor memory;
  T* start;
};
// Two arrays of n elements with separate parts: the data of run_passes, and its work space.
template <class T> struct Pairs {
  explicit Pairs(int64_t n) : memory(4 * n), data{memory.start, memory.start + n}, work{data.im + n, data.im + 2 * n} {}
  Buffer<T> memory;
  Parts<T> data, work;
};

template <class T> Complex<T> product(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Lines whose elements are not adjacent to those of the next line: lane v gets line v, element by element.
template <class T>
void gather_lines(const Complex<T>* in, const Lines& from, int64_t first, int count, int64_t n, bool exchange,
                  Parts<T> out) {
  const int width = lanes<T>();
  if (exchange) std::swap(out.re, out.im);
  for (int64_t block = 0; block < n; block += kLineBlock)
    for (int v = 0; v < width; ++v) {
      const Complex<T>* line = in + from.start(first + std::min(v, count - 1));
      for (int64_t i = block; i < std::min(n, block + kLineBlock); ++i) {
        out.re[i * width + v] = line[i * from.stride].re;
        out.im[i * width + v] = line[i * from.stride].im;
      }
    }
}
template <class T>
void scatter_lines(Parts<T> in, const Lines& to, int64_t first, int count, int64_t n, bool exchange, T scale,
                   Complex<T>* out) {
  const int width = lanes<T>();
  if (exchange) std::swap(in.re, in.im);
  for (int64_t block = 0; block < n; block += kLineBlock)
    for (int v = 0; v < count; ++v) {
      Complex<T>* line = out + to.start(first + v);
      for (int64_t i = block; i < std::min(n, block + kLineBlock); ++i)
        line[i * to.stride] = {in.re[i * width + v] * scale, in.im[i * width + v] * scale};
    }
}
// Whether lanes can be loaded from one place: `count` lines that start next to each other.
bool adjacent(const Lines& lines, int64_t first, int count) {
  return lines.inner_step == 1 && first % lines.inner_count + count <= lines.inner_count;
}

template <class T>
void transform_block(const Plan<T>& plan, const Complex<T>* in, const Lines& from, Complex<T>* out, const Lines& to,
                     int64_t first, int count, bool exchange, T scale, Pairs<T>& buffers) {
  if (adjacent(from, first, count))
    split_rows(in + from.start(first), from.stride, plan.n, count, exchange, buffers.data);
  else gather_lines(in, from, first, count, plan.n, exchange, buffers.data);
  const Parts<T> result = run_passes(plan, buffers.data, buffers.work);
  if (adjacent(to, first, count)) join_rows(result, plan.n, out + to.start(first), to.stride, count, exchange, scale);
  else scatter_lines(result, to, first, count, plan.n, exchange, scale, out);
}

// The four-step method: columns, twiddle factors, rows. Between the steps the elements are in blocks of [row][lane] of each
// column block, which the second step transposes.
template <class T>
void transform_long(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool exchange, T scale) {
  const LongPlan<T>& steps = *plan.long_plan;
  const int64_t rows = steps.columns->n, columns = steps.rows->n;
  const int width = lanes<T>();
  const int64_t column_blocks = (columns + width - 1) / width, row_blocks = (rows + width - 1) / width;
  const int64_t padded_rows = row_blocks * width;
  const Buffer<T> between(2 * column_blocks * padded_rows * width);
  T* const re = between.start;
  T* const im = re + column_blocks * padded_rows * width;
  parallel_for(column_blocks, std::max<int64_t>(1, kGrain / (rows * width)), [&](int64_t begin, int64_t end) {
    Pairs<T> buffers(rows * width);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * width;
      const int count = static_cast<int>(std::min<int64_t>(width, columns - first));
      split_rows(in + first, columns, rows, count, exchange, buffers.data);
      const Parts<T> result = run_passes(*steps.columns, buffers.data, buffers.work);
      multiply_twiddles(steps, first, count, result);
      const int64_t at = b * padded_rows * width;
      std::copy_n(result.re, rows * width, re + at);
      std::copy_n(result.im, rows * width, im + at);
      std::fill_n(re + at + rows * width, (padded_rows - rows) * width, T(0));
      std::fill_n(im + at + rows * width, (padded_rows - rows) * width, T(0));
    }
  });
  parallel_for(row_blocks, std::max<int64_t>(1, kGrain / (columns * width)), [&](int64_t begin, int64_t end) {
    Pairs<T> buffers(column_blocks * width * width);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * width;
      const int count = static_cast<int>(std::min<int64_t>(width, rows - first));
      for (int64_t c = 0; c < column_blocks; ++c) {
        const int64_t from = (c * padded_rows + first) * width, to = c * width * width;
        for (int v = 0; v < width; ++v)
          for (int w = 0; w < width; ++w) {
            buffers.data.re[to + w * width + v] = re[from + v * width + w];
            buffers.data.im[to + w * width + v] = im[from + v * width + w];
          }
      }
      const Parts<T> result = run_passes(*steps.rows, buffers.data, buffers.work);
      join_rows(result, columns, out + first, rows, count, exchange, scale);
    }
  });
}

template <class T>
void transform_bluestein(const Plan<T>& plan, const Complex<T>* in, int64_t in_stride, Complex<T>* out,
                         int64_t out_stride, bool exchange, T scale) {
  const Bluestein<T>& b = *plan.bluestein;
  const int64_t n = plan.n, padded = b.padded->n;
  const Buffer<Complex<T>> held(2 * padded);
  Complex<T>*data = held.start, *spectrum = data + padded;
  for (int64_t i = 0; i < n; ++i) {
    const Complex<T> z = in[i * in_stride];
    data[i] = product(exchange ? Complex<T>{z.im, z.re} : z, b.chirp[static_cast<size_t>(i)]);
  }
  std::fill_n(data + n, padded - n, Complex<T>{0, 0});
  transform_line(*b.padded, data, spectrum, true, T(1));
  for (int64_t i = 0; i < padded; ++i) spectrum[i] = product(spectrum[i], b.spectrum[static_cast<size_t>(i)]);
  transform_line(*b.padded, spectrum, data, false, scale);
  for (int64_t i = 0; i < n; ++i) {
    const Complex<T> z = product(data[i], b.chirp[static_cast<size_t>(i)]);
    out[i * out_stride] = exchange ? Complex<T>{z.im, z.re} : z;
  }
}
}  // namespace

template <class T>
void transform_lines(const Plan<T>& plan, const Complex<T>* in, const Lines& from, Complex<T>* out, const Lines& to,
                     int64_t count, bool forward, T scale) {
  if (count == 0 || plan.n == 0) return;
  // The backward transform is the forward one with the parts exchanged, before and after.
  const bool exchange = !forward;
  if (plan.bluestein) {
    parallel_for(count, std::max<int64_t>(1, kGrain / plan.bluestein->padded->n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        transform_bluestein(plan, in + from.start(i), from.stride, out + to.start(i), to.stride, exchange, scale);
    });
    return;
  }
  const int width = lanes<T>();
  if (plan.long_plan && from.stride == 1 && to.stride == 1 && count < width / 2) {
    for (int64_t i = 0; i < count; ++i) transform_long(plan, in + from.start(i), out + to.start(i), exchange, scale);
    return;
  }
  // Blocks do not cross the end of adjacent lines, if that leaves most of them full.
  const bool by_outer = from.inner_step == 1 && from.inner_count >= width && from.inner_count < count;
  const int64_t group = by_outer ? from.inner_count : count, groups = count / group;
  const int64_t blocks = (group + width - 1) / width;
  parallel_for(groups * blocks, std::max<int64_t>(1, kGrain / (plan.n * width)), [&](int64_t begin, int64_t end) {
    Pairs<T> buffers(plan.n * width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t within = i % blocks * width, first = i / blocks * group + within;
      const int some = static_cast<int>(std::min<int64_t>(width, group - within));
      transform_block(plan, in, from, out, to, first, some, exchange, scale, buffers);
    }
  });
}

namespace {
// Where some lines start.
template <class P, int kMost> struct Starts {
  P line[kMost];
  Starts(P origin, const Lines& lines, int64_t first, int count) {
    int64_t inner = first % lines.inner_count, outer = first / lines.inner_count;
    for (int v = 0; v < count; ++v) {
      line[v] = origin + outer * lines.outer_step + inner * lines.inner_step;
      if (++inner < lines.inner_count) continue;
      inner = 0;
      ++outer;
    }
  }
};
template <class T> constexpr int kMostPairLines = 2 * 64 / static_cast<int>(sizeof(T));  // of the widest vectors

// Lane v gets line v as its real part and line v + width as its imaginary part.
template <class T>
void gather_real(const T* in, const Lines& from, int64_t first, int count, int64_t n, const T* window, Parts<T> out) {
  const int width = lanes<T>();
  const Starts<const T*, kMostPairLines<T>> starts(in, from, first, count);
  const auto part = [&](int begin, int end, T* to) {
    if (end - begin == width && adjacent(from, first + begin, width)) {
      const T* row = starts.line[begin];
      for (int64_t i = 0; i < n; ++i) {
        const T w = window ? window[i] : T(1);
        for (int v = 0; v < width; ++v) to[i * width + v] = row[i * from.stride + v] * w;
      }
      return;
    }
    if (end - begin < width) std::fill_n(to, n * width, T(0));
    for (int64_t block = 0; block < n; block += kLineBlock)
      for (int v = begin; v < end; ++v) {
        const T* line = starts.line[v];
        T* lane = to + (v - begin);
        const int64_t stop = std::min(n, block + kLineBlock);
        if (window)
          for (int64_t i = block; i < stop; ++i) lane[i * width] = line[i * from.stride] * window[i];
        else
          for (int64_t i = block; i < stop; ++i) lane[i * width] = line[i * from.stride];
      }
  };
  part(0, std::min(count, width), out.re);
  part(width, std::max(count, width), out.im);
}
template <class T>
void scatter_real(Parts<T> in, const Lines& to, int64_t first, int count, int64_t n, T scale, Complex<T>* out) {
  const int width = lanes<T>();
  const int64_t bins = n / 2 + 1;
  if (count == 2 * width && adjacent(to, first, count)) {
    Complex<T>* row = out + to.start(first);
    for (int64_t k = 0; k < bins; ++k) split_pair(in, k, n, scale, row + k * to.stride);
    return;
  }
  Complex<T> rows[kLineBlock * kMostPairLines<T>];
  const Starts<Complex<T>*, kMostPairLines<T>> starts(out, to, first, count);
  for (int64_t block = 0; block < bins; block += kLineBlock) {
    const int64_t stop = std::min(bins, block + kLineBlock);
    for (int64_t k = block; k < stop; ++k) split_pair(in, k, n, scale, rows + (k - block) * 2 * width);
    for (int v = 0; v < count; ++v)
      for (int64_t k = block; k < stop; ++k) starts.line[v][k * to.stride] = rows[(k - block) * 2 * width + v];
  }
}
}  // namespace

template <class T>
void transform_real_lines(const Plan<T>& plan, const T* in, const Lines& from, const T* window, Complex<T>* out,
                          const Lines& to, int64_t count, T scale) {
  const int width = 2 * lanes<T>();
  const bool by_outer = to.inner_step == 1 && to.inner_count >= width && to.inner_count < count;
  const int64_t group = by_outer ? to.inner_count : count, groups = count / group;
  const int64_t blocks = (group + width - 1) / width;
  parallel_for(groups * blocks, std::max<int64_t>(1, kGrain / (plan.n * width)), [&](int64_t begin, int64_t end) {
    Pairs<T> buffers(plan.n * width / 2);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t within = i % blocks * width, first = i / blocks * group + within;
      const int some = static_cast<int>(std::min<int64_t>(width, group - within));
      gather_real(in, from, first, some, plan.n, window, buffers.data);
      const Parts<T> result = run_passes(plan, buffers.data, buffers.work);
      scatter_real(result, to, first, some, plan.n, scale, out);
    }
  });
}

template <class T>
void transform_line(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool forward, T scale) {
  const Lines one{1, 0, 0, 1};
  transform_lines(plan, in, one, out, one, 1, forward, scale);
}

template void transform_lines(const Plan<float>&, const Complex<float>*, const Lines&, Complex<float>*, const Lines&,
                              int64_t, bool, float);
template void transform_lines(const Plan<double>&, const Complex<double>*, const Lines&, Complex<double>*, const Lines&,
                              int64_t, bool, double);
template void transform_real_lines(const Plan<float>&, const float*, const Lines&, const float*, Complex<float>*,
                                   const Lines&, int64_t, float);
template void transform_real_lines(const Plan<double>&, const double*, const Lines&, const double*, Complex<double>*,
                                   const Lines&, int64_t, double);
template void transform_line(const Plan<float>&, const Complex<float>*, Complex<float>*, bool, float);
template void transform_line(const Plan<double>&, const Complex<double>*, Complex<double>*, bool, double);

}  // namespace strata::cpu::fft
