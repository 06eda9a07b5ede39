#include "tensor/tensor.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

namespace strata {

void TensorImpl::destroy(TensorImpl* t) {
  static_assert(sizeof(TensorImpl) == 240, "a member is new: if it owns something, owns_more has to know it");
  const auto bits = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  const bool owns_more = (bits(t->history.get()) | bits(t->grad.get()) | bits(t->base.get()) | bits(t->extra.get()) |
                          bits(t->write_counter.get()) | (bits(t->shape) ^ bits(t->inline_dims_))) != 0;
  if (owns_more) [[unlikely]]
    t->~TensorImpl();
  else if (Storage* memory = t->storage.release())  // most tensors own only this
    Ref<Storage>::drop(memory);
  Pool<TensorImpl>::give(t);
}

void TensorImpl::reserve_many_dims(int n) {
  STRATA_CHECK(n <= kMaxDims, Runtime, "a tensor has at most {} dimensions, got {}", kMaxDims, n);
  if (shape != inline_dims_) return;
  auto* many = new int64_t[2 * kMaxDims];
  std::copy_n(shape, kInlineDims, many);
  std::copy_n(strides, kInlineDims, many + kMaxDims);
  shape = many;
  strides = many + kMaxDims;
}

void TensorImpl::set_shape(Shape s) {
  STRATA_CHECK(s.size() <= kMaxDims, Runtime, "a tensor has at most {} dimensions, got shape {}", kMaxDims,
               to_string(s));
  for (int64_t n : s) STRATA_CHECK(n >= 0, Runtime, "a size cannot be negative, got shape {}", to_string(s));
  set_ndim(static_cast<int>(s.size()));
  for (size_t d = 0; d < s.size(); ++d) shape[d] = s[d];
}

int64_t checked_numel(Shape shape) {
  int64_t n = 1;
  bool empty = false, overflow = false;
  for (int64_t s : shape) {
    empty |= s == 0;
    overflow |= __builtin_mul_overflow(n, std::max<int64_t>(s, 1), &n);
  }
  // Checked for empty tensors too: strides, and products of some of the sizes, must not overflow.
  STRATA_CHECK(!overflow && n <= INT64_MAX / 16, Runtime, "shape {} has more elements than can be addressed",
               to_string(shape));
  return empty ? 0 : n;
}

void TensorImpl::set_contiguous_strides() {
  int64_t n = 1;
  for (int d = ndim; d-- > 0;) {
    strides[d] = n;
    const int64_t size = std::max<int64_t>(shape[d], 1);
    if (__builtin_mul_overflow(n, size, &n) || n > INT64_MAX / 16) [[unlikely]]
      checked_numel(sizes());  // throws
  }
  numel = n;
  for (int d = 0; d < ndim; ++d)
    if (shape[d] == 0) numel = 0;
  contiguous = true;
}

void TensorImpl::update_contiguous() {
  int64_t n = 1;
  contiguous = true;
  for (int d = ndim; d-- > 0; n *= shape[d]) contiguous &= shape[d] == 1 || strides[d] == n;
  numel = n;
  if (n == 0) contiguous = true;
}

void TensorImpl::set_strides_like(const TensorImpl& other) {
  if (other.contiguous || other.ndim != ndim) return set_contiguous_strides();
  // PyTorch's order, the fastest dimension first: an insertion sort in which an expanded dimension (stride 0) fits
  // anywhere, so that it stays where it is.
  int order[kMaxDims];
  for (int d = 0; d < ndim; ++d) {
    order[d] = ndim - 1 - d;
    for (int at = d, before = d - 1; before >= 0; --before) {
      const int64_t own = other.strides[order[at]], slower = other.strides[order[before]];
      if (own == 0 || slower == 0 || (own == slower && shape[order[before]] <= shape[order[at]])) continue;
      if (own > slower) break;
      std::swap(order[at], order[before]);
      at = before;
    }
  }
  int64_t n = 1;
  for (int k = 0; k < ndim; ++k) {
    strides[order[k]] = n;
    n *= std::max<int64_t>(shape[order[k]], 1);
  }
  update_contiguous();
}

bool TensorImpl::is_dense() const {
  if (contiguous) return true;
  int order[kMaxDims], count = 0;
  for (int d = 0; d < ndim; ++d)
    if (shape[d] != 1) order[count++] = d;
  std::stable_sort(order, order + count, [&](int a, int b) { return strides[a] > strides[b]; });
  int64_t n = 1;
  for (int k = count; k-- > 0; n *= shape[order[k]])
    if (strides[order[k]] != n) return false;
  return true;
}

int normalize_dim(int64_t dim, int ndim, const char* op) {
  const int range = std::max(ndim, 1);
  STRATA_CHECK(dim >= -range && dim < range, Index,
               "{}: dimension out of range (expected to be in range of [{}, {}], but got {})", op, -range, range - 1,
               dim);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

void refuse_complex_number() {
  fail(ErrorKind::Runtime,
       "value cannot be converted to a real type without overflow: it is complex, and would lose its imaginary part");
}

void refuse_undefined() {
  fail(ErrorKind::Type, "this tensor is undefined (a Tensor() that nothing was assigned to); `if (t)` tells");
}
void refuse_element_type(const TensorImpl& t, DType asked) {
  fail(ErrorKind::Type, fmt::format("this tensor has elements of {}, and was read as {}; convert it with to({}) first",
                                    name_of(t.dtype), name_of(asked), name_of(asked)));
}

namespace {
// Guards the gradient pointer while it is copied or exchanged: a few instructions, so a spin lock is enough.
class GradLock {
 public:
  explicit GradLock(const TensorImpl& t)
      : flag_(flags[reinterpret_cast<uintptr_t>(&t) / sizeof(TensorImpl) % std::size(flags)]) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~GradLock() { flag_.clear(std::memory_order_release); }
  GradLock(const GradLock&) = delete;
  GradLock& operator=(const GradLock&) = delete;

 private:
  static inline std::atomic_flag flags[64];
  std::atomic_flag& flag_;
};
}  // namespace

Ref<TensorImpl> TensorImpl::shared_grad() const {
  const GradLock lock(*this);
  return grad;
}
void TensorImpl::swap_grad(Ref<TensorImpl>& other) {
  const GradLock lock(*this);
  std::swap(grad, other);
}
int64_t Tensor::stride(int64_t d) const {
  const TensorImpl& t = checked();
  STRATA_CHECK(t.ndim > 0, Index, "stride: a zero-dimensional tensor has no dimension {}", d);
  return t.strides[normalize_dim(d, t.ndim, "stride")];
}

Tensor Tensor::grad() const {
  const TensorImpl& t = checked();
  if (promising.load(std::memory_order_relaxed)) [[unlikely]]
    tell_of_grad(t);
  return t.shared_grad();
}
void Tensor::set_grad(Tensor g) { checked().swap_grad(g); }

void TensorImpl::keep_version(uint32_t version) {
  write_counter = Ref<WriteCounter>::adopt(new WriteCounter);
  write_counter->version.store(version, std::memory_order_relaxed);
}

void TensorImpl::replace_storage(Ref<Storage> fresh) {
  if (!write_counter) fresh->version.store(version(), std::memory_order_relaxed);
  storage = std::move(fresh);
  data = storage->data;
}

Tensor& Tensor::set_requires_grad(bool on) {
  STRATA_CHECK(on || !checked().history, Runtime,
               "only a leaf tensor can stop requiring a gradient; use detach() for a tensor that was computed");
  STRATA_CHECK(!on || is_differentiable(dtype()), Runtime,
               "only tensors of floating-point and complex dtype can require gradients, this one is {}",
               name_of(dtype()));
  STRATA_CHECK(!on || !get()->inference, Runtime,
               "an inference tensor cannot require a gradient; clone() it outside inference_mode() first");
  get()->requires_grad = on;
  return *this;
}

Scalar Tensor::item() const {
  STRATA_CHECK(numel() == 1, Runtime,
               "item: a tensor with {} elements cannot be converted to a number; the shape is {}", numel(),
               strata::to_string(shape()));
  STRATA_CHECK(!is_meta(), Runtime, "Tensor.item() cannot be called on meta tensors");
  const Tensor host = device().type == DeviceType::Cpu ? Tensor() : to_host(**this);
  const std::byte* at = host ? host.bytes() : bytes();
  return dispatch_dtype(dtype(), [&]<class T>() -> Scalar {
    const T v = *reinterpret_cast<const T*>(at);
    if constexpr (std::is_same_v<T, uint64_t>)
      STRATA_CHECK(v <= INT64_MAX, Runtime, "item: {} does not fit int64; read it with data<uint64_t>()", v);
    if constexpr (kIsComplex<T>) return convert<Complex<double>>(v);
    else if constexpr (std::is_same_v<T, BoolByte>) return static_cast<bool>(v);
    else if constexpr (std::is_arithmetic_v<T>) return v;
    else return static_cast<float>(v);
  });
}

Tensor make_tensor(Shape shape, DType dtype, Device device) {
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = dtype;
  t->device = device;
  t->set_shape(shape);
  t->set_contiguous_strides();
  t->allocate();
  return t;
}

Tensor shape_only(const TensorImpl& from) {
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = from.dtype;
  t->device = from.device;
  t->set_ndim(from.ndim);
  t->numel = from.numel;
  t->contiguous = from.contiguous;
  t->inference = from.inference;
  t->wrapped_number = from.wrapped_number;
  std::copy_n(from.shape, from.ndim, t->shape);
  std::copy_n(from.strides, from.ndim, t->strides);
  return t;
}

Tensor alias(const TensorImpl& from) {
  Tensor t = shape_only(from);
  t->storage = from.storage;
  t->data = from.data;
  t->write_counter = from.write_counter;
  return t;
}

Tensor part_of(const TensorImpl& from, int part) {
  Tensor view = alias(from);
  view->dtype = real_type(from.dtype);
  view->data += static_cast<size_t>(part) * size_of(view->dtype);
  for (int d = 0; d < from.ndim; ++d) view->strides[d] *= 2;
  view->update_contiguous();
  return view;
}

Tensor data_of(const TensorImpl& from) {
  Tensor t = alias(from);
  t->keep_version(0);
  return t;
}

std::string to_string(Shape shape) {
  std::string s = "[";
  for (int64_t n : shape) s += (s.size() > 1 ? ", " : "") + std::to_string(n);
  return s + "]";
}

void set_data(const Tensor& t, const Tensor& other) {
  TensorImpl& me = *t;
  me.keep_version(me.version() + 1);
  me.storage = other->storage;
  me.data = other->data;
  me.dtype = other->dtype;
  me.device = other->device;
  me.set_ndim(other->ndim);
  me.numel = other->numel;
  me.contiguous = other->contiguous;
  std::copy_n(other->shape, other->ndim, me.shape);
  std::copy_n(other->strides, other->ndim, me.strides);
}

}  // namespace strata
