// Tensor: one intrusive pointer; shape and strides of up to kInlineDims dimensions are stored inside the object.
#pragma once
#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tensor/allocator.h"
#include "tensor/device.h"
#include "tensor/device_hooks.h"
#include "tensor/dtype.h"
#include "tensor/options.h"
#include "tensor/promise.h"
#include "tensor/values.h"

namespace strata {

constexpr int kMaxDims = 64, kInlineDims = 8;

// A set of dimensions: bit d is dimension d.
using DimMask = uint64_t;
constexpr DimMask dim_bit(int d) { return DimMask{1} << d; }
constexpr DimMask all_dims(int ndim) { return ndim == 64 ? ~DimMask{0} : dim_bit(ndim) - 1; }

struct TensorImpl;
struct Operand;
struct Index;
struct TensorList;
class Generator;

// How a value was computed. This layer only shares and releases it; the tape defines its contents.
struct STRATA_API History {
  std::atomic<int32_t> refs{1};
  void (*release)(History*) = nullptr;
  static void destroy(History* h) { h->release(h); }
};
// Rarely used data: hooks, a retained gradient, a name. Defined by the tape.
struct STRATA_API TensorExtra {
  virtual ~TensorExtra() = default;
};

// Methods of an undefined tensor throw Type. `->`, `*` and get() are unchecked.
[[noreturn, gnu::cold]] STRATA_API void refuse_undefined();
[[noreturn, gnu::cold]] STRATA_API void refuse_element_type(const TensorImpl& t, DType asked);

// Counts in-place writes to tensors with a counter of their own: x.data, and a tensor whose data was exchanged.
struct STRATA_API WriteCounter {
  std::atomic<int32_t> refs{1};
  std::atomic<uint32_t> version{0};
  static void destroy(WriteCounter* c) { delete c; }
};

// How a view was created. Autograd rejects writes through views that were not recorded as views of their base.
enum class ViewOrigin : uint8_t { Recorded, NoGrad, Inference, CustomFunction };

class STRATA_API Tensor : public Ref<TensorImpl> {
 public:
  Tensor() = default;  // undefined: `if (t)` is false
  Tensor(Ref<TensorImpl> r) : Ref(std::move(r)) {}
  bool defined() const { return get() != nullptr; }

  inline Shape shape() const;
  inline Shape sizes() const;              // the same
  inline int64_t size(int64_t dim) const;  // negative dims count from the end
  inline Shape strides() const;
  int64_t stride(int64_t dim) const;
  inline int dim() const;
  inline int64_t numel() const;
  inline DType dtype() const;
  inline Device device() const;
  inline TensorOptions options() const;  // its dtype and device, for another tensor like it
  inline size_t element_size() const;    // in bytes
  inline size_t nbytes() const;
  inline bool is_cpu() const;
  inline bool is_cuda() const;
  inline bool is_contiguous() const;
  inline bool is_meta() const;  // shape and dtype only, no values
  inline bool requires_grad() const;
  inline std::byte* bytes() const;
  // T must be the element type, or that of the parts of a complex number (any tensor can be read as bytes); throws if it
  // is not, or if the host cannot read the memory.
  template <class T> T* data() const;
  template <class T> T* data_ptr() const { return data<T>(); }
  void* data_ptr() const { return bytes(); }  // the address, also of memory on a device
  template <class T> T item() const;          // the only element, converted
  Scalar item() const;
  Tensor grad() const;  // thread-safe while another thread runs backward, as is set_grad
  Tensor& set_requires_grad(bool on = true);
  Tensor& requires_grad_(bool on = true) { return set_requires_grad(on); }
  void set_grad(Tensor g);
  // Accumulates gradients into the leaves' .grad; a tensor of several elements needs a `gradient`.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  std::string to_string() const;  // printed as PyTorch prints it

  TensorImpl& checked() const {  // the object, which must be defined
    if (!get()) [[unlikely]]
      refuse_undefined();
    return *get();
  }

#ifdef STRATA_TENSOR_METHODS  // set by <strata/strata.h>: every op as a method. The library itself does without, so that a
#include "strata/tensor_methods.inc"  // new op does not rebuild it.
  // Defined in <strata/methods.h>. index and index_put_ take what Python takes between brackets.
  Tensor operator[](int64_t index) const;
  Tensor operator[](const Tensor& index) const;
  Tensor index(std::initializer_list<Index> indices) const;
  Tensor index_put_(std::initializer_list<Index> indices, const Operand& value) const;
  Tensor slice(int64_t dim = 0, std::optional<int64_t> start = {}, std::optional<int64_t> end = {},
               int64_t step = 1) const;
  template <std::same_as<TensorOptions> Options> Tensor to(const Options& options) const;
  Tensor cpu() const;
  Tensor cuda() const;
  bool equal(const Tensor& other) const;
  bool allclose(const Tensor& other, double rtol = 1e-05, double atol = 1e-08, bool equal_nan = false) const;
  bool is_leaf() const;
  void retain_grad() const;
#endif
};

struct STRATA_API TensorImpl {
  std::atomic<int32_t> refs{1};
  DType dtype = DType::F32;
  uint8_t ndim = 0;
  bool requires_grad = false;  // a leaf that requires a gradient, or the output of a recorded node
  bool contiguous = true;
  Device device;
  bool inference = false;                    // created in inference_mode: must not enter the tape
  bool wrapped_number = false;               // a Python number: promoted as one
  ViewOrigin origin = ViewOrigin::Recorded;  // of a view
  uint32_t rebases = 0;  // of a base: recorded in-place writes; of a view: how many of them it has seen
  uint32_t output = 0;   // index of this output of `history`
  int64_t numel = 1;
  std::byte* data = nullptr;  // null for shape-only tensors; on meta, the offset of a view in bytes
  Ref<Storage> storage;
  Ref<History> history;
  Ref<TensorImpl> grad;  // use shared_grad() and swap_grad() if other threads may run backward
  Ref<TensorImpl> base;  // of a view: the tensor whose memory it shows
  Lazy<TensorExtra> extra;
  void* python = nullptr;           // its Python object, if one exists; that object owns this one, not vice versa
  Ref<WriteCounter> write_counter;  // null: uses the storage's counter, which all its tensors share
  // Strides are in elements. Call set_ndim() or reserve_dims() before setting more entries than kInlineDims.
  int64_t *shape = inline_dims_, *strides = inline_dims_ + kInlineDims;

  TensorImpl() = default;
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;
  ~TensorImpl() {
    if (shape != inline_dims_) [[unlikely]]
      delete[] shape;
  }
  static TensorImpl* make() { return new (Pool<TensorImpl>::take()) TensorImpl; }
  static void destroy(TensorImpl*);

  Shape sizes() const { return {shape, ndim}; }
  bool same_shape(const TensorImpl& o) const {  // a loop, not std::equal: memcmp stalls on sizes that were just stored
    if (ndim != o.ndim) return false;
    for (int d = 0; d < ndim; ++d)
      if (shape[d] != o.shape[d]) return false;
    return true;
  }
  void reserve_dims(int n) {  // keeps the entries
    if (n > kInlineDims) [[unlikely]]
      reserve_many_dims(n);
  }
  void set_ndim(int n) {  // the new entries have no values yet
    reserve_dims(n);
    ndim = static_cast<uint8_t>(n);
  }
  void set_shape(Shape s);        // checks sizes and rank
  void set_contiguous_strides();  // row-major; computes numel with overflow checks
  void update_contiguous();       // after setting shape and strides directly
  void set_strides_like(
    const TensorImpl& other);  // dense, in the memory order of `other` (channels-last stays channels-last)
  void allocate() { allocate_bytes(static_cast<size_t>(numel) * size_of(dtype)); }
  void allocate_bytes(size_t bytes) {
    storage = device.type == DeviceType::Cpu ? strata::allocate(bytes) : allocate_on(device, bytes);
    data = storage->data;
  }
  bool is_dense() const;      // some permutation of its dimensions is contiguous
  uint32_t version() const {  // in-place writes that saved tensors must detect
    if (write_counter) [[unlikely]]
      return write_counter->version.load(std::memory_order_relaxed);
    return storage ? storage->version.load(std::memory_order_relaxed) : 0;
  }
  void count_write() const {
    Storage::add_one(write_counter ? write_counter->version : storage->version);
    if (write_counter) [[unlikely]]
      Storage::add_one(storage->unseen);
  }
  Ref<TensorImpl> shared_grad() const;
  void swap_grad(Ref<TensorImpl>& other);
  void keep_version(uint32_t version);       // from now on, has its own counter that continues from `version`
  void replace_storage(Ref<Storage> fresh);  // its version continues, so that saved tensors detect the change
  int64_t storage_offset() const { return storage ? (data - storage->data) / static_cast<int64_t>(size_of(dtype)) : 0; }

 private:
  void reserve_many_dims(int n);
  int64_t inline_dims_[2 * kInlineDims];  // uninitialized past ndim
};

inline Shape Tensor::shape() const { return checked().sizes(); }
inline Shape Tensor::sizes() const { return shape(); }
inline Shape Tensor::strides() const { return {checked().strides, get()->ndim}; }
inline int Tensor::dim() const { return checked().ndim; }
inline int64_t Tensor::numel() const { return checked().numel; }
inline DType Tensor::dtype() const { return checked().dtype; }
inline Device Tensor::device() const { return checked().device; }
inline TensorOptions Tensor::options() const { return TensorOptions(dtype()).device(device()); }
inline size_t Tensor::element_size() const { return size_of(dtype()); }
inline size_t Tensor::nbytes() const { return static_cast<size_t>(numel()) * element_size(); }
inline bool Tensor::is_cpu() const { return device().type == DeviceType::Cpu; }
inline bool Tensor::is_cuda() const { return device().type == DeviceType::Cuda; }
inline bool Tensor::is_meta() const { return checked().device.type == DeviceType::Meta; }
inline bool Tensor::is_contiguous() const { return checked().contiguous; }
inline bool Tensor::requires_grad() const {  // a view also reflects writes to its base
  const TensorImpl& t = checked();
  return t.requires_grad || (t.base && t.base->rebases != t.rebases && t.base->requires_grad);
}
inline std::byte* Tensor::bytes() const {
  const TensorImpl& t = checked();
  need_values(t.storage.get(), "data");
  return t.data;
}
template <class T> T* Tensor::data() const {
  using Element = std::remove_cv_t<T>;
  const TensorImpl& t = checked();
  if (t.device.type != DeviceType::Cpu) [[unlikely]]
    refuse_host_access(t);
  if constexpr (sizeof(Element) != 1 || std::is_same_v<Element, bool> || std::is_same_v<Element, int8_t>) {
    if (t.dtype != dtype_of<Element> && real_type(t.dtype) != dtype_of<Element>) [[unlikely]]
      refuse_element_type(t, dtype_of<Element>);
  }
  need_values(t.storage.get(), "data");
  return reinterpret_cast<T*>(t.data);
}

// The dimension `dim` counted from the front; throws Index if out of range. A zero-dimensional tensor accepts 0 and -1.
STRATA_API int normalize_dim(int64_t dim, int ndim, const char* op);
inline int64_t Tensor::size(int64_t d) const {
  const TensorImpl& t = checked();
  const int at = normalize_dim(d, t.ndim, "size");
  return t.ndim ? t.shape[at] : 1;
}
template <class T> T Tensor::item() const { return item().to<T>(); }

// How tensors are printed; the defaults are PyTorch's.
struct PrintOptions {
  int precision = 4;
  int64_t threshold = 1000;  // larger tensors are summarized
  int64_t edge_items = 3;    // shown at each end of a summarized dimension
  int64_t line_width = 80;
  std::optional<bool> scientific;  // unset: chosen by the values
};
STRATA_API extern PrintOptions print_options;
STRATA_API std::ostream& operator<<(std::ostream& out, const Tensor& t);
// Text after the values, e.g. "grad_fn=<MulBackward0>"; set by the tape.
STRATA_API extern std::string (*describe_history)(const TensorImpl&);

STRATA_API Tensor make_tensor(Shape shape, DType dtype, Device device = {});  // uninitialized memory
STRATA_API Tensor alias(const TensorImpl& t);    // same memory and version, no history, no base
STRATA_API Tensor data_of(const TensorImpl& t);  // like alias, with its own version: saved tensors do not detect writes
STRATA_API Tensor part_of(const TensorImpl& t,
                          int part);                // alias of the real (0) or imaginary (1) parts of a complex t
STRATA_API Tensor shape_only(const TensorImpl& t);  // same shape, no memory: kept by the tape if values are not needed
// Gives `t` the memory, dtype and shape of `other`. The object stays the same, with its history and hooks. Counts as a
// write: a backward pass that saved the old values raises.
STRATA_API void set_data(const Tensor& t, const Tensor& other);
STRATA_API int64_t checked_numel(Shape shape);  // throws if the product overflows

}  // namespace strata
