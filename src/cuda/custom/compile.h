// Kernels of the user: CUDA C++ compiled at run time for the architecture of a device, on `cuda` and on `vgpu`.
//
//   const cuda::Module module = cuda::compile(source, device);
//   module.function("add")({blocks}, {256})(x, y, out, n);
#pragma once
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/custom/signature.h"
#include "cuda/libs/nvrtc.h"
#include "cuda/runtime/grid.h"
#include "tensor/tensor.h"

namespace strata::cuda {

// An argument of a launch. Tensors are passed as the address of their first element. C++ numbers and trivially copyable
// structs must have exactly the parameter's size and kind; `number` is converted to the parameter's type instead.
class STRATA_API Argument {
 public:
  enum class Kind : uint8_t { Tensor, Integer, Float, Bytes, Number, Address, Typed };
  Argument(Tensor t);
  template <class T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) Argument(const T& value)
      : Argument(kind_of<T>(), &value, sizeof(T)) {}
  Argument(Kind kind, const void* bytes, size_t size) : kind_(kind), bytes_(static_cast<const char*>(bytes), size) {}
  static Argument number(Scalar value);
  static Argument address(const void* p) { return {Kind::Address, &p, sizeof p}; }  // in the device's memory
  // A value that the C++ compiler has converted to the parameter's type: only its size is checked.
  template <class T> static Argument typed(const T& value) { return {Kind::Typed, &value, sizeof value}; }

  Kind kind() const { return kind_; }
  const Tensor& tensor() const { return tensor_; }
  // The bytes for a parameter; throws Type or Value if the argument does not fit it. `what` begins the message.
  std::string bytes_for(const Parameter& parameter, const std::string& what) const;

 private:
  template <class T> static constexpr Kind kind_of() {
    return std::is_integral_v<T> ? Kind::Integer : std::is_floating_point_v<T> ? Kind::Float : Kind::Bytes;
  }
  std::string describe() const;
  Kind kind_;
  Tensor tensor_;
  std::string bytes_;  // of Number: a Scalar
};

struct LaunchConfig {
  Grid grid, block;
  uint32_t shared_bytes = 0;  // dynamic shared memory
  bool strided = false;       // allow tensors that are not contiguous; the kernel must be given their strides
};

class Launcher;

// A kernel of a module; a cheap handle that keeps its module's code alive.
class STRATA_API KernelHandle {
 public:
  const std::string& name() const;
  const std::vector<Parameter>& parameters() const;
  // Launches in the current stream of the device of the tensors; the module's device if there are none. Throws Type if
  // the arguments do not fit the parameters, Value for a geometry that the device does not allow, Runtime for tensors on
  // other devices. Tensors whose parameter is not declared as a pointer to const count as written.
  void launch(const LaunchConfig& config, std::span<const Argument> arguments) const;
  Launcher operator()(Grid grid, Grid block, uint32_t shared_bytes = 0) const;
  Launcher operator()(const LaunchConfig& config) const;

 private:
  friend class Module;
  struct State;
  explicit KernelHandle(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// A kernel with its geometry: call it with the arguments.
class Launcher {
 public:
  Launcher(KernelHandle kernel, LaunchConfig config) : kernel_(std::move(kernel)), config_(config) {}
  template <class... A> void operator()(const A&... arguments) const {
    const std::vector<Argument> list{Argument(arguments)...};
    kernel_.launch(config_, list);
  }

 private:
  KernelHandle kernel_;
  LaunchConfig config_;
};

struct CompileOptions {
  std::string name = "kernels.cu";          // of the source, for messages
  std::vector<std::string> options = {};    // for NVRTC: "-DN=4", "--use_fast_math"
  std::vector<std::string> instances = {};  // template kernels to instantiate: "scale<float>"
  bool for_this_gpu = false;                // instructions that only this architecture has: compute_90a, say
};

class Module;

// Compiles a source for the architecture of a device. Equal sources are compiled once per process and, where the kernel
// cache is enabled (see KernelCache), once per machine. Throws CompileError with the compiler's log, NotImplemented if
// NVRTC is missing, Value for invalid options or names.
STRATA_API Module compile(const std::string& source, Device device, const CompileOptions& options = {});

class STRATA_API Module {
 public:
  // A kernel by its name in the source, or an instance of a template that was named when compiling. Throws Value, with
  // the kernels that there are.
  KernelHandle function(const std::string& name) const;
  std::vector<std::string> kernels() const;  // as in the PTX; mangled unless extern "C"
  const std::string& ptx() const;
  Device device() const;

 private:
  friend Module compile(const std::string& source, Device device, const CompileOptions& options);
  struct State;
  explicit Module(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace strata::cuda
