// Ops that return several views of one tensor, and shapes composed of other views.
#include "strata/ops/movement/splits.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "base/interrupt.h"
#include "ops/layout.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"

namespace strata {
namespace {

using Tensors = std::vector<Tensor>;

int split_dim(const Tensor& input, int64_t dim, const char* op) {
  STRATA_CHECK(input.dim() > 0, Runtime, "{}: expects at least a 1-dimensional tensor", op);
  return normalize_dim(dim, input.dim(), op);
}

// The pieces between cut positions, each clamped as a slice would be.
Tensors cut_at(const Tensor& input, Shape cuts, int dim) {
  Tensors out;
  int64_t from = 0;
  for (int64_t cut : cuts) {
    out.push_back(slice(input, dim, from, cut));
    from = cut;
  }
  out.push_back(slice(input, dim, from));
  return out;
}
// `sections` pieces whose sizes differ by at most one, the larger first.
Tensors even_sections(const Tensor& input, int64_t sections, int dim) {
  STRATA_CHECK(sections > 0, Runtime, "tensor_split: number of sections must be larger than 0, got {}", sections);
  check_host_memory(sections, kObjectBytes, "tensor_split");
  const int64_t size = input->shape[dim] / sections, larger = input->shape[dim] % sections;
  Tensors out;
  int64_t from = 0;
  for (int64_t i = 0; i < sections; ++i) {
    poll_interrupt();
    const int64_t to = from + size + (i < larger);
    out.push_back(slice(input, dim, from, to));
    from = to;
  }
  return out;
}
Tensors equal_sections(const Tensor& input, int64_t sections, int dim, const char* op) {
  STRATA_CHECK(sections > 0, Runtime, "{}: number of sections must be larger than 0, got {}", op, sections);
  STRATA_CHECK(
    input->shape[dim] % sections == 0, Runtime,
    "{}: attempted to split along dimension {}, but the size of the dimension {} is not divisible by the split_size {}",
    op, dim, input->shape[dim], sections);
  return even_sections(input, sections, dim);
}
int need_dims(const Tensor& input, int least, const char* op) {
  STRATA_CHECK(input.dim() >= least, Runtime,
               "{}: requires a tensor with at least {} dimension, but got a tensor with {} dimensions", op, least,
               input.dim());
  return least;
}
}  // namespace

STRATA_OP(split, "split(Tensor(a) tensor, int split_size, int dim=0) -> Tensor(a)[]")
  .doc(
    "Views of consecutive pieces of a size; the last one may be smaller.\n\n>>> strata.arange(5).split(2)\n(tensor([0, "
    "1]), tensor([2, 3]), tensor([4]))")
  .composite([](const Tensor& input, int64_t split_size, int64_t dim) {
    const int d = split_dim(input, dim, "split");
    const int64_t n = input->shape[d];
    STRATA_CHECK(split_size >= 0, Runtime, "split: expects split_size be non-negative, but got split_size={}",
                 split_size);
    STRATA_CHECK(split_size > 0 || n == 0, Runtime,
                 "split: split_size can only be 0 if dimension size is 0, but got dimension size of {}", n);
    if (split_size > 0) check_host_memory((n - 1) / split_size + 1, kObjectBytes, "split");
    Tensors out;
    for (int64_t from = 0; from < n || out.empty(); poll_interrupt(), from += std::min(split_size, n - from))
      out.push_back(slice(input, d, from, n - from > split_size ? from + split_size : n));
    return out;
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 2", "f(5,3), 3, 1", "f(4), 9", "f(0,3), 0"})
  .error("f(5), 0", ErrorKind::Runtime, "split_size can only be 0")
  .error("f(5), -1", ErrorKind::Runtime, "non-negative")
  .error("f(), 1", ErrorKind::Runtime, "at least a 1-dimensional");

STRATA_OP(split_with_sizes, "split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor(a)[]")
  .doc(
    "Views of consecutive pieces of the given sizes.\n\n>>> strata.arange(3).split_with_sizes([1, 2])\n(tensor([0]), "
    "tensor([1, 2]))")
  .composite([](const Tensor& input, IntList split_sizes, int64_t dim) {
    const int d = split_dim(input, dim, "split_with_sizes");
    int64_t total = 0;
    for (int64_t s : split_sizes) {
      STRATA_CHECK(s >= 0, Runtime, "split_with_sizes: expects split_sizes have only non-negative entries, but got {}",
                   to_string(split_sizes));
      total = (Checked(total) + s).get();
    }
    STRATA_CHECK(total == input->shape[d], Runtime,
                 "split_with_sizes: expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), "
                 "but got split_sizes={}",
                 input->shape[d], d, to_string(split_sizes));
    Tensors out;
    int64_t from = 0;
    for (int64_t s : split_sizes) {
      out.push_back(slice(input, d, from, from + s));
      from += s;
    }
    return out;
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [2, 3]", "f(5,3), [1, 0, 2], 1"})
  .error("f(5), [2, 2]", ErrorKind::Runtime, "sum exactly to 5")
  .error("f(5), [6, -1]", ErrorKind::Runtime, "non-negative");

STRATA_OP(split_sizes, "split.sizes(Tensor(a) tensor, int[] split_size, int dim=0) -> Tensor(a)[]")
  .doc(
    "Views of consecutive pieces of the given sizes.\n\n>>> strata.arange(3).split([1, 2])\n(tensor([0]), tensor([1, "
    "2]))")
  .composite([](const Tensor& input, IntList split_size, int64_t dim) {
    return split_with_sizes(input, split_size, dim);
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [2, 3]", "f(5,3), [1, 2], 1"})
  .error("f(5), [2, 2]", ErrorKind::Runtime, "sum exactly to 5");

STRATA_OP(chunk, "chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]")
  .doc(
    "At most the given number of views of equal size; the last one may be smaller.\n\n>>> "
    "strata.arange(5).chunk(2)\n(tensor([0, 1, 2]), tensor([3, 4]))")
  .composite([](const Tensor& input, int64_t chunks, int64_t dim) {
    const int d = split_dim(input, dim, "chunk");
    STRATA_CHECK(chunks > 0, Runtime, "chunk: expects `chunks` to be greater than 0, got: {}", chunks);
    const int64_t n = input->shape[d], size = n / chunks + (n % chunks != 0);
    if (n == 0) return even_sections(input, chunks, d);
    return split(input, size, d);
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 2", "f(5,3), 2, 1", "f(4), 9", "f(0,3), 2"})
  .error("f(5), 0", ErrorKind::Runtime, "greater than 0")
  .error("f(0,3), 4294967296", ErrorKind::OutOfMemory, "not enough memory");

STRATA_OP(tensor_split, "tensor_split(Tensor(a) input, int sections, int dim=0) -> Tensor(a)[]")
  .doc(
    "The given number of views, whose sizes differ by at most one.\n\n>>> "
    "strata.arange(5).tensor_split(2)\n(tensor([0, 1, 2]), tensor([3, 4]))")
  .composite([](const Tensor& input, int64_t sections, int64_t dim) {
    return even_sections(input, sections, split_dim(input, dim, "tensor_split"));
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), 2", "f(5,3), 4, 1", "f(2), 3"})
  .error("f(5), 0", ErrorKind::Runtime, "larger than 0")
  .error("f(15), 9223372036854775807", ErrorKind::OutOfMemory, "not enough memory");

STRATA_OP(tensor_split_indices, "tensor_split.indices(Tensor(a) input, int[] indices, int dim=0) -> Tensor(a)[]")
  .doc(
    "Views of the pieces between the given indices.\n\n>>> strata.arange(5).tensor_split([1, 3])\n(tensor([0]), "
    "tensor([1, 2]), tensor([3, 4]))")
  .composite([](const Tensor& input, IntList indices, int64_t dim) {
    return cut_at(input, indices, split_dim(input, dim, "tensor_split"));
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), [1, 3]", "f(5,3), [2], 1", "f(4), []"})
  .error("f(), [1]", ErrorKind::Runtime, "at least a 1-dimensional");

STRATA_OP(tensor_split_tensor,
          "tensor_split.tensor_indices_or_sections(Tensor(a) input, Tensor tensor_indices_or_sections, int dim=0) -> "
          "Tensor(a)[]")
  .doc(
    "The same with the indices, or the number of sections, in a tensor.\n\n>>> "
    "strata.arange(3).tensor_split(strata.tensor([1]))\n(tensor([0]), tensor([1, 2]))")
  .composite([](const Tensor& input, const Tensor& where, int64_t dim) {
    STRATA_CHECK(
      where.dtype() == DType::I64 && where.dim() <= 1, Runtime,
      "tensor_split: expected tensor_indices_or_sections to be a zero- or one-dimensional int64 tensor, got {} {}",
      name_of(where.dtype()), to_string(where.shape()));
    if (where.is_meta()) refuse_shape_from_values("tensor_split");
    if (where.dim() == 0) return tensor_split(input, where.item<int64_t>(), dim);
    const Tensor flat = contiguous(where.device().type == DeviceType::Cpu ? where : to_host(*where));
    return tensor_split(input, Shape(flat.data<int64_t>(), static_cast<size_t>(flat.numel())), dim);
  })
  .dtypes(kStorageTypes)
  .samples({"f(5,3), i4(2)"})
  .error("f(5), f(2)", ErrorKind::Runtime, "int64 tensor");

STRATA_OP(hsplit, "hsplit(Tensor(a) input, int sections) -> Tensor(a)[]")
  .doc(
    "Equal views along the columns (or the only dimension).\n\n>>> strata.arange(4).hsplit(2)\n(tensor([0, 1]), "
    "tensor([2, 3]))")
  .composite([](const Tensor& input, int64_t sections) {
    return equal_sections(input, sections, need_dims(input, 1, "hsplit") && input.dim() > 1 ? 1 : 0, "hsplit");
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,6), 3", "f(4), 2"})
  .error("f(5), 2", ErrorKind::Runtime, "not divisible")
  .error("f(), 2", ErrorKind::Runtime, "at least 1");
STRATA_OP(hsplit_indices, "hsplit.indices(Tensor(a) input, int[] indices) -> Tensor(a)[]")
  .doc(
    "Views along the columns (or the only dimension), cut at indices.\n\n>>> "
    "strata.arange(3).hsplit([1])\n(tensor([0]), tensor([1, 2]))")
  .composite([](const Tensor& input, IntList indices) {
    return cut_at(input, indices, need_dims(input, 1, "hsplit") && input.dim() > 1 ? 1 : 0);
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,6), [1, 3]", "f(4), [2]"})
  .error("f(), [2]", ErrorKind::Runtime, "at least 1");
STRATA_OP(vsplit, "vsplit(Tensor(a) input, int sections) -> Tensor(a)[]")
  .doc("Equal views along the rows.\n\n>>> strata.ones(4, 1).vsplit(2)[0].shape\nstrata.Size([2, 1])")
  .composite([](const Tensor& input, int64_t sections) {
    need_dims(input, 2, "vsplit");
    return equal_sections(input, sections, 0, "vsplit");
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,6), 2"})
  .error("f(5), 2", ErrorKind::Runtime, "at least 2")
  .error("f(5,1), 2", ErrorKind::Runtime, "not divisible");
STRATA_OP(vsplit_indices, "vsplit.indices(Tensor(a) input, int[] indices) -> Tensor(a)[]")
  .doc("Views along the rows, cut at indices.\n\n>>> strata.ones(4, 1).vsplit([1])[0].shape\nstrata.Size([1, 1])")
  .composite([](const Tensor& input, IntList indices) {
    need_dims(input, 2, "vsplit");
    return cut_at(input, indices, 0);
  })
  .dtypes(kStorageTypes)
  .samples({"f(4,6), [1, 3]"})
  .error("f(4), [2]", ErrorKind::Runtime, "at least 2");
STRATA_OP(dsplit, "dsplit(Tensor(a) input, int sections) -> Tensor(a)[]")
  .doc("Equal views along the third dimension.\n\n>>> strata.ones(1, 2, 4).dsplit(2)[0].shape\nstrata.Size([1, 2, 2])")
  .composite([](const Tensor& input, int64_t sections) {
    need_dims(input, 3, "dsplit");
    return equal_sections(input, sections, 2, "dsplit");
  })
  .dtypes(kStorageTypes)
  .samples({"f(2,3,4), 2"})
  .error("f(5,2), 2", ErrorKind::Runtime, "at least 3");
STRATA_OP(dsplit_indices, "dsplit.indices(Tensor(a) input, int[] indices) -> Tensor(a)[]")
  .doc(
    "Views along the third dimension, cut at indices.\n\n>>> strata.ones(1, 2, "
    "4).dsplit([1])[0].shape\nstrata.Size([1, 2, 1])")
  .composite([](const Tensor& input, IntList indices) {
    need_dims(input, 3, "dsplit");
    return cut_at(input, indices, 2);
  })
  .dtypes(kStorageTypes)
  .samples({"f(2,3,4), [1, 3]"})
  .error("f(4,2), [2]", ErrorKind::Runtime, "at least 3");

STRATA_OP(unbind, "unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]")
  .doc(
    "A view of each index along a dimension.\n\n>>> strata.tensor([[1, 2], [3, 4]]).unbind()\n(tensor([1, 2]), "
    "tensor([3, 4]))")
  .composite([](const Tensor& input, int64_t dim) {
    STRATA_CHECK(input.dim() > 0, Index, "unbind: dimension specified as {} but tensor has no dimensions", dim);
    const int d = normalize_dim(dim, input.dim(), "unbind");
    check_host_memory(input->shape[d], kObjectBytes, "unbind");
    Tensors out;
    for (int64_t i = 0; i < input->shape[d]; poll_interrupt(), ++i) out.push_back(select(input, d, i));
    return out;
  })
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f(2,3), 1", "f(0,3)"})
  .error("f(), 0", ErrorKind::Index, "no dimensions")
  .error("f(2,3), 2", ErrorKind::Index, "out of range");

STRATA_OP(flatten, "flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)")
  .doc("A range of dimensions merged into one.\n\n>>> strata.ones(2, 3, 4).flatten(1).shape\nstrata.Size([2, 12])")
  .composite([](const Tensor& input, int64_t start_dim, int64_t end_dim) {
    const int from = normalize_dim(start_dim, input.dim(), "flatten"),
              to = normalize_dim(end_dim, input.dim(), "flatten");
    STRATA_CHECK(from <= to, Runtime, "flatten: has invalid args: start_dim cannot come after end_dim, got {} and {}",
                 start_dim, end_dim);
    if (input.dim() == 0) return reshape(input, 1);
    if (from == to) return input;
    Dims shape;
    int64_t merged = 1;
    for (int d = 0; d < input.dim(); ++d) {
      if (d >= from && d <= to) merged *= input->shape[d];
      if (d == to) shape.push(merged);
      if (d < from || d > to) shape.push(input->shape[d]);
    }
    return reshape(input, shape);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3,4)", "f(2,3,4), 1", "f(2,3,4), 0, 1", "f()", "f(3)", "f(0,3)"})
  .error("f(2,3), 1, 0", ErrorKind::Runtime, "start_dim cannot come after end_dim")
  .error("f(2,3), 2", ErrorKind::Index, "out of range");

STRATA_OP(unflatten, "unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)")
  .doc(
    "One dimension split into several; one size may be -1.\n\n>>> strata.ones(2, 12).unflatten(1, (3, "
    "-1)).shape\nstrata.Size([2, 3, 4])")
  .composite([](const Tensor& input, int64_t dim, IntList sizes) {
    STRATA_CHECK(input.dim() > 0, Runtime, "unflatten: expected a tensor with at least one dimension");
    const int at = normalize_dim(dim, input.dim(), "unflatten");
    STRATA_CHECK(sizes.size > 0, Runtime, "unflatten: sizes must be non-empty");
    const Dims parts = infer_size(sizes, input->shape[at], "unflatten");
    Dims shape;
    for (int d = 0; d < input.dim(); ++d) {
      if (d != at) shape.push(input->shape[d]);
      else
        for (size_t i = 0; i < parts.n; ++i) shape.push(parts[i]);
    }
    return reshape(input, shape);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,12), 1, [3, -1]", "f(6), 0, [2, 3]", "f(4,3), -2, [2, 2]"})
  .error("f(2,12), 1, [5, 2]", ErrorKind::Runtime, "invalid for input of size 12")
  .error("f(2,12), 2, [5, 2]", ErrorKind::Index, "out of range");

STRATA_OP(ravel, "ravel(Tensor(a) input) -> Tensor(a)")
  .doc("All elements in one dimension.\n\n>>> strata.ones(2, 3).ravel().shape\nstrata.Size([6])")
  .composite([](const Tensor& input) { return reshape(contiguous(input), -1); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3)", "f()", "f(3)"});

STRATA_OP(movedim, "movedim(Tensor(a) input, int[] source, int[] destination) -> Tensor(a)")
  .doc(
    "A view with some dimensions moved to other positions.\n\n>>> strata.ones(2, 3, 4).movedim(0, "
    "-1).shape\nstrata.Size([3, 4, 2])")
  .composite([](const Tensor& input, IntList source, IntList destination) {
    const int n = input.dim();
    STRATA_CHECK(source.size == destination.size, Runtime,
                 "movedim: invalid source or destination dims: source ({} dims) should contain the same number of dims "
                 "as destination ({} dims)",
                 source.size, destination.size);
    Dims order;
    for (int d = 0; d < n; ++d) order.push(-1);
    DimMask from_seen = 0, to_seen = 0;
    for (size_t i = 0; i < source.size; ++i) {
      const int from = normalize_dim(source[i], n, "movedim"), to = normalize_dim(destination[i], n, "movedim");
      STRATA_CHECK(!(from_seen >> from & 1) && !(to_seen >> to & 1), Runtime,
                   "movedim: repeated dim in source {} or destination {}", to_string(source), to_string(destination));
      from_seen |= dim_bit(from);
      to_seen |= dim_bit(to);
      if (n) order[to] = from;
    }
    int next = 0;
    for (int d = 0; d < n; ++d) {
      if (order[d] >= 0) continue;
      while (from_seen >> next & 1) ++next;
      order[d] = next++;
    }
    return permute(input, order);
  })
  .alias("moveaxis")
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3,4), [0], [2]", "f(2,3,4), [0, 1], [1, 2]", "f(2,3), 0, -1", "f(), 0, 0"})
  .error("f(2,3), [0], [0, 1]", ErrorKind::Runtime, "same number of dims")
  .error("f(2,3), [0, 0], [0, 1]", ErrorKind::Runtime, "repeated dim");

}  // namespace strata
