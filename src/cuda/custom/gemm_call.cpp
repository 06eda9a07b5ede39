#include "cuda/custom/gemm_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "cuda/common/tensors.h"
#include "cuda/custom/operands.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::gemm {
namespace {

// The strides of t in the dimensions of the batch, which has those of a result before its last two.
void batch_strides(const TensorImpl& t, int own_dims, const TensorImpl& out, int64_t (&to)[Product::kMaxBatch]) {
  const int batch = out.ndim - 2, leading = t.ndim - own_dims;
  for (int d = 0; d < batch; ++d) {
    const int from = d - (batch - leading);
    to[d] = from < 0 || t.shape[from] == 1 ? 0 : t.strides[from];
  }
}

// The stride of a dimension of size 1 is arbitrary: one that counts as dense.
int64_t stride_of(const TensorImpl& t, int from_end) {
  const int d = t.ndim - from_end;
  return t.shape[d] == 1 ? 1 : t.strides[d];
}

// Whether rows of t begin at multiples of `bytes` bytes in all matrices of the batch.
bool rows_begin_at(const TensorImpl& t, int64_t row_stride, int64_t rows, const int64_t* batch, int dims, int bytes) {
  const auto size = static_cast<uint64_t>(size_of(t.dtype));
  uint64_t all = cuda::address(t) | (rows > 1 ? static_cast<uint64_t>(row_stride) * size : 0);
  for (int d = 0; d < dims; ++d) all |= static_cast<uint64_t>(batch[d]) * size;
  return all % static_cast<uint64_t>(bytes) == 0;
}

// A factor as tensor cores read formats that are dense along k: rows of k elements, which begin at multiples of 16 bytes.
// An odd byte at the end of a row is followed by a zero. `row`: the dimension of the rows, from the end.
Tensor along_k(const Tensor& t, int row) {
  const int k_dim = t.dim() - 3 + row, row_dim = t.dim() - row;
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  const int64_t k = t.size(k_dim);
  int64_t batch[Product::kMaxBatch] = {};
  for (int d = 0; d < t.dim() - 2; ++d) batch[d] = t.size(d) == 1 ? 0 : t->strides[d];
  const bool dense = t->strides[k_dim] == 1 || k == 1;
  if (dense && k * size % 2 == 0 && (t->strides[row_dim] >= k || t.size(row_dim) == 1) &&
      rows_begin_at(*t, t->strides[row_dim], t.size(row_dim), batch, t.dim() - 2, 16))
    return t;
  const int64_t pitch = cuda::ceil_div(k * size, 128) * 128 / size;
  std::vector<int64_t> shape(t.shape().begin(), t.shape().end());
  shape[shape.size() - 2] = t.size(row_dim);
  shape[shape.size() - 1] = pitch;
  const Tensor whole = make_tensor(Shape(shape.data(), shape.size()), t.dtype(), t.device());
  if (k * size % 2) cuda::fill(*whole, Scalar(int64_t{0}));
  Tensor part = alias(*whole);
  for (int d = 0; d < t.dim() - 2; ++d) part->strides[d] = whole->strides[d];
  part->shape[row_dim] = t.size(row_dim);
  part->strides[row_dim] = pitch;
  part->shape[k_dim] = k;
  part->strides[k_dim] = 1;
  part->numel = t.numel();
  part->update_contiguous();
  cuda::copy(*part, *t);
  return part;
}

}  // namespace

Call::Call(const Config& config, const std::vector<ExtraUse>& extras, const Tensor& a, const Tensor& b,
           std::span<const Named> named, std::span<const Tensor> given)
    : c(config), uses(extras), left(a), right(b) {
  a.checked();
  b.checked();
  check_factors();
  set_shape(given);
  for (const ExtraUse& use : uses) add_extra(use, named);
  for (const Named& x : named)
    STRATA_CHECK(std::ranges::find(uses, x.name, &ExtraUse::name) != uses.end(), Type,
                 "{}: the epilogue \"{}\" has no '{}'", c.name, c.epilogue, x.name);
  set_params();
}

void Call::check_device(const TensorImpl& t, const char* what) const {
  STRATA_CHECK(
    t.device.type == DeviceType::Cuda || t.device.type == DeviceType::Vgpu || t.device.type == DeviceType::Meta,
    Runtime,
    "{}: {} is on {}, but the kernel needs tensors on a cuda or vgpu device; move it with .to(), or compute with "
    "ops, as in relu(a @ b + bias)",
    c.name, what, to_string(t.device));
  STRATA_CHECK(t.device == left.device(), Runtime, "{}: {} is on {} and the first factor on {}", c.name, what,
               to_string(t.device), to_string(left.device()));
}

void Call::check_factors() const {
  const TensorImpl &a = *left, &b = *right;
  const bool float8 = c.dtype == DType::F8E4M3 || c.dtype == DType::F8E5M2;
  for (const TensorImpl* t : {&a, &b}) {
    check_device(*t, t == &a ? "the first factor" : "the second factor");
    const bool fits = t->dtype == c.dtype || (float8 && (t->dtype == DType::F8E4M3 || t->dtype == DType::F8E5M2));
    STRATA_CHECK(fits, Type, "{}: expected factors of {}, got {}; convert with .to()", c.name, name_of(c.dtype),
                 name_of(t->dtype));
    STRATA_CHECK(t->ndim >= 2, Runtime, "{}: factors need two dimensions or more, got shape {}", c.name,
                 to_string(t->sizes()));
    STRATA_CHECK(t->ndim - 2 <= Product::kMaxBatch, Runtime, "{}: at most {} batch dimensions are possible, got {}",
                 c.name, Product::kMaxBatch, t->ndim - 2);
    for (int d = 0; d < t->ndim; ++d)
      STRATA_CHECK(t->shape[d] <= INT32_MAX / 2, Runtime, "{}: a size of {} is too large", c.name,
                   to_string(t->sizes()));
  }
  STRATA_CHECK(a.shape[a.ndim - 1] == b.shape[b.ndim - 2], Runtime,
               "{}: shapes {} and {} cannot be multiplied: the inner sizes {} and {} must be equal", c.name,
               to_string(a.sizes()), to_string(b.sizes()), a.shape[a.ndim - 1], b.shape[b.ndim - 2]);
}

void Call::set_shape(std::span<const Tensor> given) {
  const TensorImpl &a = *left, &b = *right;
  const int batch = std::max(a.ndim, b.ndim) - 2;
  std::vector<int64_t> shape;
  for (int d = 0; d < batch; ++d) {
    const int x = d - (batch - (a.ndim - 2)), y = d - (batch - (b.ndim - 2));
    const int64_t of_a = x < 0 ? 1 : a.shape[x], of_b = y < 0 ? 1 : b.shape[y];
    STRATA_CHECK(of_a == of_b || of_a == 1 || of_b == 1, Runtime,
                 "{}: the batch sizes {} and {} at dimension {} do not broadcast (shapes {} and {})", c.name, of_a,
                 of_b, d, to_string(a.sizes()), to_string(b.sizes()));
    shape.push_back(of_a == 1 ? of_b : of_a);
  }
  shape.push_back(a.shape[a.ndim - 2]);
  shape.push_back(b.shape[b.ndim - 1]);
  const Shape sizes(shape.data(), shape.size());
  const size_t count = c.second.empty() ? 1 : 2;
  STRATA_CHECK(given.empty() || given.size() == count, Type, "{}: expected {} outputs, got {}", c.name, count,
               given.size());
  for (size_t i = 0; i < count; ++i) {
    const DType made = i == 0 ? *c.out_dtype : *c.second_dtype;
    if (given.empty()) {
      outs.push_back(make_tensor(sizes, made, a.device));
      continue;
    }
    const TensorImpl& out = given[i].checked();
    check_device(out, "the output");
    STRATA_CHECK(out.dtype == made, Type, "{}: the output is {}, but the result is {}", c.name, name_of(out.dtype),
                 name_of(made));
    STRATA_CHECK(std::ranges::equal(out.sizes(), sizes), Runtime, "{}: the output has shape {}, but the result has {}",
                 c.name, to_string(out.sizes()), to_string(sizes));
    outs.push_back(given[i]);
  }
  if (c.amax) outs.push_back(make_tensor(Shape(shape.data(), 0), DType::F32, a.device));
}

void Call::add_extra(const ExtraUse& use, std::span<const Named> named) {
  STRATA_CHECK(std::ranges::count(named, use.name, &Named::name) == 1, Type,
               "{}: the epilogue \"{}\" needs '{}' once; pass it by name", c.name, c.epilogue, use.name);
  const Value& v = std::ranges::find(named, use.name, &Named::name)->value.value;
  Extra& x = p.extras[variant.extras.size()];
  const bool is_tensor = v.tag == Tag::Tensor;
  if (use.kind == ExtraUse::Kind::Number) {
    const bool is_on_host = is_tensor && v.tensor->device.type == DeviceType::Cpu && v.tensor->numel == 1;
    if (!is_tensor || is_on_host) {
      x.value = is_on_host ? Tensor(Ref<TensorImpl>::share(v.tensor)).item().to_double() : v.number();
      variant.extras.push_back(DType::F64);
      variant.numbers.push_back(true);
      return;
    }
  }
  STRATA_CHECK(is_tensor, Type, "{}: '{}' has indices in the epilogue, so it must be a tensor, got a number", c.name,
               use.name);
  add_tensor(use, *v.tensor, x);
  variant.extras.push_back(v.tensor->dtype);
  variant.numbers.push_back(false);
  const bool is_by_element = use.kind == ExtraUse::Kind::Matrix && use.by_row;
  (is_by_element ? by_element : others).push_back(v.tensor);
}

void Call::add_tensor(const ExtraUse& use, const TensorImpl& t, Extra& x) const {
  const Tensor& out = outs[0];
  check_device(t, fmt::format("'{}'", use.name).c_str());
  const int own = static_cast<int>(use.kind);  // dimensions that are indexed
  const int64_t m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
  STRATA_CHECK(t.ndim >= own, Runtime, "{}: '{}' has {} indices in the epilogue, but shape {}", c.name, use.name, own,
               to_string(t.sizes()));
  const auto set_axis = [&](int i, int64_t want, const char* index) {
    const int d = t.ndim - own + i;
    STRATA_CHECK(want < 0 || t.shape[d] == want || t.shape[d] == 1, Runtime,
                 "{}: '{}' has shape {}, but index {} of the epilogue goes to {}", c.name, use.name,
                 to_string(t.sizes()), index, want);
    x.size[i] = t.shape[d];
    x.stride[i] = want >= 0 && t.shape[d] == 1 ? 0 : t.strides[d];
  };
  if (own == 1) set_axis(0, use.by_row ? n : use.by_column ? m : -1, use.by_row ? "n" : "m");
  if (own == 2) {
    set_axis(0, use.by_row ? m : -1, "m");
    set_axis(1, use.by_row ? n : -1, "n");
  }
  x.data = cuda::address(t);
  if (own == 0 && t.numel == 1) return;  // of any number of dimensions, for the whole batch
  const int leading = t.ndim - own, batch = out->ndim - 2;
  bool fits = leading <= batch;
  for (int d = 0; fits && d < leading; ++d) fits = t.shape[d] == 1 || t.shape[d] == out->shape[batch - leading + d];
  STRATA_CHECK(fits, Runtime, "{}: the batch of '{}', of shape {}, does not broadcast to that of the result, {}",
               c.name, use.name, to_string(t.sizes()), to_string(out->sizes()));
  batch_strides(t, own, *out, x.batch);
}

// Bytes of the widest copies with which a factor can be read; 0 if it must be read element by element.
int Call::vector_of(const TensorImpl& t, int64_t dense_stride, int64_t ld, int64_t rows, const int64_t* batch) const {
  if (is_in_units(c)) return 16;
  if (!is_on_tensor_cores(c) || dense_stride != 1) return 0;
  for (const int bytes : {16, 8, 4})
    if (rows_begin_at(t, ld, rows, batch, p.batch_dims, bytes)) return bytes;
  return 0;
}

void Call::set_params() {
  const TensorImpl& o = *outs[0];
  p.m = o.shape[o.ndim - 2];
  p.n = o.shape[o.ndim - 1];
  p.k = left->shape[left.dim() - 1];
  p.batch_dims = o.ndim - 2;
  p.batches = 1;
  for (int d = 0; d < p.batch_dims; ++d) {
    p.batch[d] = o.shape[d];
    p.batches *= o.shape[d];
  }
  const auto describe = [&](const TensorImpl& t, int64_t& m, int64_t& n, int64_t(&batch)[Product::kMaxBatch],
                            int32_t& wide, int32_t& pairs) {
    m = t.strides[t.ndim - 2];
    n = stride_of(t, 1);
    batch_strides(t, 2, o, batch);
    wide = size_of(t.dtype) == 2 && n == 1 && rows_begin_at(t, m, p.m, batch, p.batch_dims, 16);
    pairs = n == 1 && rows_begin_at(t, m, p.m, batch, p.batch_dims, 2 * static_cast<int>(size_of(t.dtype)));
    return cuda::address(t);
  };
  p.c = describe(o, p.c_m, p.c_n, p.c_b, p.wide_stores, p.pairs);
  if (!c.second.empty())
    p.second.data = describe(*outs[1], p.second.m, p.second.n, p.second_b, p.second_wide, p.second.pairs);
  if (c.amax) p.amax = cuda::address(*outs.back());
  variant.a_dtype = left.dtype();
  variant.b_dtype = right.dtype();
}

void Call::check_outputs(const Tensor& a, const Tensor& b) {
  const size_t count = c.second.empty() ? 1 : 2;
  others.insert(others.end(), {&*a, &*b});
  for (size_t i = 0; i < count; ++i) {
    cuda::check_output_memory(c.name, "out", *outs[i], by_element);
    cuda::check_output_memory(c.name, "out", *outs[i], others, false);
  }
  if (count == 2)
    cuda::check_output_memory(c.name, "out", *outs[0], std::array<const TensorImpl*, 1>{&*outs[1]}, false);
}

void Call::prepare() {
  if (c.amax) cuda::fill(*outs.back(), Scalar(0.0));
  if (is_empty()) return;
  if (is_in_units(c)) {
    left = along_k(left, 2);
    right = along_k(right, 1);
  }
  const TensorImpl &a = *left, &b = *right, &o = *outs[0];
  p.a_m = stride_of(a, 2);
  p.a_k = stride_of(a, 1);
  p.b_k = stride_of(b, 2);
  p.b_n = stride_of(b, 1);
  batch_strides(a, 2, o, p.a_b);
  batch_strides(b, 2, o, p.b_b);
  p.a = cuda::address(a);
  p.b = cuda::address(b);
  variant.a_along_k = is_in_units(c) || (p.a_k == 1 && (p.a_m != 1 || p.m == 1));
  variant.b_along_k = is_in_units(c) || (p.b_k == 1 && (p.b_n != 1 || p.n == 1));
  variant.a_vector =
    variant.a_along_k ? vector_of(a, p.a_k, p.a_m, p.m, p.a_b) : vector_of(a, p.a_m, p.a_k, p.k, p.a_b);
  variant.b_vector =
    variant.b_along_k ? vector_of(b, p.b_k, p.b_n, p.n, p.b_b) : vector_of(b, p.b_n, p.b_k, p.k, p.b_b);
  if (!is_in_units(c)) return;
  const auto in_units = [size = static_cast<int64_t>(size_of(c.dtype))](int64_t x) {
    return cuda::ceil_div(x * size, 2);
  };
  p.k = in_units(p.k);
  p.a_m = in_units(p.a_m);
  p.b_n = in_units(p.b_n);
  p.a_k = p.b_k = 1;
  for (int d = 0; d < p.batch_dims; ++d) {
    p.a_b[d] = in_units(p.a_b[d]);
    p.b_b[d] = in_units(p.b_b[d]);
  }
}

// How Hopper's kernel reads the tensors of the epilogue. False if it cannot.
bool Call::choose_reading() {
  bool staged = false;  // there is room for one
  variant.reading.assign(uses.size(), Reading::Elements);
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].kind == ExtraUse::Kind::Number) continue;
    if (!uses[i].by_row && !uses[i].by_column) return false;  // other indices
    if (uses[i].kind == ExtraUse::Kind::Vector) continue;
    const Extra& x = p.extras[i];
    const auto size = static_cast<uint64_t>(size_of(variant.extras[i]));
    uint64_t all = x.data | static_cast<uint64_t>(x.stride[0]) * size;
    for (int d = 0; d < p.batch_dims; ++d) all |= static_cast<uint64_t>(x.batch[d]) * size;
    const DType type = variant.extras[i];
    if (x.stride[1] != 1) continue;
    if (!staged && (type == DType::F16 || type == DType::BF16) && all % 16 == 0) {
      variant.reading[i] = Reading::Staged;
      staged = true;
    } else if (all % (2 * size) == 0) {
      variant.reading[i] = Reading::Pairs;
    }
  }
  return true;
}

bool Call::lay_out_for_hopper(const cuda::Gpu& gpu, cuda::GemmLayout& l) {
  const bool has_std =
    std::ranges::any_of(c.options, [](const std::string& o) { return o.find("-std") == 0 || o.find("--std") == 0; });
  if (gpu.properties.major != 9 || !is_on_tensor_cores(c) || has_std || !choose_reading()) return false;
  if (variant.a_vector != 16 || variant.b_vector != 16 || p.k == 0 || p.batch_dims > cuda::GemmLayout::kBatchDims)
    return false;
  // A single row has any stride; one that TMA accepts.
  const auto ld = [](int64_t stride, int64_t rows, int64_t columns) {
    return rows > 1 ? stride : cuda::ceil_div(columns, 8) * 8;
  };
  l = {};
  l.m = p.m;
  l.n = p.n;
  l.k = p.k;
  l.a = {variant.a_along_k, variant.a_along_k ? ld(p.a_m, p.m, p.k) : ld(p.a_k, p.k, p.m), p.a};
  l.b = {variant.b_along_k, variant.b_along_k ? ld(p.b_n, p.n, p.k) : ld(p.b_k, p.k, p.n), p.b};
  if (l.a.ld < (l.a.along_k ? p.k : p.m) || l.b.ld < (l.b.along_k ? p.k : p.n)) return false;  // expanded rows
  l.c = p.c;
  l.c_ld = ld(p.c_m, p.m, p.n);
  l.addend = cuda::Addend::None;
  l.alpha = 1;
  for (int d = 0; d < cuda::GemmLayout::kBatchDims; ++d) {
    const int from = d - (cuda::GemmLayout::kBatchDims - p.batch_dims);
    l.batch[d] = from < 0 ? 1 : p.batch[from];
    l.a_b[d] = from < 0 ? 0 : p.a_b[from];
    l.b_b[d] = from < 0 ? 0 : p.b_b[from];
    l.c_b[d] = from < 0 ? 0 : p.c_b[from];
  }
  // The sums of the `wide` tiles leave few registers for an epilogue.
  const bool is_long = !c.second.empty() || c.amax || !std::ranges::all_of(variant.numbers, std::identity());
  const uint32_t allowed = cuda::kAllHopperTiles & ~(is_long ? 1u << cuda::kWideTiles : 0u);
  const cuda::HopperChoice choice = cuda::choose_hopper_tiles(l, gpu.properties.multiprocessors, allowed);
  variant.hopper = &cuda::kHopperTiles[choice.tiles];
  return cuda::fits_hopper(l, variant.hopper->shape);
}

std::string Call::key() const {
  std::string text = fmt::format("{} {} {} {} {} {} {} {}", to_string(left.device()), variant.a_along_k,
                                 variant.b_along_k, variant.a_vector, variant.b_vector, name_of(variant.a_dtype),
                                 name_of(variant.b_dtype), variant.hopper ? variant.hopper->name : "");
  for (size_t i = 0; i < uses.size(); ++i) {
    text += variant.numbers[i] ? " number" : fmt::format(" {}", name_of(variant.extras[i]));
    if (variant.hopper) text += fmt::format(" {}", static_cast<int>(variant.reading[i]));
  }
  return text;
}

}  // namespace strata::gemm
