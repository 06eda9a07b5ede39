// Transforms of lines of complex numbers, several at a time: SIMD lane v holds line v, so that every pass is vertical.
#pragma once
#include "cpu/fft/plan.h"

namespace strata::cpu::fft {

// Where the elements of a set of lines are: line i starts at outer * outer_step + inner * inner_step, where i = outer *
// inner_count + inner; its elements are `stride` apart.
struct Lines {
  int64_t inner_count, inner_step, outer_step, stride;
  int64_t start(int64_t line) const { return line / inner_count * outer_step + line % inner_count * inner_step; }
};

// out = the transform of each of `count` lines times `scale`; exp(-…) forward, exp(+…) backward.
template <class T>
void transform_lines(const Plan<T>& plan, const Complex<T>* in, const Lines& from, Complex<T>* out, const Lines& to,
                     int64_t count, bool forward, T scale);
// One contiguous line; uses several threads if it is long.
template <class T>
void transform_line(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool forward, T scale);

// out = the first n / 2 + 1 elements of the forward transform of each of `count` real lines, times `window` (null: ones) and
// `scale`. Two lines are transformed as one complex line. For lengths whose plan has stages.
template <class T>
void transform_real_lines(const Plan<T>& plan, const T* in, const Lines& from, const T* window, Complex<T>* out,
                          const Lines& to, int64_t count, T scale);

// Stockham passes over [n][lanes] elements with separate real and imaginary parts. `work` is as large as the data: the result
// is in one of them, which is returned.
template <class T> struct Parts { T *re, *im; };
template <class T> Parts<T> run_passes(const Plan<T>& plan, Parts<T> data, Parts<T> work);
template <class T> int lanes();
// Between `count` <= lanes() adjacent complex numbers and parts; and for n rows that are `stride` apart.
template <class T>
void split_rows(const Complex<T>* in, int64_t stride, int64_t n, int count, bool exchange, Parts<T> out);
template <class T>
void join_rows(Parts<T> in, int64_t n, Complex<T>* out, int64_t stride, int count, bool exchange, T scale);
// Row k of the spectra of two real lines per lane, from rows k and n - k of the transform of first + i second: `lanes` complex
// numbers of the first lines, then as many of the second.
template <class T> void split_pair(Parts<T> in, int64_t k, int64_t n, T scale, Complex<T>* out);
// Multiplies row k of column block j by the twiddle factors of a long plan.
template <class T> void multiply_twiddles(const LongPlan<T>& plan, int64_t first_column, int count, Parts<T> data);

}  // namespace strata::cpu::fft
