// Copies elements of a strided or broadcast view, in the order of a walk, into a contiguous buffer.
#pragma once
#include "cpu/movement/runs.h"
#include "record/walk.h"

namespace strata::cpu {

// n elements of view k, starting at an index, over as many rows as needed.
template <class T> void gather(const Walk& w, int k, const int64_t* start, int64_t n, T* to) {
  int64_t index[kMaxDims];
  std::copy_n(start, w.ndim, index);
  const Walk::View& v = w.view[k];
  dispatch_dtype(v.type, [&]<class S>() {
    const int last = w.ndim - 1;
    const int64_t step = v.step[last];
    while (n > 0) {
      const int64_t run = std::min(n, w.inner() - index[last]);
      const S* p = reinterpret_cast<const S*>(v.data) + w.offset(k, index);
      if (step == 0 && run == w.inner() && last > 0) {  // one value per row: several rows at once
        const int64_t rows = std::min(n / run, w.shape[last - 1] - index[last - 1]);
        repeat_each(p, v.step[last - 1], rows, run, to);
        to += rows * run;
        n -= rows * run;
        index[last - 1] += rows - 1;
        w.advance(index, run);
        continue;
      }
      if (step == 1)
        for (int64_t i = 0; i < run; ++i) to[i] = convert_element<T>(p[i]);
      else if (step == 0) std::fill_n(to, run, convert_element<T>(*p));
      else
        for (int64_t i = 0; i < run; ++i) to[i] = convert_element<T>(p[i * step]);
      to += run;
      n -= run;
      w.advance(index, run);
    }
  });
}

}  // namespace strata::cpu
