// Functions in C++ that load_inline compiles: their values, the table of a compiled library, and launches of kernels.
// Host code that <strata/torch.h> declares uses this; programs use load_inline (cuda/custom/inline.h).
#pragma once
#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/custom/compile.h"
#include "tensor/tensor.h"

// The sizes of a grid or a block, as in the CUDA runtime.
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  template <std::integral X, std::integral Y = unsigned, std::integral Z = unsigned>
  dim3(X x_size, Y y_size = 1, Z z_size = 1) : x(checked(x_size)), y(checked(y_size)), z(checked(z_size)) {}

 private:
  template <class T> static unsigned checked(T size) {
    STRATA_CHECK(std::in_range<unsigned>(size), Value, "dim3: size {} is out of the range of an unsigned int",
                 static_cast<int64_t>(size));
    return static_cast<unsigned>(size);
  }
};

namespace strata::cuda {

// An argument or a result of an extension's function.
struct STRATA_API ExtensionValue {
  enum class Kind : uint8_t { None, Bool, Int, Float, Text, Tensor, List, Tuple, DType } kind = Kind::None;
  int64_t i = 0;  // of Bool, Int and DType
  double f = 0;
  std::string text;
  strata::Tensor tensor;
  std::vector<ExtensionValue> list;

  ExtensionValue() = default;
  ExtensionValue(strata::Tensor t) : kind(t ? Kind::Tensor : Kind::None), tensor(std::move(t)) {}
  ExtensionValue(bool b) : kind(Kind::Bool), i(b) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) ExtensionValue(T v) : kind(Kind::Int), i(static_cast<int64_t>(v)) {}
  template <std::floating_point T> ExtensionValue(T v) : kind(Kind::Float), f(static_cast<double>(v)) {}
  ExtensionValue(std::string t) : kind(Kind::Text), text(std::move(t)) {}
  ExtensionValue(const char* t) : kind(Kind::Text), text(t) {}
  ExtensionValue(strata::DType t) : kind(Kind::DType), i(static_cast<int64_t>(t)) {}
  ExtensionValue(Scalar s);
  template <class T> ExtensionValue(const std::vector<T>& all) : kind(Kind::List) {
    for (const auto& v : all) list.emplace_back(static_cast<T>(v));
  }
  template <class T> ExtensionValue(const std::optional<T>& v) {
    if (v) *this = ExtensionValue(*v);
  }
  template <class T, size_t N> ExtensionValue(const std::array<T, N>& all) : kind(Kind::Tuple) {
    for (const T& v : all) list.emplace_back(v);
  }
  template <class... T> ExtensionValue(const std::tuple<T...>& all) : kind(Kind::Tuple) {
    std::apply([&](const T&... v) { (list.emplace_back(v), ...); }, all);
  }
  template <class A, class B>
  ExtensionValue(const std::pair<A, B>& v) : ExtensionValue(std::tuple<A, B>(v.first, v.second)) {}

  const char* kind_name() const;  // for messages: "float"
};

// Conversions of arguments to the types of parameters. Where a type has none, a function with such a parameter does not
// compile.
template <class T> struct FromValue;
#define STRATA_FROM_VALUE(type, title)                                  \
  template <> struct FromValue<type> {                                  \
    static std::string name() { return title; }                         \
    STRATA_API static std::optional<type> get(const ExtensionValue& v); \
  }
STRATA_FROM_VALUE(strata::Tensor, "Tensor");
STRATA_FROM_VALUE(bool, "bool");
STRATA_FROM_VALUE(double, "float");
STRATA_FROM_VALUE(int64_t, "int");
STRATA_FROM_VALUE(std::string, "str");
STRATA_FROM_VALUE(Scalar, "number");
STRATA_FROM_VALUE(DType, "dtype");
#undef STRATA_FROM_VALUE
template <class T>
requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, int64_t>) struct FromValue<T> {
  static std::string name() { return "int of " + std::to_string(8 * sizeof(T)) + " bits"; }
  static std::optional<T> get(const ExtensionValue& v) {
    const auto wide = FromValue<int64_t>::get(v);
    return wide && std::in_range<T>(*wide) ? std::optional<T>(static_cast<T>(*wide)) : std::nullopt;
  }
};
template <> struct FromValue<float> {
  static std::string name() { return "float"; }
  static std::optional<float> get(const ExtensionValue& v) {
    const auto wide = FromValue<double>::get(v);
    return wide ? std::optional<float>(static_cast<float>(*wide)) : std::nullopt;
  }
};
template <class T> struct FromValue<std::optional<T>> {
  static std::string name() { return FromValue<T>::name() + " or None"; }
  static std::optional<std::optional<T>> get(const ExtensionValue& v) {
    if (v.kind == ExtensionValue::Kind::None) return std::optional<T>();
    auto inner = FromValue<T>::get(v);
    return inner ? std::optional<std::optional<T>>(std::move(inner)) : std::nullopt;
  }
};
template <class T> struct FromValue<std::vector<T>> {
  static std::string name() { return "list of " + FromValue<T>::name(); }
  static std::optional<std::vector<T>> get(const ExtensionValue& v) {
    if (v.kind != ExtensionValue::Kind::List && v.kind != ExtensionValue::Kind::Tuple) return std::nullopt;
    std::vector<T> out;
    for (const ExtensionValue& e : v.list) {
      auto one = FromValue<T>::get(e);
      if (!one) return std::nullopt;
      out.push_back(std::move(*one));
    }
    return out;
  }
};

// A function of an extension. Throws Type if the arguments do not fit its parameters.
struct STRATA_API ExtensionFunction {
  std::string name, doc;
  std::vector<std::string> parameters;  // their types, for messages
  std::function<ExtensionValue(std::span<const ExtensionValue>)> body;
  // Calls it. Kernels that it launches run on the device of the first tensor that is on a GPU.
  ExtensionValue operator()(std::span<const ExtensionValue> arguments) const;
  ExtensionValue operator()(std::initializer_list<ExtensionValue> arguments) const {
    return (*this)(std::span(arguments.begin(), arguments.size()));
  }
};

// The functions of an extension, filled when it is loaded.
class STRATA_API Extension {
 public:
  template <class R, class... A> void def(const char* name, R (*f)(A...), const char* doc = "") {
    ExtensionFunction made{name, doc, {FromValue<std::decay_t<A>>::name()...}, nullptr};
    made.body = [f, name = made.name](std::span<const ExtensionValue> values) {
      return call(f, name, values, std::index_sequence_for<A...>());
    };
    functions_.push_back(std::move(made));
  }
  const std::vector<ExtensionFunction>& functions() const { return functions_; }

 private:
  [[noreturn]] static void refuse(const std::string& name, size_t at, const std::string& wanted,
                                  const ExtensionValue& got);
  template <class T> static T argument(const std::string& name, std::span<const ExtensionValue> values, size_t at) {
    auto value = FromValue<T>::get(values[at]);
    if (!value) refuse(name, at, FromValue<T>::name(), values[at]);
    return std::move(*value);
  }
  template <class R, class... A, size_t... I>
  static ExtensionValue call(R (*f)(A...), const std::string& name, std::span<const ExtensionValue> values,
                             std::index_sequence<I...>) {
    std::tuple<std::decay_t<A>...> arguments{argument<std::decay_t<A>>(name, values, I)...};
    if constexpr (std::is_void_v<R>) {
      f(static_cast<A>(std::get<I>(arguments))...);
      return {};
    } else {
      return ExtensionValue(f(static_cast<A>(std::get<I>(arguments))...));
    }
  }
  std::vector<ExtensionFunction> functions_;
};

// Differs if an extension and libstrata were built with different headers.
STRATA_API size_t extension_layout();

// --- launches --------------------------------------------------------------------------------------------------------

// What comes between <<< and >>>: the geometry of this thread's next launch. Kernels run in the current stream, so a
// stream must be null or that one.
STRATA_API void configure(dim3 grid, dim3 block, size_t shared_bytes = 0, const void* stream = nullptr);
// The handle of the current stream of the device that the running function's tensors are on.
STRATA_API void* current_stream();
STRATA_API void synchronize_extension();  // waits for that device
// That device; without a tensor on a GPU the current one. Throws Runtime if there is none.
STRATA_API Device extension_device();

// The text of a template argument: "float", "4".
STRATA_API std::string readable_type(const std::type_info& type);
template <class T> std::string instance_name() { return readable_type(typeid(T)); }
template <auto V> std::string instance_name() {
  if constexpr (std::is_same_v<decltype(V), bool>) return V ? "true" : "false";
  else if constexpr (std::is_enum_v<decltype(V)>)
    return "(" + readable_type(typeid(V)) + ")" + std::to_string(static_cast<int64_t>(V));
  else return std::to_string(V);
}

// The kernels of an extension, compiled when one first runs on a device.
class STRATA_API KernelSource {
 public:
  // `kernels`: those that are no templates, with their namespaces.
  KernelSource(std::string name, std::string text, std::vector<std::string> options, std::vector<std::string> kernels);

  // Launches a kernel, or an instance of a template, with the configured geometry.
  void launch(const std::string& kernel, const std::vector<std::string>& instance,
              std::span<const Argument> values) const;
  // The body of a kernel in host code: its parameters already have their types.
  template <class... A>
  void launch_stub(const char* kernel, const std::vector<std::string>& instance, const A&... values) const {
    const std::vector<Argument> list{argument(values)...};
    launch(kernel, instance, list);
  }
  void compile_all(Device device) const;  // kernels that are no templates; throws CompileError

 private:
  template <class T> static Argument argument(const T& value) {
    if constexpr (std::is_convertible_v<T, const void*>) return Argument::address(value);  // also T* __restrict__
    else return Argument::typed(value);
  }
  Module module_for(Device device, const std::string& instance) const;
  std::string name_, text_;
  std::vector<std::string> options_, kernels_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, std::string>, KernelHandle> found_;  // by device and kernel
};

}  // namespace strata::cuda
