// Views by explicit strides, the ops of their gradients, and the *_scatter ops, their inverses.
#include "strata/args/movement/strided.h"
#include "strata/ops/movement/strided.h"

#include <cstring>

#include <algorithm>
#include <array>

#include "autograd/autograd.h"
#include "base/checked.h"
#include "cpu/movement/copy.h"
#include "cpu/movement/overlap.h"
#include "cpu/reference.h"
#include "cuda/creation/formulas.h"
#include "cuda/indexing/indexing.h"
#include "cuda/movement/dense.h"
#include "ops/geometry.h"
#include "ops/transfer.h"
#include "strata/ops/creation/fills.h"
#include "strata/ops/creation/ranges.h"
#include "strata/ops/movement/copy.h"
#include "strata/ops/movement/views.h"
#include "strata/ops/pointwise/arithmetic.h"

namespace strata {
namespace {

// The index of the last element that a geometry reaches; -1 if it is empty.
int64_t reach(Shape size, Shape stride, const char* op) {
  STRATA_CHECK(size.size() == stride.size(), Runtime, "{}: mismatch in length of strides and shape: {} and {}", op,
               to_string(stride), to_string(size));
  int64_t last = 0;
  bool empty = false, overflow = false;
  for (size_t d = 0; d < size.size(); ++d) {
    STRATA_CHECK(size[d] >= 0, Runtime, "{}: a size cannot be negative, got shape {}", op, to_string(size));
    STRATA_CHECK(stride[d] >= 0, Runtime, "{}: negative strides are not supported, got strides {}", op,
                 to_string(stride));
    empty |= size[d] == 0;
    int64_t step = 0;
    overflow |= __builtin_mul_overflow(std::max<int64_t>(size[d] - 1, 0), stride[d], &step) ||
                __builtin_add_overflow(last, step, &last);
  }
  if (empty) return -1;
  STRATA_CHECK(!overflow && last < INT64_MAX / 8, Runtime,
               "{}: shape {} with strides {} is larger than can be addressed", op, to_string(size), to_string(stride));
  checked_numel(size);
  return last;
}

Geometry geometry(IntList size, IntList stride, int64_t offset) {
  Geometry g;
  g.size = Dims(size);
  g.stride = Dims(stride);
  g.offset = offset;
  return g;
}

// Makes `out` a tensor with these strides, including gaps.
void allocate_strided(TensorImpl& out, Shape shape, Shape strides) {
  out.set_shape(shape);
  std::copy_n(strides.data(), strides.size(), out.strides);
  out.update_contiguous();
  out.allocate_bytes(static_cast<size_t>(reach(shape, strides, "clone") + 1) * size_of(out.dtype));
}

// Strides for a copy of t: its own, including gaps, unless elements may overlap.
Dims own_strides(Shape size, Shape stride) {
  return may_overlap(size, stride) ? Geometry::contiguous(size).stride : Dims(stride);
}
// Zeros the gaps of a tensor made by allocate_strided: a view may show them.
void clear_gaps(const TensorImpl& out) {
  if (out.numel == 0 || out.is_dense()) return;
  const Tensor all = alias(out);
  all->set_shape(Shape(std::array{reach(out.sizes(), Shape(out.strides, out.ndim), "clone") + 1}));
  all->set_contiguous_strides();
  fill_values(*all, 0);
}

Geometry target_of_unview(const Call& c) {
  const args::unview a(c);
  return geometry(Shape(a.input().sizes()), a.stride(), a.offset());
}

const char* places_differ(const Call& c) {
  const args::unview a(c);
  const Geometry g = target_of_unview(c);
  return a.input().numel && may_overlap(g.size, g.stride) ? "several elements may go to one place" : nullptr;
}
void run_unview_by_copy(const Call& c) {
  const args::unview a(c);
  fill_values(*c.out(), 0);
  if (a.input().numel) copy_values(*show(c.out(), target_of_unview(c)), a.input());
}

void run_unview(const Call& c) {
  const args::unview a(c);
  if (!places_differ(c)) return run_unview_by_copy(c);
  const TensorImpl& input = a.input();
  const Geometry g = target_of_unview(c);
  cpu::fill(*c.out(), 0);
  // Sums of narrow floats use the compute type.
  const DType type = compute_type(input.dtype);
  const bool same = type == input.dtype;
  const Tensor sum = same ? c.out() : make_tensor(c.out().shape(), type);
  Tensor value = alias(input);
  if (!same) {
    cpu::fill(*sum, 0);
    value = make_tensor(input.sizes(), type);
    cpu::copy(*value, input);
  }
  cpu::add_overlapping(*show(sum, g), *value);
  if (!same) cpu::copy(*c.out(), *sum);
}

// Adds elements that may overlap at flat positions.
void unview_on_device(const Call& c, Workspace& workspace) {
  const args::unview a(c);
  const TensorImpl& input = a.input();
  const Tensor values = cuda::dense(input, workspace), at = workspace.take(input.sizes(), DType::I64);
  if (!workspace.planning()) {
    fill_values(*c.out(), 0);
    fill_values(*at, a.offset());
  }
  for (int d = 0; d < input.ndim; ++d) {
    const Tensor line = workspace.take(input.shape[d], DType::I64);
    if (workspace.planning()) continue;
    cuda::arange(*line, 0, a.stride()[d], workspace);
    Dims along;
    for (int k = 0; k < input.ndim; ++k) along.push(k == d ? input.shape[d] : 1);
    line->set_shape(along);
    line->set_contiguous_strides();
    add_(at, line);
  }
  const Tensor places = cuda::flattened(*at);
  cuda::put_rows(*cuda::flattened(*c.out()), *cuda::flattened(*values), 0, std::span(&places, 1), true, false,
                 workspace);
}

void run_strided_clone(const Call& c) {
  const args::clone_strided a(c);
  clear_gaps(*c.out());
  copy_values(*c.out(), a.input());
}

void run_strided_scatter(const Call& c) {
  const args::strided_scatter a(c);
  clear_gaps(*c.out());
  copy_values(*c.out(), a.input());
  copy_values(*show(c.out(), geometry(a.size(), a.stride(), a.offset())), a.src());
}

void plain_unview(const Call& c) {
  const args::unview a(c);
  const TensorImpl& input = a.input();
  cpu::dispatch_wide(input.dtype, [&]<class T>() {
    const cpu::Out<T> sums(c.out());
    sums.fill(0);
    cpu::each_index(input.sizes(), [&](const cpu::Index& at) {
      int64_t place = a.offset();
      for (size_t d = 0; d < input.ndim; ++d) place += at[d] * a.stride()[d];
      sums[place] += cpu::get<T>(input, at);
    });
    sums.finish();
  });
}

// Replaces the part of input that a view shows by src. `like` names the op in messages.
Tensor scatter_part(const Tensor& input, const Tensor& src, const Geometry& part, const char* op) {
  STRATA_CHECK(std::ranges::equal(src.shape(), Shape(part.size)), Runtime,
               "{}: expected src to have a size equal to the slice of self; src size = {}, slice size = {}", op,
               to_string(src.shape()), to_string(part.size));
  return strided_scatter(contiguous(input), src, part.size, part.stride, part.offset);
}

// Resizes a tensor. It keeps its memory if that is large enough; otherwise it gets new memory with the old contents,
// and views made before keep the old one.
Tensor resized(const Tensor& input, IntList size, std::optional<std::string_view> format, const char* op) {
  TensorImpl& t = *input;
  STRATA_CHECK(!input.requires_grad(), Runtime,
               "{}: cannot resize a tensor that requires a gradient; use reshape(), or detach() it first", op);
  STRATA_CHECK(!t.base, Runtime, "{}: cannot resize a view of another tensor; clone() it first", op);
  if (std::ranges::equal(t.sizes(), Shape(size)) && !format) return input;
  const Tensor fresh = empty(size, t.dtype, t.device, false, format);
  if (static_cast<size_t>(fresh.numel()) * size_of(t.dtype) <= t.storage->requested) {
    t.data = t.storage->data;
  } else {
    const size_t bytes = t.storage->requested;
    if (t.device.type == DeviceType::Cpu) std::memcpy(fresh.bytes(), t.storage->data, bytes);
    else if (!input.is_meta()) device_hooks.copy(fresh.bytes(), t.device, t.storage->data, t.device, bytes, false);
    t.replace_storage(fresh->storage);
  }
  t.set_shape(size);
  std::copy_n(fresh->strides, fresh->ndim, t.strides);
  t.update_contiguous();
  t.count_write();
  return input;
}
}  // namespace

STRATA_OP(strided_view, "strided_view(Tensor(a) input, int[] size, int[] stride, int offset) -> Tensor(a)")
  .doc("A view with explicit strides; the offset counts from the first element of input.")
  .view([](const Tensor& input, IntList size, IntList stride, int64_t offset) {
    const int64_t last = reach(size, stride, "as_strided"), first = (Checked(input->storage_offset()) + offset).get();
    const size_t bytes = input->storage->requested;
    STRATA_CHECK(first >= 0, Runtime, "as_strided: the storage offset {} is negative", first);
    STRATA_CHECK(
      last < 0 || static_cast<uint64_t>(first) + static_cast<uint64_t>(last) < bytes / size_of(input.dtype()), Runtime,
      "as_strided: sizes {}, strides {} and storage offset {} are out of bounds for storage of {} bytes",
      to_string(size), to_string(stride), first, bytes);
    return show(input, geometry(size, stride, offset));
  })
  .grad([](const grads::strided_view& c, const Tensor& g) -> Grads {
    // g is written into a flat image of the memory around input, which is then read as input.
    const Geometry input(c.meta_of_input());
    const Shape stride = c.stride();
    const int64_t offset = c.offset(), low = std::min<int64_t>(0, offset);
    const int64_t extent =
      std::max(reach(input.size, input.stride, "as_strided"), offset + reach(g.shape(), stride, "as_strided")) - low +
      1;
    Tensor image = unview(g, extent, stride, offset - low);
    if (may_overlap(input.size, input.stride)) {  // elements of input that overlap share the gradient
      const Tensor sharing = unview(ones(Shape(input.size), g.dtype(), g.device()), extent, Shape(input.stride), -low);
      image = div(image, clamp(sharing, 1));
    }
    return {strided_view(image, input.size, input.stride, -low)};
  })
  .helper()
  .dtypes(kStorageTypes)
  .samples({"f(6), [2, 2], [2, 1], 1", "f(3,4), [2, 3], [1, 4], 0", "f(5), [3, 3], [1, 1], 0", "f(6), [], [], 2",
            "f(6), [0, 2], [1, 1], 0"})
  .error("f(6), [3, 3], [2, 1], 3", ErrorKind::Runtime, "out of bounds")
  .error("f(0), [1], [1], 0", ErrorKind::Runtime, "out of bounds");

STRATA_OP(unview, "unview(Tensor input, int[] size, int[] stride, int offset) -> Tensor")
  .doc("Zeros of a size, with input added at the given strides: the gradient of all strided views.")
  .infer([](const args::unview& c) {
    c.out()->dtype = c.input().dtype;
    c.out()->set_shape(c.size());
    const int64_t last = reach(c.input().sizes(), c.stride(), "unview"), offset = c.offset();
    STRATA_CHECK(last < 0 || (offset >= 0 && (Checked(offset) + last).get() < checked_numel(c.size())), Runtime,
                 "unview: strides {} and offset {} are out of bounds for shape {}", to_string(c.stride()), offset,
                 to_string(c.size()));
  })
  .kernel("strided", run_unview)
  .kernel("reference", plain_unview)
  .cuda("strided", run_unview_by_copy, places_differ)
  .cuda("sorted", unview_on_device)
  .grad([](const grads::unview& c, const Tensor& g) -> Grads {
    return {strided_view(contiguous(g), c.shape_of_input(), c.stride(), c.offset())};
  })
  .helper()
  .no_out()
  .dtypes(kNumericTypes)
  .complex_by_parts()
  .samples({"f(2,3), [4, 5], [5, 1], 6", "f(3,2), [4], [1, 1], 0", "f(2,0), [2, 0], [1, 1], 0", "f(), [3], [], 1"})
  .error("f(2), [2, 0], [1], 0", ErrorKind::Runtime, "out of bounds");

STRATA_OP(clone_strided, "clone_strided(Tensor input, int[] stride) -> Tensor")
  .doc("A copy with the given strides.")
  .infer([](const args::clone_strided& c) {
    c.out()->dtype = c.input().dtype;
    allocate_strided(*c.out(), c.input().sizes(), c.stride());
  })
  .kernel("strided", run_strided_clone)
  .cuda("strided", run_strided_clone)
  .kernel("reference",
          [](const args::clone_strided& c) {
            clear_gaps(*c.out());
            cpu::copy_reference(*c.out(), c.input());
          })
  .grad([](const GradContext&, const Tensor& g) -> Grads { return {g}; })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [1, 2]", "f(2,3), [10, 2]"})
  .error("f(2,3), [1]", ErrorKind::Runtime, "mismatch in length");

STRATA_OP(strided_scatter, "strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int offset) -> Tensor")
  .doc("A copy of input, with its strides, in which the elements of a strided view are replaced by src.")
  .infer([](const args::strided_scatter& c) {
    const TensorImpl &input = c.input(), &src = c.src();
    const Shape size = c.size(), strides(input.strides, input.ndim);
    const int64_t last = reach(size, c.stride(), "as_strided_scatter"), offset = c.offset();
    STRATA_CHECK(
      std::ranges::equal(src.sizes(), size), Runtime,
      "as_strided_scatter: expected src to have a size equal to the slice of self; src size = {}, slice size = {}",
      to_string(src.sizes()), to_string(size));
    const int64_t most = reach(input.sizes(), strides, "as_strided_scatter");
    STRATA_CHECK(last < 0 || (offset >= 0 && offset <= most && last <= most - offset), Runtime,
                 "as_strided_scatter: sizes {}, strides {} and offset {} are out of bounds for a tensor of shape {}",
                 to_string(size), to_string(c.stride()), offset, to_string(input.sizes()));
    c.out()->dtype = input.dtype;
    allocate_strided(*c.out(), input.sizes(), own_strides(input.sizes(), strides));
  })
  .kernel("strided", run_strided_scatter)
  .cuda("strided", run_strided_scatter)
  .kernel("reference",
          [](const args::strided_scatter& c) {
            clear_gaps(*c.out());
            cpu::copy_reference(*c.out(), c.input());
            const Tensor part = show(c.out(), geometry(c.size(), c.stride(), c.offset()));
            cpu::each_index(part.shape(), [&](const cpu::Index& at) { cpu::put(*part, at, c.src(), at); });
          })
  .grad([](const grads::strided_scatter& c, const Tensor& g) -> Grads {
    const Geometry input(c.meta_of_input());
    const IntList size = c.size(), stride = c.stride();
    const int64_t offset = c.offset();
    const Tensor same = clone_strided(g, own_strides(input.size, input.stride));
    grads::strided_scatter::Result out;
    if (c.needs_input()) out.input = strided_scatter(same, zeros(size, g.dtype()), size, stride, offset);
    if (c.needs_src()) out.src = strided_view(same, size, stride, offset);
    return out;
  })
  .helper()
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,4), f(2,2), [2, 2], [4, 1], 1", "f(5), f(2), [2], [2], 0", "f(5), f(0), [0], [1], 0"})
  .error("f(5), f(3), [3], [2], 2", ErrorKind::Runtime, "out of bounds");

STRATA_OP(as_strided, "as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)")
  .doc(
    "A view of input's storage with explicit sizes, strides and offset, all counted in elements.\n\n"
    ">>> strata.arange(6).as_strided((2, 2), (1, 2))\ntensor([[0, 2],\n        [1, 3]])")
  .composite([](const Tensor& input, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
    STRATA_CHECK(storage_offset.value_or(0) >= 0, Runtime, "as_strided: expected a non-negative storage offset, got {}",
                 *storage_offset);
    return strided_view(input, size, stride, storage_offset ? *storage_offset - input->storage_offset() : 0);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(6), [2, 2], [2, 1], 1", "f(3,4), [2, 3], [1, 4]", "f(6), [], [], 2"})
  .error("f(6), [3, 3], [2, 1], 3", ErrorKind::Runtime, "out of bounds")
  .error("f(6), [3], [2, 1]", ErrorKind::Runtime, "mismatch in length")
  .error("f(6), [3], [-1]", ErrorKind::Runtime, "negative strides");

STRATA_OP(as_strided_scatter,
          "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor")
  .doc(
    "A copy of input in which the elements that as_strided would show are replaced by src.\n\n"
    ">>> strata.zeros(4).as_strided_scatter(strata.ones(2), (2,), (2,))\ntensor([1., 0., 1., 0.])")
  .composite([](const Tensor& input, const Tensor& src, IntList size, IntList stride,
                std::optional<int64_t> storage_offset) {
    return strided_scatter(input, src, size, stride,
                           storage_offset ? (Checked(*storage_offset) - input->storage_offset()).get() : 0);
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,4), f(2,2), [2, 2], [4, 1], 1", "f(5), f(2), [2], [2]"})
  .error("f(5), f(3), [3], [2], 2", ErrorKind::Runtime, "out of bounds")
  .error("f(3,4), f(2,2), [2, 2], [4, 1], 9223372036854775807", ErrorKind::Runtime, "out of bounds")
  .error("f(5), f(3), [2], [2]", ErrorKind::Runtime, "size equal to the slice");

STRATA_OP(select_scatter, "select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor")
  .doc(
    "A copy of input with src in place of one index of a dimension.\n\n>>> strata.zeros(2, "
    "2).select_scatter(strata.ones(2), 0, 1)\ntensor([[0., 0.],\n        [1., 1.]])")
  .composite([](const Tensor& input, const Tensor& src, int64_t dim, int64_t index) {
    return scatter_part(input, src, select_geometry(Geometry::contiguous(input.shape()), dim, index), "select_scatter");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), f(3), 0, 1", "f(2,3), f(2), -1, -1"})
  .error("f(2,3), f(2), 0, 1", ErrorKind::Runtime, "size equal to the slice")
  .error("f(2,3), f(3), 0, 2", ErrorKind::Index, "out of range");

STRATA_OP(slice_scatter,
          "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor")
  .doc(
    "A copy of input with src in place of a slice.\n\n>>> strata.zeros(4).slice_scatter(strata.ones(2), 0, 1, "
    "3)\ntensor([0., 1., 1., 0.])")
  .composite([](const Tensor& input, const Tensor& src, int64_t dim, std::optional<int64_t> start,
                std::optional<int64_t> end, int64_t step) {
    return scatter_part(input, src, slice_geometry(Geometry::contiguous(input.shape()), dim, start, end, step),
                        "slice_scatter");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(5,3), f(2,3), 0, 1, 3", "f(2,5), f(2,3), 1, None, None, 2"})
  .error("f(5), f(3), 0, 1, 3", ErrorKind::Runtime, "size equal to the slice")
  .error("f(5), f(3), 0, 1, 3, 0", ErrorKind::Value, "step");

STRATA_OP(diagonal_scatter,
          "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor")
  .doc(
    "A copy of input with src in place of a diagonal.\n\n>>> strata.zeros(2, "
    "2).diagonal_scatter(strata.ones(2))\ntensor([[1., 0.],\n        [0., 1.]])")
  .composite([](const Tensor& input, const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2) {
    return scatter_part(input, src, diagonal_geometry(Geometry::contiguous(input.shape()), offset, dim1, dim2),
                        "diagonal_scatter");
  })
  .no_out()
  .dtypes(kStorageTypes)
  .samples({"f(3,3), f(3)", "f(3,4), f(3), 1", "f(2,3,4), f(3,2), 0, 0, 2"})
  .error("f(3,3), f(2)", ErrorKind::Runtime, "size equal to the slice");

STRATA_OP(resize_inplace, "resize_(Tensor(a!) input, int[] size, *, str? memory_format=None) -> Tensor(a!)")
  .doc(
    "Gives the tensor another size: the elements stay in memory order, new ones are arbitrary. Views made before keep "
    "the old memory if it grows.\n\n>>> strata.arange(4).resize_(2, 2)\ntensor([[0, 1],\n        [2, 3]])")
  .composite([](const Tensor& input, IntList size, std::optional<std::string_view> format) {
    return resized(input, size, format, "resize_");
  })
  .no_out()
  .draws()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), [3]", "f(2,3), [4, 5]", "f(3), []", "f(2,3), [0]"})
  .error("f(2,3), [-1]", ErrorKind::Runtime, "negative");

STRATA_OP(resize_as_inplace,
          "resize_as_(Tensor(a!) input, Tensor the_template, *, str? memory_format=None) -> Tensor(a!)")
  .doc("Gives the tensor the size of another one; see resize_.")
  .composite([](const Tensor& input, const Tensor& the_template, std::optional<std::string_view> format) {
    return resized(input, the_template.shape(), format, "resize_as_");
  })
  .no_out()
  .draws()
  .dtypes(kStorageTypes)
  .samples({"f(2,3), f(3)"});

}  // namespace strata
