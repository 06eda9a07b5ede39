#include "cuda/custom/extension.h"

#include <cxxabi.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>

#include "cuda/runtime/stream.h"
#include "record/op.h"

namespace strata::cuda {

using Kind = ExtensionValue::Kind;

ExtensionValue::ExtensionValue(Scalar s) {
  if (s.kind == Scalar::Kind::Bool) *this = ExtensionValue(s.i != 0);
  else if (s.kind == Scalar::Kind::Int) *this = ExtensionValue(s.i);
  else *this = ExtensionValue(s.to_double());
}

const char* ExtensionValue::kind_name() const {
  switch (kind) {
    case Kind::None: return "None";
    case Kind::Bool: return "bool";
    case Kind::Int: return "int";
    case Kind::Float: return "float";
    case Kind::Text: return "str";
    case Kind::Tensor: return "Tensor";
    case Kind::List: return "list";
    case Kind::Tuple: return "tuple";
    case Kind::DType: return "dtype";
  }
  return "object";
}

std::optional<Tensor> FromValue<Tensor>::get(const ExtensionValue& v) {
  return v.kind == Kind::Tensor ? std::optional<Tensor>(v.tensor) : std::nullopt;
}
std::optional<bool> FromValue<bool>::get(const ExtensionValue& v) {
  return v.kind == Kind::Bool ? std::optional<bool>(v.i != 0) : std::nullopt;
}
std::optional<int64_t> FromValue<int64_t>::get(const ExtensionValue& v) {
  return v.kind == Kind::Int || v.kind == Kind::Bool ? std::optional<int64_t>(v.i) : std::nullopt;
}
std::optional<double> FromValue<double>::get(const ExtensionValue& v) {
  if (v.kind == Kind::Float) return v.f;
  return v.kind == Kind::Int || v.kind == Kind::Bool ? std::optional<double>(static_cast<double>(v.i)) : std::nullopt;
}
std::optional<std::string> FromValue<std::string>::get(const ExtensionValue& v) {
  return v.kind == Kind::Text ? std::optional<std::string>(v.text) : std::nullopt;
}
std::optional<DType> FromValue<DType>::get(const ExtensionValue& v) {
  return v.kind == Kind::DType ? std::optional<DType>(static_cast<DType>(v.i)) : std::nullopt;
}
std::optional<Scalar> FromValue<Scalar>::get(const ExtensionValue& v) {
  if (v.kind == Kind::Bool) return Scalar(v.i != 0);
  if (v.kind == Kind::Int) return Scalar(v.i);
  return v.kind == Kind::Float ? std::optional<Scalar>(Scalar(v.f)) : std::nullopt;
}

void Extension::refuse(const std::string& name, size_t at, const std::string& wanted, const ExtensionValue& got) {
  std::string found = got.kind_name();
  if (got.kind == Kind::Int) found += fmt::format(" {}", got.i);
  fail(ErrorKind::Type, fmt::format("{}(): argument {} must be {}, not {}", name, at + 1, wanted, found));
}

namespace {

// What the running function of this thread launches next, and where.
struct Running {
  std::optional<Device> device;
  bool configured = false;
  LaunchConfig config;
};
thread_local Running running;

const Tensor* first_on_gpu(std::span<const ExtensionValue> values) {
  for (const ExtensionValue& v : values) {
    if (v.kind == Kind::Tensor &&
        (v.tensor.device().type == DeviceType::Cuda || v.tensor.device().type == DeviceType::Vgpu))
      return &v.tensor;
    if (const Tensor* inside = first_on_gpu(v.list)) return inside;
  }
  return nullptr;
}
}  // namespace

ExtensionValue ExtensionFunction::operator()(std::span<const ExtensionValue> arguments) const {
  if (arguments.size() != parameters.size()) {
    std::string types;
    for (const std::string& p : parameters) types += (types.empty() ? "" : ", ") + p;
    fail(ErrorKind::Type,
         fmt::format("{}() takes {} arguments ({}), but got {}", name, parameters.size(), types, arguments.size()));
  }
  struct Restore {
    Running before = running;
    ~Restore() { running = before; }
  } const restore;
  const Tensor* on_gpu = first_on_gpu(arguments);
  running = {on_gpu ? std::optional<Device>(on_gpu->device()) : restore.before.device, false, {}};
  try {
    return body(arguments);
  } catch (const Error&) { throw; } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::invalid_argument& e) {
    fail(ErrorKind::Value, fmt::format("{}: {}", name, e.what()));
  } catch (const std::out_of_range& e) {
    fail(ErrorKind::Index, fmt::format("{}: {}", name, e.what()));
  } catch (const std::exception& e) { fail(ErrorKind::Runtime, fmt::format("{}: {}", name, e.what())); } catch (...) {
    fail(ErrorKind::Runtime, fmt::format("{}: an exception that is no std::exception", name));
  }
}

Device extension_device() {
  if (running.device) return *running.device;
  const Device standard = thread_state.default_device;
  if (standard.type == DeviceType::Cuda || standard.type == DeviceType::Vgpu)
    return Runtime::gpu(require_available(standard)).device();
  STRATA_CHECK(
    Runtime::why_not(DeviceType::Cuda).empty(), Runtime,
    "a kernel was launched, but no argument of the function is a tensor on a GPU, and there is no cuda device; "
    "pass a tensor on cuda or vgpu");
  return Runtime::gpu(Device(DeviceType::Cuda)).device();
}

void* current_stream() { return Stream::current(Runtime::gpu(extension_device())).handle(); }

void synchronize_extension() { Stream::current(Runtime::gpu(extension_device())).synchronize(); }

void configure(dim3 grid, dim3 block, size_t shared_bytes, const void* stream) {
  STRATA_CHECK(shared_bytes <= UINT32_MAX, Value, "launch: {} bytes of shared memory are too many", shared_bytes);
  STRATA_CHECK(!stream || stream == current_stream(), Value,
               "launch: kernels run in the current stream; make the other one current with torch.cuda.stream()");
  running.config = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<uint32_t>(shared_bytes), true};
  running.configured = true;
}

std::string readable_type(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr),
                                                         &std::free);
  std::string out = text ? text.get() : type.name();
  const auto replace = [&](std::string_view old, std::string_view by) {
    for (size_t at = out.find(old); at != out.npos; at = out.find(old, at + by.size())) out.replace(at, old.size(), by);
  };
  replace("(anonymous namespace)::", "");
  replace("strata::Half", "c10::Half");
  replace("strata::BFloat16", "c10::BFloat16");
  return out;
}

KernelSource::KernelSource(std::string name, std::string text, std::vector<std::string> options,
                           std::vector<std::string> kernels)
    : name_(std::move(name)), text_(std::move(text)), options_(std::move(options)), kernels_(std::move(kernels)) {}

Module KernelSource::module_for(Device device, const std::string& instance) const {
  CompileOptions o{name_, options_, {}};
  if (!instance.empty()) {
    o.instances.push_back(instance);
  } else {
    for (const std::string& kernel : kernels_)
      if (kernel.find("::") != kernel.npos) o.instances.push_back(kernel);
  }
  return compile(text_, device, o);
}

void KernelSource::compile_all(Device device) const { static_cast<void>(module_for(device, "")); }

void KernelSource::launch(const std::string& kernel, const std::vector<std::string>& instance,
                          std::span<const Argument> values) const {
  STRATA_CHECK(running.configured, Runtime, "kernel {} was called without <<<grid, block>>>", kernel);
  running.configured = false;
  std::string name = kernel;
  if (!instance.empty()) {
    name += "<";
    for (const std::string& argument : instance) name += (name.back() == '<' ? "" : ", ") + argument;
    name += ">";
  }
  const Device device = extension_device();
  const auto key = std::make_pair(to_string(device), name);
  std::optional<KernelHandle> found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = found_.find(key); known != found_.end()) found = known->second;
  }
  if (!found) {
    found = module_for(device, instance.empty() ? "" : name).function(name);  // without the lock: it may compile
    const std::lock_guard lock(mutex_);
    found_.emplace(key, *found);
  }
  found->launch(running.config, values);
}

size_t extension_layout() {
  size_t mix = 0;
  for (const size_t size : {sizeof(ExtensionValue), sizeof(ExtensionFunction), sizeof(Extension), sizeof(KernelSource),
                            sizeof(Argument), sizeof(TensorImpl), sizeof(ThreadState)})
    mix = mix * 1000003 + size;
  return mix;
}

}  // namespace strata::cuda
