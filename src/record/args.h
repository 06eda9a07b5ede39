// Args: the arguments of an op call. A fixed array of tagged 16-byte values on the stack; it owns nothing.
#pragma once
#include <optional>
#include <string_view>

#include "tensor/tensor.h"

namespace strata {

class Generator;

enum class Tag : uint8_t {
  None,
  Tensor,
  Float,
  Int,
  Bool,
  Complex,
  Ints,
  Floats,
  Str,
  Tensors,
  DType,
  Device,
  Generator
};

// A view of tensors (a Tensor is one pointer, so an array of them is an array of TensorImpl*). Entries may be
// undefined.
struct TensorList : std::span<const Tensor> {
  using std::span<const Tensor>::span;
  TensorList(std::span<const Tensor> s) : std::span<const Tensor>(s) {}
  TensorList(std::initializer_list<Tensor> l) : std::span<const Tensor>(std::data(l), l.size()) {}
};

struct Value {
  Tag tag;
  uint32_t size;  // of Ints, Floats, Str and Tensors
  union {
    TensorImpl* tensor;
    double f;
    int64_t i;
    const int64_t* ints;
    const double* floats;
    const char* str;
    const strata::Complex<double>* complex;
    const Tensor* tensors;
    Generator* generator;
  };

  Value() : tag(Tag::None), size(0), i(0) {}
  Value(TensorImpl* t) : tag(t ? Tag::Tensor : Tag::None), size(0), tensor(t) {}
  Value(const Tensor& t) : Value(t.get()) {}
  Value(double v) : tag(Tag::Float), size(0), f(v) {}
  Value(int64_t v) : tag(Tag::Int), size(0), i(v) {}
  Value(int v) : Value(int64_t{v}) {}
  Value(bool v) : tag(Tag::Bool), size(0), i(v) {}
  // A complex number is referred to, not copied: it must outlive the value.
  Value(const Scalar& s) : Value() {
    if (s.kind == Scalar::Kind::Float) *this = Value(s.f);
    else if (s.kind == Scalar::Kind::Int) *this = Value(s.i);
    else if (s.kind == Scalar::Kind::Bool) *this = Value(s.i != 0);
    else *this = Value(&s.z);
  }
  explicit Value(const strata::Complex<double>* z) : tag(Tag::Complex), size(0), complex(z) {}
  Value(IntList l) : tag(Tag::Ints), size(static_cast<uint32_t>(l.size)), ints(l.data) {}
  Value(const OptIntList& l) : Value() {
    if (l.given) *this = Value(static_cast<const IntList&>(l));
  }
  Value(std::span<const double> l) : tag(Tag::Floats), size(static_cast<uint32_t>(l.size())), floats(l.data()) {}
  Value(std::string_view s) : tag(Tag::Str), size(static_cast<uint32_t>(s.size())), str(s.data()) {}
  Value(const char* s) : Value(std::string_view(s)) {}
  Value(TensorList l) : tag(Tag::Tensors), size(static_cast<uint32_t>(l.size())), tensors(l.data()) {}
  Value(DType t) : tag(Tag::DType), size(0), i(static_cast<int64_t>(t)) {}
  Value(Device d)
      : tag(Tag::Device), size(static_cast<uint32_t>(static_cast<uint8_t>(d.index))), i(static_cast<int64_t>(d.type)) {}
  Value(Generator* g) : tag(g ? Tag::Generator : Tag::None), size(0), generator(g) {}
  template <class T> Value(const std::optional<T>& v) : Value() {
    if (v) *this = Value(*v);
  }

  explicit operator bool() const { return tag != Tag::None; }
  bool is_number() const { return tag == Tag::Float || tag == Tag::Int || tag == Tag::Bool; }  // a real one
  double number() const {
    if (tag == Tag::Complex) [[unlikely]]
      refuse_complex_number();
    return tag == Tag::Float ? f : static_cast<double>(i);
  }
  int64_t integer() const {
    if (tag == Tag::Complex) [[unlikely]]
      refuse_complex_number();
    return tag == Tag::Float ? static_cast<int64_t>(f) : i;
  }
  bool boolean() const { return tag == Tag::Float ? f != 0 : i != 0; }
  Scalar scalar() const {
    if (tag == Tag::Float) return f;
    if (tag == Tag::Bool) return i != 0;
    if (tag == Tag::Complex) return *complex;
    return i;
  }
  IntList int_list() const { return Shape(ints, size); }
  std::span<const double> float_list() const { return {floats, size}; }
  std::string_view string() const { return {str, size}; }
  TensorList tensor_list() const { return std::span<const Tensor>(tensors, size); }
  DType dtype() const { return static_cast<DType>(i); }
  Device device() const { return {static_cast<DeviceType>(i), static_cast<int8_t>(static_cast<uint8_t>(size))}; }
};
static_assert(sizeof(Value) == 16 && std::is_trivially_copyable_v<Value>);

// A tensor or a number, in the signatures of pointwise C++ functions: add(x, 2.0). Borrows the tensor for one call.
struct Operand {
  Value value;
  Operand(const Tensor& t) : value(t) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T v) : value(Scalar(v)) {}
  Operand(Scalar s) : value() {  // complex operands are tensors
    if (s.is_complex()) refuse_complex_number();
    value = Value(s);
  }
  explicit Operand(const Value& v) : value(v) {}
  operator Value() const { return value; }
};

struct Args {
  static constexpr uint32_t kMax = 14;
  uint32_t size = 0;
  union {
    Value v[kMax];  // union members are not initialized: only used values are stored
  };

  Args() {}
  template <class... T>
  requires(sizeof...(T) > 0 && !(sizeof...(T) == 1 && (std::is_same_v<std::remove_cvref_t<T>, Args> &&
                                                       ...))) explicit Args(const T&... values)
      : size(sizeof...(T)) {
    static_assert(sizeof...(T) <= kMax);
    uint32_t i = 0;
    ((v[i++] = Value(values)), ...);
  }
  Args(const Args& o) { *this = o; }
  Args& operator=(const Args& o) {
    size = o.size;
    for (uint32_t i = 0; i < size; ++i) v[i] = o.v[i];
    return *this;
  }
  Value& operator[](uint32_t i) { return v[i]; }
  const Value& operator[](uint32_t i) const { return v[i]; }
  const Value* begin() const { return v; }
  const Value* end() const { return v + size; }
  bool is_tensor(uint32_t i) const { return v[i].tag == Tag::Tensor; }
  TensorImpl& tensor(uint32_t i) const { return *v[i].tensor; }
  Tensor share(uint32_t i) const { return is_tensor(i) ? Tensor(Ref<TensorImpl>::share(v[i].tensor)) : Tensor(); }
};

// Args that outlive the call: tape nodes and captured graphs hold (record, SavedArgs).
class STRATA_API SavedArgs {
 public:
  SavedArgs() = default;
  SavedArgs(const SavedArgs&) = delete;
  SavedArgs& operator=(const SavedArgs&) = delete;
  ~SavedArgs() { clear(); }
  // Of tensors outside the mask only the shapes are kept, or nothing if `keep_shapes` is false.
  void save(const Args& args, uint32_t tensor_mask = ~0u, bool keep_shapes = true);
  void clear();
  const Args& view() const { return args_; }
  uint32_t version_of(uint32_t i) const { return versions_[i]; }
  uint32_t list_version_of(uint32_t k) const { return list_versions_[k]; }

 private:
  Args args_;
  uint32_t versions_[Args::kMax];  // of the tensors when they were saved
  std::unique_ptr<uint32_t[]> list_versions_;
};

}  // namespace strata
