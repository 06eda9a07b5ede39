// A row of the result is a row of the input, with some elements before and after it: one pass over memory, whatever the
// number of padded dimensions.
#include "cpu/movement/edges.h"

#include <algorithm>
#include <numeric>

#include "base/parallel.h"
#include "cpu/movement/runs.h"
#include "cpu/reference.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements of a piece of parallel work

// The longest run of consecutive indices: the part of a row that is copied as it is.
struct Run {
  int64_t begin = 0, length = 0;
  explicit Run(const std::vector<int64_t>& source) {
    const auto n = static_cast<int64_t>(source.size());
    for (int64_t i = 0, from = 0; i < n; ++i) {
      if (i > from && source[static_cast<size_t>(i)] != source[static_cast<size_t>(i - 1)] + 1) from = i;
      if (i - from + 1 > length) {
        begin = from;
        length = i - from + 1;
      }
    }
  }
};

// Rows along the last dimension; the other padded dimensions and those before them count rows.
struct Rows {
  const EdgeSources& sources;
  int dims;
  std::vector<int64_t> in_size, out_size;
  int64_t in_length, out_length;
  Rows(const TensorImpl& in, const EdgeSources& s) : sources(s), dims(static_cast<int>(s.size())) {
    for (int i = 0; i < dims; ++i) {
      in_size.push_back(in.shape[in.ndim - dims + i]);
      out_size.push_back(static_cast<int64_t>(s[static_cast<size_t>(i)].size()));
    }
    in_length = in_size.back();
    out_length = out_size.back();
  }
};

// Iterates over rows of the result: `row` is the row of the input from which the current one is copied.
class SourceRows {
 public:
  SourceRows(const Rows& rows, int64_t index) : rows_(rows), outer_(rows.dims - 1) {
    for (int i = outer_; i-- > 0;) {
      at_[i] = index % rows.out_size[static_cast<size_t>(i)];
      index /= rows.out_size[static_cast<size_t>(i)];
    }
    plane_ = index;
    find();
  }
  // Rows from the current one on whose sources are one after the other.
  int64_t together() const {
    if (outer_ == 0) return INT64_MAX;
    const auto d = static_cast<size_t>(outer_ - 1);
    const std::vector<int64_t>& source = rows_.sources[d];
    auto i = static_cast<size_t>(at_[d]), first = i;
    while (i + 1 < source.size() && source[i + 1] == source[i] + 1) ++i;
    return static_cast<int64_t>(i - first) + 1;
  }
  void advance(int64_t count) {  // at most to the first row after the current dimension
    if (outer_ == 0) {
      plane_ += count;
      return find();
    }
    at_[outer_ - 1] += count - 1;
    for (int i = outer_; i-- > 0;) {
      if (++at_[i] < rows_.out_size[static_cast<size_t>(i)]) return find();
      at_[i] = 0;
    }
    ++plane_;
    find();
  }
  int64_t row = 0;

 private:
  void find() {
    row = plane_;
    for (int i = 0; i < outer_; ++i) {
      const auto d = static_cast<size_t>(i);
      row = row * rows_.in_size[d] + rows_.sources[d][static_cast<size_t>(at_[i])];
    }
  }
  const Rows& rows_;
  int outer_;
  int64_t plane_, at_[kMaxDims];
};

// For each element of a dimension of the input, the elements of the result that are copies of it.
struct Copies {
  std::vector<int64_t> first, places;  // those of element i: places[first[i]] to places[first[i + 1]]
  Copies(const std::vector<int64_t>& source, int64_t n) : first(static_cast<size_t>(n + 1)), places(source.size()) {
    for (const int64_t i : source) ++first[static_cast<size_t>(i + 1)];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<int64_t> next(first);
    for (size_t k = 0; k < source.size(); ++k)
      places[static_cast<size_t>(next[static_cast<size_t>(source[k])]++)] = static_cast<int64_t>(k);
  }
};
}  // namespace

void pad_edges(const TensorImpl& in, const EdgeSources& sources, const TensorImpl& out) {
  if (out.numel == 0) return;
  dispatch_size(in.dtype, [&]<class T>() {
    const Tensor from = staged(in, in.dtype), to = out.contiguous ? borrow(out) : make_tensor(out.sizes(), out.dtype);
    const T* x = reinterpret_cast<const T*>(from.bytes());
    T* y = reinterpret_cast<T*>(to.bytes());
    const Rows rows(in, sources);
    const std::vector<int64_t>& last = sources.back();
    const Run run(last);
    parallel_for(out.numel / rows.out_length, std::max<int64_t>(1, kGrain / rows.out_length),
                 [&](int64_t begin, int64_t end) {
                   SourceRows from_row(rows, begin);
                   constexpr int64_t size = sizeof(T);
                   const int64_t *at = last.data(), stop = run.begin + run.length, first = at[run.begin];
                   for (int64_t r = begin, some; r < end; r += some, from_row.advance(some)) {
                     some = std::min(end - r, from_row.together());
                     const T* source = x + from_row.row * rows.in_length;
                     T* row = y + r * rows.out_length;
                     copy_runs(row + run.begin, rows.out_length * size, source + first, rows.in_length * size, some,
                               static_cast<size_t>(run.length * size));
                     for (int64_t k = 0; k < some; ++k, row += rows.out_length, source += rows.in_length) {
                       for (int64_t i = 0; i < run.begin; ++i) row[i] = source[at[i]];
                       for (int64_t i = stop; i < rows.out_length; ++i) row[i] = source[at[i]];
                     }
                   }
                 });
    if (!out.contiguous) copy_values(out, *to);
  });
}

void sum_edges(const TensorImpl& g, const EdgeSources& sources, const TensorImpl& out) {
  if (out.numel == 0) return;
  dispatch_float(out.dtype, [&]<class T>() {
    const In<T> from(g);
    const Tensor place = borrow(out);
    const Out<T> to(place);
    const Rows rows(out, sources);
    std::vector<Copies> copies;
    for (size_t d = 0; d < sources.size(); ++d) copies.emplace_back(sources[d], rows.in_size[d]);
    const std::vector<int64_t>& last = sources.back();
    const Run run(last);
    const int64_t shift = run.length ? last[static_cast<size_t>(run.begin)] : 0;
    // The rows of g that were copied from row r, in order, which does not depend on the number of threads.
    parallel_for(out.numel / rows.in_length, std::max<int64_t>(1, kGrain / rows.in_length),
                 [&](int64_t begin, int64_t end) {
                   std::vector<int64_t> found, next;
                   for (int64_t r = begin; r < end; ++r) {
                     found.assign(1, 0);
                     int64_t rest = r, scale = 1;
                     for (int i = rows.dims - 1; i-- > 0;) {
                       const auto d = static_cast<size_t>(i);
                       const auto at = static_cast<size_t>(rest % rows.in_size[d]);
                       next.clear();
                       for (int64_t k = copies[d].first[at]; k < copies[d].first[at + 1]; ++k)
                         for (const int64_t f : found)
                           next.push_back(f + copies[d].places[static_cast<size_t>(k)] * scale);
                       found.swap(next);
                       scale *= rows.out_size[d];
                       rest /= rows.in_size[d];
                     }
                     T* row = to.get() + r * rows.in_length;
                     std::fill_n(row, rows.in_length, T(0));
                     for (const int64_t f : found) {
                       const T* source = from.get() + (f + rest * scale) * rows.out_length;
                       const T* middle = source + run.begin;
                       for (int64_t i = 0; i < run.length; ++i) row[shift + i] += middle[i];
                       for (int64_t i = 0; i < run.begin; ++i) row[last[static_cast<size_t>(i)]] += source[i];
                       for (int64_t i = run.begin + run.length; i < rows.out_length; ++i)
                         row[last[static_cast<size_t>(i)]] += source[i];
                     }
                   }
                 });
    to.finish();
  });
}

namespace {
// f(index in the input, index in the result)
template <class F> void each_edge(Shape out, const EdgeSources& sources, const F& f) {
  each_index(out, [&](const Index& at) {
    Index from = at;
    for (size_t i = 0; i < sources.size(); ++i) {
      const size_t d = out.size() - sources.size() + i;
      from[d] = sources[i][static_cast<size_t>(at[d])];
    }
    f(from, at);
  });
}
}  // namespace

void pad_edges_reference(const TensorImpl& in, const EdgeSources& sources, const TensorImpl& out) {
  each_edge(out.sizes(), sources, [&](const Index& from, const Index& at) { put(out, at, in, from); });
}
void sum_edges_reference(const TensorImpl& g, const EdgeSources& sources, const TensorImpl& out) {
  const Tensor sums = make_tensor(out.sizes(), DType::F64);
  fill_reference(*sums, 0.0);
  each_edge(g.sizes(), sources, [&](const Index& from, const Index& at) {
    set(*sums, from, get<double>(*sums, from) + get<double>(g, at));
  });
  each_index(out.sizes(), [&](const Index& at) { put(out, at, *sums, at); });
}

}  // namespace strata::cpu
