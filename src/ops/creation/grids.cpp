// Diagonals, triangles and products of index ranges.
#include "strata/args/creation/grids.h"
#include "strata/ops/creation/grids.h"

#include <algorithm>
#include <cstring>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "cpu/reference.h"
#include "cuda/indexing/indexing.h"
#include "ops/geometry.h"
#include "ops/indexing/indexing.h"
#include "ops/transfer.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/creation/ranges.h"
#include "strata/ops/indexing/indexing.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/joins.h"
#include "strata/ops/movement/pad.h"
#include "strata/ops/movement/repeat.h"
#include "strata/ops/movement/strided.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/arithmetic.h"
#include "strata/ops/pointwise/compare.h"
#include "strata/ops/pointwise/power.h"
#include "strata/ops/reduce/minmax.h"

namespace strata {
namespace {

// Keeps the columns of each row on one side of a diagonal and zeroes the others. Works in place.
template <bool kLower> void run_triangle(const Call& c) {
  const args::tril a(c);
  const TensorImpl &in = a.input(), &out = *c.out();
  if (out.numel == 0) return;
  const int64_t rows = in.shape[in.ndim - 2], cols = in.shape[in.ndim - 1],
                k = std::clamp(a.diagonal(), -rows - cols, rows + cols);
  dispatch_size(out.dtype, [&]<class T> {
    parallel_for(out.numel / cols, std::max<int64_t>(1, (1 << 14) / cols), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        int64_t rest = line, from = 0, to = 0;
        for (int d = in.ndim - 1; d-- > 0; rest /= in.shape[d]) {
          from += rest % in.shape[d] * in.strides[d];
          to += rest % in.shape[d] * out.strides[d];
        }
        const int64_t r = line % rows, sa = in.strides[in.ndim - 1], sb = out.strides[in.ndim - 1];
        const int64_t keep_from = kLower ? 0 : std::clamp<int64_t>(r + k, 0, cols),
                      keep_to = kLower ? std::clamp<int64_t>(r + k + 1, 0, cols) : cols;
        const T* source = reinterpret_cast<const T*>(in.data) + from;
        T* target = reinterpret_cast<T*>(out.data) + to;
        if (sa == 1 && sb == 1) {
          std::fill_n(target, keep_from, T{});
          if (keep_to > keep_from)
            std::memmove(target + keep_from, source + keep_from, static_cast<size_t>(keep_to - keep_from) * sizeof(T));
          const int64_t after = std::max(keep_from, keep_to);
          std::fill_n(target + after, cols - after, T{});
          continue;
        }
        for (int64_t j = 0; j < keep_from; ++j) target[j * sb] = T{};
        for (int64_t j = keep_from; j < keep_to; ++j) target[j * sb] = source[j * sa];
        for (int64_t j = std::max(keep_from, keep_to); j < cols; ++j) target[j * sb] = T{};
      }
    });
  });
}
template <bool kLower> void plain_triangle(const Call& c) {
  const args::tril a(c);
  const TensorImpl &in = a.input(), &out = *c.out();
  const auto row = static_cast<size_t>(in.ndim) - 2;
  cpu::each_index(out.sizes(), [&](const cpu::Index& at) {
    const int64_t above = at[row + 1] - at[row];
    if (kLower ? above <= a.diagonal() : above >= a.diagonal()) cpu::put(out, at, in, at);
    else cpu::set<int64_t>(out, at, 0);
  });
}
void infer_triangle(const Call& c) {
  const args::tril a(c);
  const TensorImpl& input = a.input();
  STRATA_CHECK(input.ndim >= 2, Runtime, "{}: input tensor must have at least 2 dimensions, got {}", c.op.name,
               input.ndim);
  c.outs[0]->dtype = input.dtype;
  c.outs[0]->device = input.device;
  c.outs[0]->set_shape(input.sizes());
  set_layout(*c.outs[0], std::nullopt, &input, c.op.name.c_str());
}

// How many combinations of r out of n there are; INT64_MAX for any larger number.
int64_t combination_count(int64_t n, int64_t r, bool repeat) {
  if (n == 0 || (!repeat && r > n)) return 0;
  int64_t total = n;
  if (repeat && __builtin_add_overflow(n - 1, r, &total)) return INT64_MAX;
  const int64_t least = std::min(r, total - r);
  __int128 count = 1;
  for (int64_t i = 1; i <= least && count < INT64_MAX; ++i) count = count * (total - least + i) / i;
  return static_cast<int64_t>(std::min<__int128>(count, INT64_MAX));
}

// Indices of combinations of r out of n in lexicographic order, r to a row.
Tensor combine(int64_t n, int64_t r, bool repeat) {
  const int64_t rows = combination_count(n, r, repeat);
  int64_t items;
  if (__builtin_mul_overflow(rows, r, &items)) items = INT64_MAX;
  check_host_memory(items, 2 * sizeof(int64_t), "combinations");
  Tensor found = make_tensor(Shape(std::array{rows, r}), DType::I64);
  int64_t *out = found.data<int64_t>(), *const end = out + items;
  for (int64_t* row = out; row != end; row += r) {
    poll_interrupt();
    if (row == out) {
      for (int64_t i = 0; i < r; ++i) row[i] = repeat ? 0 : i;
      continue;
    }
    const int64_t* before = row - r;
    int64_t last = r - 1;  // the last place that can still grow
    while (before[last] == (repeat ? n - 1 : n - r + last)) --last;
    std::copy_n(before, last, row);
    for (int64_t i = last; i < r; ++i) row[i] = before[last] + 1 + (repeat ? 0 : i - last);
  }
  return placed(found);
}

std::vector<Tensor> grid(TensorList tensors, std::string_view indexing) {
  STRATA_CHECK(!tensors.empty(), Runtime, "meshgrid: expects a non-empty TensorList");
  STRATA_CHECK(indexing == "ij" || indexing == "xy", Runtime,
               "meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {}", indexing);
  const bool swap = indexing == "xy" && tensors.size() >= 2;
  std::vector<Tensor> in(tensors.begin(), tensors.end());
  if (swap) std::swap(in[0], in[1]);
  Dims shape;
  for (const Tensor& t : in) {
    STRATA_CHECK(t.dim() <= 1, Runtime, "meshgrid: expected scalar or 1D tensor in the tensor list but got shape {}",
                 to_string(t.shape()));
    STRATA_CHECK(t.dtype() == in[0].dtype(), Runtime, "meshgrid: expects all tensors to have the same dtype");
    shape.push(t.numel());
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < in.size(); ++i) {
    Dims own;
    for (size_t d = 0; d < in.size(); ++d) own.push(d == i ? shape[d] : 1);
    out.push_back(expand(reshape(in[i], own), shape));
  }
  if (swap) std::swap(out[0], out[1]);
  return out;
}

void check_unravelled(const Tensor& flat, IntList shape, int64_t numel) {
  if (flat.numel() == 0 || flat.is_meta()) return;
  for (const Tensor& end : {amin(flat), amax(flat)}) {
    const auto v = end.item<int64_t>();
    STRATA_CHECK(v >= -numel && v < numel, Value, "unravel_index: index {} is out of range for shape {}", v,
                 to_string(shape));
  }
}

void unravel(const Tensor& flat, IntList shape, int64_t numel, const std::vector<Tensor>& out) {
  const int64_t* from = flat.data<int64_t>();
  std::vector<int64_t*> to;
  to.reserve(out.size());
  for (const Tensor& t : out) to.push_back(t.data<int64_t>());
  const bool few = numel <= UINT32_MAX;  // divisions of 32 bits take a third of the time
  parallel_for(flat.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t v = from[i] < 0 ? from[i] + numel : from[i];
      for (size_t d = shape.size; d-- > 1;) {
        const int64_t n = shape[d], rest = few ? static_cast<uint32_t>(v) / static_cast<uint32_t>(n) : v / n;
        to[d][i] = v - rest * n;
        v = rest;
      }
      if (shape.size) to[0][i] = v;
    }
  });
}

std::vector<Tensor> unravel_on_device(const Tensor& flat, IntList shape, int64_t numel) {
  std::vector<Tensor> out(shape.size);
  Tensor rest = where(lt(flat, 0), add(flat, numel), flat);
  for (size_t d = shape.size; d-- > 0; rest = div(rest, std::max<int64_t>(shape[d], 1), "floor"))
    out[d] = remainder(rest, std::max<int64_t>(shape[d], 1));
  return out;
}

// f(matrix, its first row, its first column)
template <class F> void each_block(TensorList matrices, const F& f) {
  int64_t row = 0, column = 0;
  for (const Tensor& t : matrices) {
    f(t, row, column);
    row += t->shape[0];
    column += t->shape[1];
  }
}
void run_block_diag(const Call& c) {
  fill_values(*c.out(), 0.0);
  each_block(args::_block_diag(c).tensors(), [&](const Tensor& t, int64_t row, int64_t column) {
    const Geometry rows = slice_geometry(Geometry(*c.out()), 0, row, row + t->shape[0], 1);
    copy_values(*show(c.out(), slice_geometry(rows, 1, column, column + t->shape[1], 1)), *t);
  });
}
void plain_block_diag(const Call& c) {
  cpu::fill_reference(*c.out(), 0.0);
  each_block(args::_block_diag(c).tensors(), [&](const Tensor& t, int64_t row, int64_t column) {
    cpu::each_index(t.shape(), [&](const cpu::Index& at) {
      cpu::put(*c.out(), {row + at[0], column + at[1]}, *t, at);
    });
  });
}
}  // namespace

STRATA_OP(tril, "tril(Tensor input, int diagonal=0) -> Tensor")
  .doc(
    "The lower triangle of each matrix; zeros above the diagonal.\n\n>>> strata.ones(2, 2).tril()\ntensor([[1., 0.],\n "
    "       [1., 1.]])")
  .infer(infer_triangle)
  .kernel("rows", run_triangle<true>)
  .kernel("reference", plain_triangle<true>)
  .cuda("triangle", [](const args::tril& c,
                       Workspace& workspace) { cuda::triangle(*c.out(), c.input(), true, c.diagonal(), workspace); })
  .grad([](const grads::tril& c, const Tensor& g) -> Grads { return {tril(g, c.diagonal())}; })
  .updates()
  .dtypes(kStorageTypes)
  .samples({"f(3,3)", "f(3,4), 1", "f(2,4,3), -1", "f(3,3), -5", "f(0,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");
STRATA_OP(triu, "triu(Tensor input, int diagonal=0) -> Tensor")
  .doc(
    "The upper triangle of each matrix; zeros below the diagonal.\n\n>>> strata.ones(2, 2).triu()\ntensor([[1., 1.],\n "
    "       [0., 1.]])")
  .infer(infer_triangle)
  .kernel("rows", run_triangle<false>)
  .kernel("reference", plain_triangle<false>)
  .cuda("triangle", [](const args::triu& c,
                       Workspace& workspace) { cuda::triangle(*c.out(), c.input(), false, c.diagonal(), workspace); })
  .grad([](const grads::triu& c, const Tensor& g) -> Grads { return {triu(g, c.diagonal())}; })
  .updates()
  .dtypes(kStorageTypes)
  .samples({"f(3,3)", "f(3,4), 1", "f(2,4,3), -1", "f(3,3), 5", "f(0,3)"})
  .error("f(3)", ErrorKind::Runtime, "at least 2 dimensions");

STRATA_OP(diag_embed, "diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor")
  .doc(
    "Zeros with the last dimension of input on a diagonal of two new ones.\n\n>>> "
    "strata.ones(2).diag_embed()\ntensor([[1., 0.],\n        [0., 1.]])")
  .composite([](const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
    STRATA_CHECK(input.dim() >= 1, Runtime, "diag_embed: expected an input with at least one dimension");
    const int n = input.dim() + 1, a = normalize_dim(dim1, n, "diag_embed"), b = normalize_dim(dim2, n, "diag_embed");
    STRATA_CHECK(a != b, Runtime, "diag_embed: diagonal dimensions cannot be identical {}, {}", dim1, dim2);
    const int64_t size = (Checked(input.size(-1)) + (offset < 0 ? Checked(0) - offset : Checked(offset))).get();
    Dims shape;
    for (int d = 0, next = 0; d < n; ++d) shape.push(d == a || d == b ? size : input->shape[next++]);
    checked_numel(shape);
    const Geometry g = diagonal_geometry(Geometry::contiguous(shape), offset, a, b);
    return unview(input, shape, g.stride, g.offset);
  })
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(3)", "f(2,3), 1", "f(2,3), -1, 0, 2", "f(0)"})
  .error("f(3), 0, 1, 1", ErrorKind::Runtime, "cannot be identical")
  .error("f()", ErrorKind::Runtime, "at least one");
STRATA_OP(diag, "diag(Tensor input, int diagonal=0) -> Tensor")
  .doc(
    "A matrix with a vector on its diagonal, or the diagonal of a matrix.\n\n>>> strata.tensor([[1, 2], [3, "
    "4]]).diag()\ntensor([1, 4])")
  .composite([](const Tensor& input, int64_t diagonal_) {
    STRATA_CHECK(input.dim() == 1 || input.dim() == 2, Runtime, "diag: supports 1D or 2D tensors, got {}D",
                 input.dim());
    return input.dim() == 1 ? diag_embed(input, diagonal_, 0, 1) : clone(diagonal(input, diagonal_, 0, 1));
  })
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(3)", "f(3), -1", "f(3,4), 1", "f(3,4)"})
  .error("f(2,2,2)", ErrorKind::Runtime, "1D or 2D");
STRATA_OP(diagflat, "diagflat(Tensor input, int offset=0) -> Tensor")
  .doc(
    "A matrix with all elements of input on its diagonal.\n\n>>> strata.ones(2).diagflat()\ntensor([[1., 0.],\n        "
    "[0., 1.]])")
  .composite([](const Tensor& input, int64_t offset) { return diag_embed(reshape(input, -1), offset, 0, 1); })
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"f(3)", "f(2,2), 1", "f()"});
STRATA_OP(_block_diag, "_block_diag(Tensor[] tensors) -> Tensor")
  .doc("block_diag of matrices of one dtype.")
  .helper()
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .infer([](const args::_block_diag& c) {
    const TensorList tensors = c.tensors();
    STRATA_CHECK(!tensors.empty(), Runtime, "block_diag: expected a non-empty list of matrices");
    Checked shape[2] = {0, 0};
    for (const Tensor& t : tensors) {
      STRATA_CHECK(t.dim() == 2 && t.dtype() == tensors[0].dtype(), Runtime,
                   "block_diag: expected matrices of one dtype, got a {} tensor of shape {}", name_of(t.dtype()),
                   to_string(t.shape()));
      for (int d = 0; d < 2; ++d) shape[d] += t->shape[d];
    }
    const int64_t sizes[] = {shape[0].get(), shape[1].get()};
    c.out()->dtype = tensors[0].dtype();
    c.out()->device = tensors[0].device();
    c.out()->set_shape(Shape(sizes, 2));
  })
  .kernel("copies", run_block_diag)
  .kernel("reference", plain_block_diag)
  .cuda("copies", run_block_diag)
  .handles_complex()
  .grad([](const grads::_block_diag& c, const Tensor& g) -> Grads {
    grads::_block_diag::Result out;
    int64_t row = 0, column = 0;
    const TensorList tensors = c.meta_of_tensors();
    for (uint32_t k = 0; k < tensors.size(); ++k) {
      const TensorImpl& t = *tensors[k];
      out.tensors.push_back(narrow(narrow(g, 0, row, t.shape[0]), 1, column, t.shape[1]));
      row += t.shape[0];
      column += t.shape[1];
    }
    return out;
  })
  .samples({"[f(2,3), f(1,2)]", "[f(2,0), f(1,2)]", "[f(3,2)]"})
  .error("[f(2), f(1,2)]", ErrorKind::Runtime, "expected matrices");

STRATA_OP(block_diag, "block_diag(Tensor[] tensors) -> Tensor")
  .doc(
    "A matrix with the given matrices along its diagonal.\n\n>>> strata.block_diag([strata.ones(1, 2), strata.ones(1, "
    "1)])\ntensor([[1., 1., 0.],\n        [0., 0., 1.]])")
  .composite([](TensorList tensors) {
    DType dtype = tensors.empty() ? default_dtype() : tensors[0].dtype();
    std::vector<Tensor> rows;
    for (const Tensor& t : tensors) {
      STRATA_CHECK(t.dim() <= 2, Runtime, "block_diag: input tensors must have 2 or fewer dimensions, got {}", t.dim());
      dtype = promote(dtype, t.dtype());
      rows.push_back(atleast_2d(t));
    }
    if (rows.empty()) return empty({1, 0});
    for (Tensor& t : rows) t = to(t, dtype);
    return _block_diag(rows);
  })
  .no_out()
  .dtypes(kNumericTypes)
  .add_dtypes(kComplexTypes)
  .samples({"[f(2,3), f(1,2)]", "[f(2), f()]", "[f(2,0), f(1,2)]"})
  .error("[f(2,2,2)]", ErrorKind::Runtime, "2 or fewer");

STRATA_OP(meshgrid, "meshgrid(Tensor(a)[] tensors, *, str? indexing=None) -> Tensor(a)[]")
  .doc(
    "Views of each vector expanded over the grid of all of them; indexing 'ij' (matrix order) or 'xy'.\n\n>>> "
    "strata.meshgrid(strata.arange(2), strata.arange(3), indexing='ij')[0]\ntensor([[0, 0, 0],\n        [1, 1, 1]])")
  .composite([](TensorList tensors, std::optional<std::string_view> indexing) {
    return grid(tensors, indexing.value_or("ij"));
  })
  .dtypes(kStorageTypes)
  .samples({"[f(2), f(3)]", "[f(2), f(3), f()], indexing='xy'"})
  .error("[f(2), f(3)], indexing='ji'", ErrorKind::Runtime, "must be one of")
  .error("[f(2,2)]", ErrorKind::Runtime, "1D tensor");
STRATA_OP(cartesian_prod, "cartesian_prod(Tensor(a)[] tensors) -> Tensor(a)")
  .doc(
    "All combinations of one element of each vector, one row each.\n\n>>> strata.cartesian_prod(strata.arange(2), "
    "strata.arange(2))\ntensor([[0, 0],\n        [0, 1],\n        [1, 0],\n        [1, 1]])")
  .composite([](TensorList tensors) {
    for (const Tensor& t : tensors)
      STRATA_CHECK(t.dim() == 1, Runtime, "cartesian_prod: expect a 1D vector, but got shape {}", to_string(t.shape()));
    if (tensors.size() == 1) return tensors[0];
    std::vector<Tensor> columns = grid(tensors, "ij");
    for (Tensor& t : columns) t = reshape(t, -1);
    return stack(columns, 1);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"[f(2), f(3)]", "[f(2)]"})
  .error("[f(2,2)]", ErrorKind::Runtime, "1D vector");
STRATA_OP(combinations, "combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor")
  .doc(
    "All combinations of r elements of a vector, one row each.\n\n>>> "
    "strata.combinations(strata.arange(3))\ntensor([[0, 1],\n        [0, 2],\n        [1, 2]])")
  .composite([](const Tensor& input, int64_t r, bool with_replacement) {
    STRATA_CHECK(input.dim() == 1, Runtime, "combinations: expect a 1D vector, but got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(r >= 0, Runtime, "combinations: expect a non-negative number, but got {}", r);
    if (r == 0) return empty(0, input.dtype());
    const Tensor found = input.is_meta() ? empty({combination_count(input.numel(), r, with_replacement), r}, DType::I64)
                                         : combine(input.numel(), r, with_replacement);
    return index_at(input, {found}, 0);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(4)", "f(4), 3", "f(3), 2, True", "f(2), 3", "f(1), 2, True", "f(4), 4"})
  .error("f(2,2)", ErrorKind::Runtime, "1D vector")
  .error("f(3), 4294967296, True", ErrorKind::OutOfMemory, "not enough memory")
  .error("f(80), 40", ErrorKind::OutOfMemory, "not enough memory");
STRATA_OP(vander, "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor")
  .doc(
    "The powers of a vector as columns.\n\n>>> strata.vander(strata.tensor([1, 2]), 3)\ntensor([[1, 1, 1],\n        "
    "[4, 2, 1]])")
  .composite([](const Tensor& x, std::optional<int64_t> N, bool increasing) {
    STRATA_CHECK(x.dim() == 1, Runtime, "vander: x must be a one-dimensional tensor, got shape {}",
                 to_string(x.shape()));
    const int64_t n = N.value_or(x.numel());
    STRATA_CHECK(n >= 0, Runtime, "vander: N must be non-negative, got {}", n);
    checked_numel(std::array{n, x.numel()});
    const Tensor base = is_floating(x.dtype()) ? x : to(x, DType::I64);
    check_host_memory(n, kObjectBytes + (x.is_meta() ? 0 : static_cast<size_t>(x.numel()) * size_of(base.dtype())),
                      "vander");
    std::vector<Tensor> columns;
    for (int64_t k = 0; k < n; poll_interrupt(), ++k) columns.push_back(pow(base, increasing ? k : n - 1 - k));
    return columns.empty() ? empty({x.numel(), 0}, x.dtype()) : stack(columns, 1);
  })
  .no_method()
  .no_out()
  .dtypes({kFloat32, kFloat64, kInt64})
  .samples({"f(3)", "f(3), 2", "f(3), 4, True", "f(3), 0"})
  .error("f(2,2)", ErrorKind::Runtime, "one-dimensional")
  .error("f(3), 2147483648", ErrorKind::OutOfMemory, "not enough memory");
STRATA_OP(unravel_index, "unravel_index(Tensor indices, int[] shape) -> Tensor[]")
  .doc(
    "Converts flat indices to one tensor of indices per dimension.\n\n>>> strata.unravel_index(strata.tensor([3]), (2, "
    "2))\n(tensor([1]), tensor([1]))")
  .composite([](const Tensor& indices, IntList shape) {
    STRATA_CHECK(is_integral(indices.dtype(), false), Type,
                 "unravel_index: expected indices to be integer dtype, but got {}", name_of(indices.dtype()));
    for (int64_t s : shape)
      STRATA_CHECK(s >= 0, Value, "unravel_index: shape cannot have negative values, but got {}", to_string(shape));
    int64_t numel = 1;
    for (int64_t s : shape)
      STRATA_CHECK(!__builtin_mul_overflow(numel, s, &numel), Value,
                   "unravel_index: shape {} has more elements than int64 can count", to_string(shape));
    const Tensor flat = contiguous(to(indices, DType::I64));
    check_unravelled(flat, shape, numel);
    if (indices.device().type != DeviceType::Cpu) return unravel_on_device(flat, shape, numel);
    std::vector<Tensor> out;
    for (size_t d = 0; d < shape.size; ++d) out.push_back(make_tensor(indices.shape(), DType::I64));
    unravel(flat, shape, numel, out);
    return out;
  })
  .no_method()
  .samples({"i6(4), [2, 3]", "i6(2,2), [6]"})
  .error("i9(80), [2]", ErrorKind::Value, "out of range")
  .error("f(2), [2]", ErrorKind::Type, "integer dtype");

STRATA_OP(fill_diagonal_inplace, "fill_diagonal_(Tensor(a!) input, Scalar fill_value, bool wrap=False) -> Tensor(a!)")
  .doc(
    "Writes a number to the main diagonal; with wrap it continues below the square part of a tall matrix.\n\n>>> "
    "strata.zeros(2, 2).fill_diagonal_(3)\ntensor([[3., 0.],\n        [0., 3.]])")
  .composite([](const Tensor& input, Scalar value, bool wrap) {
    STRATA_CHECK(input.dim() >= 2, Runtime, "fill_diagonal_: dimensions must be larger than 1, got shape {}",
                 to_string(input.shape()));
    int64_t step = 0, n = input.size(0);
    for (int d = 0; d < input.dim(); ++d) {
      STRATA_CHECK(input.dim() == 2 || input.size(d) == input.size(0), Runtime,
                   "fill_diagonal_: all dimensions of input must be of equal length, got shape {}",
                   to_string(input.shape()));
      step += input.strides()[static_cast<size_t>(d)];
      n = std::min(n, input.size(d));
    }
    if (n == 0) return input;
    fill_(as_strided(input, {n}, {step}, input->storage_offset()), value);
    const int64_t columns = input.size(1);
    if (wrap && input.dim() == 2)
      for (int64_t row = columns + 1; row < input.size(0); row += columns + 1)
        fill_(diagonal(narrow(input, 0, row, std::min(columns, input.size(0) - row))), value);
    return input;
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,4), 1", "f(7,3), 2, True", "f(3,3,3), 1", "f(0,3), 1"})
  .error("f(3), 1", ErrorKind::Runtime, "must be larger than 1")
  .error("f(2,2,3), 1", ErrorKind::Runtime, "of equal length");

}  // namespace strata
