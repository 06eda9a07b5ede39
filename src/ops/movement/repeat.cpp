// Repetition: copies of a tensor next to each other, and expanded views.
#include "strata/args/movement/repeat.h"
#include "strata/ops/movement/repeat.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "base/parallel.h"
#include "cpu/movement/copy.h"
#include "cpu/reference.h"
#include "ops/geometry.h"
#include "ops/indexing/indexing.h"
#include "ops/transfer.h"
#include "strata/ops/creation/ranges.h"
#include "strata/ops/indexing/indexing.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/splits.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/order/search.h"
#include "strata/ops/reduce/minmax.h"
#include "strata/ops/reduce/scans.h"
#include "strata/ops/reduce/sums.h"

namespace strata {
namespace {

// Writes the first copy once; then each dimension, starting with the last, repeats what is there.
void run_repeat(const Call& c) {
  const args::repeat a(c);
  const TensorImpl &input = a.input(), &out = *c.out();
  if (out.numel == 0) return;
  const int lead = out.ndim - input.ndim;
  const auto size = [&](int d) { return d < lead ? 1 : input.shape[d - lead]; };
  Geometry done(out);
  for (int d = 0; d < out.ndim; ++d) done = slice_geometry(done, d, 0, size(d), 1);
  copy_values(*show(c.out(), done), input);
  for (int d = out.ndim; d-- > 0;) {
    for (int64_t at = size(d); at < out.shape[d]; at += size(d)) {
      Geometry next = done;
      next.offset += at * out.strides[d];
      copy_values(*show(c.out(), next), *show(c.out(), done));
    }
    done.size[static_cast<size_t>(d)] = out.shape[d];
  }
}

void plain_repeat(const Call& c) {
  const args::repeat a(c);
  const TensorImpl &input = a.input(), &out = *c.out();
  const auto lead = static_cast<size_t>(out.ndim - input.ndim);
  cpu::each_index(out.sizes(), [&](const cpu::Index& at) {
    cpu::Index from{};
    for (size_t d = 0; d < input.ndim; ++d) from[d] = at[d + lead] % input.shape[d];
    cpu::put(out, at, input, from);
  });
}

std::vector<Tensor> map(TensorList tensors, Tensor (*f)(const Tensor&)) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(f(t));
  return out;
}
Tensor to_1d(const Tensor& t) { return t.dim() == 0 ? reshape(t, 1) : t; }
Tensor to_2d(const Tensor& t) { return t.dim() == 0 ? reshape(t, {1, 1}) : t.dim() == 1 ? unsqueeze(t, 0) : t; }
Tensor to_3d(const Tensor& t) {
  return t.dim() == 0   ? reshape(t, {1, 1, 1})
         : t.dim() == 1 ? unsqueeze(unsqueeze(t, 0), -1)
         : t.dim() == 2 ? unsqueeze(t, -1)
                        : t;
}

// repeat_interleave of indices: each belongs to the first cumulative sum above it. Waits for the sums, since the
// result's length depends on them.
Tensor repeated_on_device(const Tensor& counts, std::optional<int64_t> output_size, DType dtype) {
  const Tensor ends = cumsum(counts, 0);
  int64_t total = 0;
  if (counts.is_meta()) {
    if (!output_size && counts.numel() > 0) refuse_shape_from_values("repeat_interleave without output_size");
    total = output_size.value_or(0);
  } else if (counts.numel() > 0) {
    const int64_t low = amin(counts).item<int64_t>();
    STRATA_CHECK(low >= 0, Runtime, "repeat_interleave: repeats can not be negative, got {}", low);
    total = select(ends, 0, -1).item<int64_t>();
    // Sums of non-negative counts only decrease on overflow.
    STRATA_CHECK(amin(ends).item<int64_t>() >= 0, Runtime,
                 "repeat_interleave: the sum of repeats does not fit into 64 bits");
  }
  STRATA_CHECK(!output_size || *output_size == total, Runtime,
               "repeat_interleave: allocated size {} does not match required size {}", output_size.value_or(0), total);
  return to(search_core(ends, arange(total, DType::I64), {}, true, false), dtype);
}

// Chunks of counts are added, then each chunk writes its indices from the sum of those before it on.
Tensor repeated_on_host(const Tensor& counts, std::optional<int64_t> output_size) {
  constexpr int64_t kChunk = 4096;
  const int64_t n = counts.numel(), chunks = (n + kChunk - 1) / kChunk;
  const Tensor dense = contiguous(counts);
  const int64_t* count = dense.data<int64_t>();
  std::vector<int64_t> ends(static_cast<size_t>(chunks));
  parallel_for(chunks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      Checked sum = 0;
      for (int64_t i = k * kChunk; i < std::min(n, (k + 1) * kChunk); ++i) {
        STRATA_CHECK(count[i] >= 0, Runtime, "repeat_interleave: repeats can not be negative, got {}", count[i]);
        sum += count[i];
      }
      ends[static_cast<size_t>(k)] = sum.get();
    }
  });
  Checked total = 0;
  for (int64_t& end : ends) end = (total += end).get();
  const int64_t size = total.get();
  STRATA_CHECK(!output_size || *output_size == size, Runtime,
               "repeat_interleave: allocated size {} does not match required size {}", output_size.value_or(0), size);
  check_host_memory(size, sizeof(int64_t), "repeat_interleave");
  const Tensor index = make_tensor(Shape(std::array{size}), DType::I64);
  int64_t* out = index.data<int64_t>();
  const int64_t grain = std::max<int64_t>(1, (1 << 15) * chunks / std::max<int64_t>(1, n + size));
  parallel_for(chunks, grain, [&](int64_t begin, int64_t end) {
    int64_t* at = out + (begin ? ends[static_cast<size_t>(begin - 1)] : 0);
    for (int64_t i = begin * kChunk; i < std::min(n, end * kChunk); ++i) {
      if (count[i] == 1) *at++ = i;
      else at = std::fill_n(at, count[i], i);
    }
  });
  return index;
}
}  // namespace

STRATA_OP(repeat, "repeat(Tensor input, int[] repeats) -> Tensor")
  .doc(
    "input repeated the given number of times along each dimension.\n\n>>> strata.tensor([1, 2]).repeat(2)\ntensor([1, "
    "2, 1, 2])")
  .infer([](const args::repeat& c) {
    const TensorImpl& input = c.input();
    const IntList repeats = c.repeats();
    const int lead = static_cast<int>(repeats.size) - input.ndim;
    STRATA_CHECK(
      lead >= 0, Runtime,
      "repeat: number of dimensions of repeat dims ({}) can not be smaller than number of dimensions of tensor ({})",
      repeats.size, input.ndim);
    Dims shape(repeats);
    for (int d = 0; d < static_cast<int>(shape.n); ++d) {
      STRATA_CHECK(repeats[d] >= 0, Runtime, "repeat: trying to create tensor with negative dimension, got repeats {}",
                   to_string(repeats));
      if (d >= lead) shape[d] = (Checked(shape[d]) * input.shape[d - lead]).get();
    }
    c.out()->dtype = input.dtype;
    c.out()->device = input.device;
    c.out()->set_shape(shape);
  })
  .kernel("copies", run_repeat)
  .kernel("reference", plain_repeat)
  .cuda("copies", run_repeat)
  .grad([](const grads::repeat& c, const Tensor& g) -> Grads {
    const Shape shape = c.shape_of_input();
    const IntList repeats = c.repeats();
    if (g.numel() == 0) return {autograd::zeros_for(c.meta_of_input())};
    Tensor out = g;
    const int lead = g.dim() - static_cast<int>(shape.size());
    for (int d = 0; d < g.dim(); ++d)
      if (repeats[d] != 1 && d >= lead) out = sum(unflatten(out, d, {repeats[d], shape[d - lead]}), d);
    for (int d = 0; d < lead; ++d) out = sum(out, 0);
    return {out};
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [2, 1]", "f(3), [2, 2]", "f(), [3]", "f(2), [0]", "f(2,3), [1, 1]", "f(2,3), [2, 3, 2]"})
  .error("f(2,3), [2]", ErrorKind::Runtime, "can not be smaller")
  .error("f(2), [-1]", ErrorKind::Runtime, "negative");
STRATA_OP(tile, "tile(Tensor input, int[] dims) -> Tensor")
  .doc("Like repeat; missing leading numbers are 1.\n\n>>> strata.tensor([[1, 2]]).tile(2)\ntensor([[1, 2, 1, 2]])")
  .composite([](const Tensor& input, IntList dims) {
    Dims all;
    for (int d = static_cast<int>(dims.size); d < input.dim(); ++d) all.push(1);
    for (int64_t r : dims) all.push(r);
    return repeat(input, all);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [2]", "f(3), [2, 2]", "f(2), []"})
  .error("f(2), [-1]", ErrorKind::Runtime, "negative");

STRATA_OP(repeat_interleave, "repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor")
  .doc(
    "Each index repeated the number of times given by repeats.\n\n>>> strata.repeat_interleave(strata.tensor([1, "
    "2]))\ntensor([0, 1, 1])")
  .composite([](const Tensor& repeats, std::optional<int64_t> output_size) {
    STRATA_CHECK(repeats.dim() == 1, Runtime, "repeat_interleave: only accepts 1D vectors as repeat, got shape {}",
                 to_string(repeats.shape()));
    const Tensor counts = as_index(repeats, "repeat_interleave");
    if (counts.device().type != DeviceType::Cpu) return repeated_on_device(counts, output_size, repeats.dtype());
    return to(placed(repeated_on_host(counts, output_size)), repeats.dtype());
  })
  .no_out()
  .samples({"i3(4)"})
  .error("i3(2,2)", ErrorKind::Runtime, "1D vectors")
  .error("f(3)", ErrorKind::Index, "int64 or int32")
  .error("t[4611686018427387904, 4611686018427387904]", ErrorKind::Runtime, "does not fit into 64 bits")
  .error("t[1, 1099511627776]", ErrorKind::OutOfMemory, "not enough memory");
STRATA_OP(
  repeat_interleave_tensor,
  "repeat_interleave.self_Tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor")
  .doc(
    "Each element along a dimension repeated the number of times given by repeats.\n\n>>> strata.tensor([5, "
    "6]).repeat_interleave(strata.tensor([1, 2]))\ntensor([5, 6, 6])")
  .composite([](const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim,
                std::optional<int64_t> output_size) {
    const Tensor x = dim ? input : reshape(input, -1);
    const int d = normalize_dim(dim.value_or(0), x.dim(), "repeat_interleave");
    const int64_t n = x.dim() ? x->shape[d] : 1;
    Tensor counts = to_1d(repeats);
    STRATA_CHECK(counts.numel() == 1 || counts.numel() == n, Runtime,
                 "repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = {} "
                 "and input.size({}) = {}",
                 counts.numel(), d, n);
    if (counts.numel() == 1) counts = expand(counts, n);
    return index_at(to_1d(x), {to(repeat_interleave(counts, output_size), DType::I64)}, d);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,2), i3(3), 0", "f(2,2), i3(4)", "f(2,3), i3(1), 1"})
  .error("f(3,2), i3(2), 0", ErrorKind::Runtime, "same size as input");
STRATA_OP(repeat_interleave_int,
          "repeat_interleave.self_int(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor")
  .doc(
    "Each element along a dimension repeated a number of times.\n\n>>> strata.tensor([5, "
    "6]).repeat_interleave(2)\ntensor([5, 5, 6, 6])")
  .composite([](const Tensor& input, int64_t repeats, std::optional<int64_t> dim, std::optional<int64_t>) {
    STRATA_CHECK(repeats >= 0, Runtime, "repeat_interleave: repeats must be non-negative, got {}", repeats);
    const Tensor x = to_1d(dim ? input : reshape(input, -1));
    const int d = normalize_dim(dim.value_or(0), x.dim(), "repeat_interleave");
    Dims shape(x.shape());
    shape.push(0);
    for (int k = x.dim(); k > d + 1; --k) shape[k] = shape[k - 1];
    shape[d + 1] = repeats;
    return flatten(clone(expand(unsqueeze(x, d + 1), shape), "contiguous_format"), d, d + 1);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,2), 2", "f(3,2), 3, 1", "f(3), 0", "f(3), 1, 0"})
  .error("f(3), -1", ErrorKind::Runtime, "non-negative");

STRATA_OP(broadcast_to, "broadcast_to(Tensor(a) input, int[] size) -> Tensor(a)")
  .doc("A view of input repeated to a shape.\n\n>>> strata.tensor([1]).broadcast_to((3,))\ntensor([1, 1, 1])")
  .composite([](const Tensor& input, IntList size) { return expand(input, size); })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,1), [3, 4]", "f(3), [2, 3]"})
  .error("f(3), [2]", ErrorKind::Runtime, "must match the existing size");
STRATA_OP(broadcast_tensors, "broadcast_tensors(Tensor(a)[] tensors) -> Tensor(a)[]")
  .doc(
    "Views of all tensors in the shape they broadcast to.\n\n>>> strata.broadcast_tensors([strata.ones(2, 1), "
    "strata.ones(3)])[0].shape\nstrata.Size([2, 3])")
  .composite([](TensorList tensors) {
    Dims shape;
    for (const Tensor& t : tensors) shape = broadcast_shapes(shape, t.shape(), "broadcast_tensors");
    std::vector<Tensor> out;
    for (const Tensor& t : tensors) out.push_back(std::ranges::equal(t.shape(), Shape(shape)) ? t : expand(t, shape));
    return out;
  })
  .dtypes(kStorageTypes)
  .samples({"[f(2,1), f(3)]", "[f(2)]"})
  .error("[f(2), f(3)]", ErrorKind::Runtime, "cannot be broadcast");

STRATA_OP(atleast_1d, "atleast_1d(Tensor(a) input) -> Tensor(a)")
  .doc("A view with at least 1 dimension.\n\n>>> strata.atleast_1d(strata.tensor(1.)).dim()\n1")
  .composite([](const Tensor& input) { return to_1d(input); })
  .no_method()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f()", "f(3)", "f(2,3)", "f(2,3,4)"});
STRATA_OP(atleast_1d_sequence, "atleast_1d.Sequence(Tensor(a)[] tensors) -> Tensor(a)[]")
  .doc("Views of all tensors with at least 1 dimension.\n\n>>> strata.atleast_1d([strata.tensor(1.)])[0].dim()\n1")
  .composite([](TensorList tensors) { return map(tensors, to_1d); })
  .dtypes(kStorageTypes)
  .samples({"[f(), f(3)]"});
STRATA_OP(atleast_2d, "atleast_2d(Tensor(a) input) -> Tensor(a)")
  .doc("A view with at least 2 dimensions.\n\n>>> strata.atleast_2d(strata.tensor(1.)).dim()\n2")
  .composite([](const Tensor& input) { return to_2d(input); })
  .no_method()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f()", "f(3)", "f(2,3)", "f(2,3,4)"});
STRATA_OP(atleast_2d_sequence, "atleast_2d.Sequence(Tensor(a)[] tensors) -> Tensor(a)[]")
  .doc("Views of all tensors with at least 2 dimensions.\n\n>>> strata.atleast_2d([strata.tensor(1.)])[0].dim()\n2")
  .composite([](TensorList tensors) { return map(tensors, to_2d); })
  .dtypes(kStorageTypes)
  .samples({"[f(), f(3)]"});
STRATA_OP(atleast_3d, "atleast_3d(Tensor(a) input) -> Tensor(a)")
  .doc("A view with at least 3 dimensions.\n\n>>> strata.atleast_3d(strata.tensor(1.)).dim()\n3")
  .composite([](const Tensor& input) { return to_3d(input); })
  .no_method()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f()", "f(3)", "f(2,3)", "f(2,3,4)"});
STRATA_OP(atleast_3d_sequence, "atleast_3d.Sequence(Tensor(a)[] tensors) -> Tensor(a)[]")
  .doc("Views of all tensors with at least 3 dimensions.\n\n>>> strata.atleast_3d([strata.tensor(1.)])[0].dim()\n3")
  .composite([](TensorList tensors) { return map(tensors, to_3d); })
  .dtypes(kStorageTypes)
  .samples({"[f(), f(3)]"});

}  // namespace strata
