#include "cuda/custom/compile.h"

#include <fmt/core.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "base/sha256.h"
#include "cuda/libs/libraries.h"
#include "cuda/runtime/stream.h"
#include "record/op.h"

namespace strata::cuda {

struct CompiledModule {
  std::shared_ptr<const Code> code;
  std::map<std::string, std::string> names;  // of instances
};

namespace {

bool is_identifier(std::string_view name) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && std::ranges::all_of(name, is_part);
}

void refuse_zeros(std::string_view text, std::string_view what) {
  const size_t at = text.find('\0');
  STRATA_CHECK(at == text.npos, Value, "compile: {} has a NUL character at position {}; the compiler would stop there",
               what, at);
}

void check(const std::string& source, const CompileOptions& o) {
  STRATA_CHECK(source.find_first_not_of(" \t\r\n") != source.npos, Value,
               "compile: the source of {} is empty; expected CUDA C++ with a __global__ function", o.name);
  refuse_zeros(source, "the source");
  refuse_zeros(o.name, "the name of the source");
  for (const std::string& option : o.options) {
    refuse_zeros(option, "an option");
    STRATA_CHECK(option.starts_with('-'), Value, "compile: '{}' is not an option of NVRTC; options begin with '-'",
                 option);
    for (const char* ours : {"-arch", "--gpu-architecture", "-dlto", "--dlink-time-opt", "-rdc=true",
                             "--relocatable-device-code=true", "-dc", "--device-c", "--optix-ir", "-optix-ir"})
      STRATA_CHECK(option != ours && !option.starts_with(std::string(ours) + "="), Value,
                   "compile: option '{}' cannot be set; the architecture is the device's and the output is PTX",
                   option);
  }
  for (const std::string& instance : o.instances) {
    refuse_zeros(instance, "the name of a kernel");
    STRATA_CHECK(instance.find_first_of("\r\n;{}#\"\\") == instance.npos && !instance.empty(), Value,
                 "compile: '{}' is not the name of a kernel; expected a name such as scale<float>", instance);
  }
}

// Files may change between two compilations, and their contents are not part of the key.
bool reads_files(const CompileOptions& o) {
  return std::ranges::any_of(o.options, [](const std::string& option) {
    return option.starts_with("-I") || option.starts_with("--include-path") || option.starts_with("-include") ||
           option.starts_with("--pre-include") || option.starts_with("--use-pch") || option.starts_with("--pch") ||
           option.starts_with("-pch");
  });
}

// A mangled name as written in C++: "add(float const*, int)".
std::string readable(const std::string& name) {
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr),
                                                         &std::free);
  return text ? text.get() : name;
}

std::string digest(std::string_view text) {
  return sha256({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

std::string key_of(const std::string& source, const std::string& architecture, const CompileOptions& o) {
  std::string all = fmt::format("nvrtc {} {}\n{}\n{}\n", nvrtc_identity(), architecture, o.name, digest(source));
  for (const std::string& option : o.options) all += "option " + digest(option) + "\n";
  for (const std::string& instance : o.instances) all += "instance " + digest(instance) + "\n";
  return digest(all);
}

// A file of the cache: lines "instance\tname in the PTX", an empty line, the PTX.
std::string packed(const CompiledPtx& c) {
  std::string out;
  for (const auto& [instance, name] : c.names) out += fmt::format("{}\t{}\n", instance, name);
  return out + "\n" + c.ptx;
}
CompiledPtx unpacked(std::string_view text) {
  CompiledPtx out;
  for (;;) {
    const size_t end = text.find('\n'), tab = text.substr(0, end).rfind('\t');
    if (end == 0 || end == text.npos || tab == text.npos) {
      out.ptx = text.substr(end == text.npos ? text.size() : end + 1);
      return out;
    }
    out.names[std::string(text.substr(0, tab))] = text.substr(tab + 1, end - tab - 1);
    text.remove_prefix(end + 1);
  }
}

CompiledPtx compile_now(const std::string& source, const std::string& architecture, const CompileOptions& o) {
  const std::string target = "--gpu-architecture=" + architecture;
  // Lines for the messages of the virtual GPU and of profilers; the code is the same.
  std::vector<const char*> options{target.c_str(), "--generate-line-info"};
  for (const std::string& option : o.options) options.push_back(option.c_str());
  return compile_to_ptx(source, o.name, options, o.instances);
}

std::shared_ptr<const CompiledModule> compiled_for(const Gpu& gpu, const std::string& source, const CompileOptions& o) {
  vendor_library(Vendor::Nvrtc).library.require();
  const std::string architecture =
    fmt::format("compute_{}{}{}", gpu.properties.major, gpu.properties.minor, o.for_this_gpu ? "a" : "");
  const auto make = [&](CompiledPtx c) {
    return std::make_shared<const CompiledModule>(
      CompiledModule{std::make_shared<const Code>(o.name, std::move(c.ptx)), std::move(c.names)});
  };
  if (reads_files(o)) return make(compile_now(source, architecture, o));

  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::shared_ptr<const CompiledModule>>;
  const std::string key = key_of(source, architecture, o);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known->find(key); found != known->end()) return found->second;
  }
  const KernelCache cache = KernelCache::of(gpu.runtime.type);
  std::shared_ptr<const CompiledModule> made;
  if (const auto kept = cache.find(key)) {
    made = make(unpacked(*kept));
  } else {
    CompiledPtx fresh = compile_now(source, architecture, o);  // without the lock: it can take seconds
    cache.store(key, packed(fresh));
    made = make(std::move(fresh));
  }
  const std::lock_guard lock(mutex);
  return known->emplace(key, std::move(made)).first->second;  // the first of two threads wins
}
}  // namespace

struct Module::State {
  std::string name, source;
  Device device;
  std::shared_ptr<const CompiledModule> compiled;
};

struct KernelHandle::State {
  std::string name;  // as the user wrote it
  Device device;     // of the module
  std::vector<Parameter> parameters;
  Function function;
};

Module compile(const std::string& source, Device device, const CompileOptions& options) {
  STRATA_CHECK(device.type == DeviceType::Cuda || device.type == DeviceType::Vgpu, Value,
               "compile: kernels run on cuda and vgpu devices, not on {}", to_string(device));
  check(source, options);
  const Gpu& gpu = Runtime::gpu(require_available(device));
  return Module(std::shared_ptr<const Module::State>(
    new Module::State{options.name, source, gpu.device(), compiled_for(gpu, source, options)}));
}

const std::string& Module::ptx() const { return state_->compiled->code->bytes(); }
Device Module::device() const { return state_->device; }
std::vector<std::string> Module::kernels() const { return kernels_of(ptx()); }

KernelHandle Module::function(const std::string& name) const {
  const std::vector<std::string> all = kernels();
  std::vector<std::string> found;
  if (const auto lowered = state_->compiled->names.find(name); lowered != state_->compiled->names.end()) {
    found = {lowered->second};
  } else {
    // A C++ name that is not in a namespace is mangled as _Z, its length, itself, its parameters.
    const std::string mangled = fmt::format("_Z{}{}", name.size(), name);
    const bool plain = is_identifier(name);
    for (const std::string& kernel : all)
      if (kernel == name || (plain && kernel.starts_with(mangled))) found.push_back(kernel);
  }
  std::string list;
  for (const std::string& kernel : all) list += (list.empty() ? "" : ", ") + readable(kernel);
  STRATA_CHECK(!found.empty(), Value,
               "there is no kernel '{}' in {}; its kernels are: {}. A template must be named when compiling", name,
               state_->name, list.empty() ? "none" : list);
  STRATA_CHECK(found.size() == 1, Value, "kernel '{}' is overloaded: {}; give them different names", name, list);
  return KernelHandle(std::shared_ptr<const KernelHandle::State>(
    new KernelHandle::State{name, state_->device, parameters_of(ptx(), found[0], state_->source, name),
                            Function(state_->compiled->code, found[0])}));
}

const std::string& KernelHandle::name() const { return state_->name; }
const std::vector<Parameter>& KernelHandle::parameters() const { return state_->parameters; }
Launcher KernelHandle::operator()(Grid grid, Grid block, uint32_t shared_bytes) const {
  return {*this, {grid, block, shared_bytes}};
}
Launcher KernelHandle::operator()(const LaunchConfig& config) const { return {*this, config}; }

namespace {

void check_geometry(const std::string& name, const Gpu& gpu, const LaunchConfig& c) {
  const Properties& p = gpu.properties;
  const auto check_axes = [&](const char* what, Grid g, const int(&most)[3]) {
    const uint32_t sizes[] = {g.x, g.y, g.z};
    for (int i = 0; i < 3; ++i)
      STRATA_CHECK(sizes[i] >= 1 && sizes[i] <= static_cast<uint32_t>(most[i]), Value,
                   "kernel {}: the {} is {}x{}x{}; {} allows 1 to {}x{}x{}", name, what, g.x, g.y, g.z,
                   to_string(gpu.device()), most[0], most[1], most[2]);
  };
  check_axes("grid", c.grid, p.max_grid);
  check_axes("block", c.block, p.max_block);
  const uint64_t threads = uint64_t{c.block.x} * c.block.y * c.block.z;
  STRATA_CHECK(threads <= static_cast<uint64_t>(p.max_threads_per_block), Value,
               "kernel {}: blocks of {}x{}x{} have {} threads; {} allows {}", name, c.block.x, c.block.y, c.block.z,
               threads, to_string(gpu.device()), p.max_threads_per_block);
  STRATA_CHECK(c.shared_bytes <= static_cast<uint32_t>(p.shared_per_block_optin), Value,
               "kernel {}: {} bytes of shared memory; {} allows {}", name, c.shared_bytes, to_string(gpu.device()),
               p.shared_per_block_optin);
}

void check_tensor(const Tensor& t, const Parameter& parameter, const std::string& what, Device device, bool strided) {
  STRATA_CHECK(t.device() == device, Runtime, "{}: the tensor is on {}, the kernel runs on {}; move it with .to()",
               what, to_string(t.device()), to_string(device));
  STRATA_CHECK(strided || t.is_contiguous(), Value,
               "{}: the tensor is not contiguous; call contiguous(), or allow strided tensors and pass the strides to "
               "the kernel",
               what);
  const bool written = parameter.pointer != Parameter::Pointer::ToConst;
  STRATA_CHECK(
    !written || !t.requires_grad() || !thread_state.grad_mode, Runtime,
    "{}: the tensor requires a gradient, but the kernel may write to it unrecorded; declare the parameter as a "
    "pointer to const, pass detach(), or launch under no_grad",
    what);
}
}  // namespace

void KernelHandle::launch(const LaunchConfig& config, std::span<const Argument> arguments) const {
  for (const Argument& a : arguments)
    if (a.kind() == Argument::Kind::Tensor) need_values(a.tensor()->storage.get(), state_->name.c_str());
  const State& s = *state_;
  STRATA_CHECK(arguments.size() == s.parameters.size(), Type, "kernel {} has {} parameters, but got {} arguments",
               s.name, s.parameters.size(), arguments.size());
  Device device = s.device;
  for (const Argument& a : arguments)
    if (a.kind() == Argument::Kind::Tensor && a.tensor().device().type == device.type) {
      device = a.tensor().device();
      break;
    }
  Gpu& gpu = Runtime::gpu(device);
  std::vector<std::string> values;
  values.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string what = fmt::format("kernel {}, argument {} ({})", s.name, i, s.parameters[i].text);
    values.push_back(arguments[i].bytes_for(s.parameters[i], what));
    if (arguments[i].kind() == Argument::Kind::Tensor)
      check_tensor(arguments[i].tensor(), s.parameters[i], what, device, config.strided);
  }
  check_geometry(s.name, gpu, config);
  std::vector<void*> pointers;
  pointers.reserve(values.size() + 1);
  for (std::string& value : values) pointers.push_back(value.data());
  pointers.push_back(nullptr);
  Stream::current(gpu).launch_with(s.function, config.grid, config.block, config.shared_bytes, pointers.data());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].kind() == Argument::Kind::Tensor && s.parameters[i].pointer != Parameter::Pointer::ToConst)
      if (const Tensor& t = arguments[i].tensor(); t->storage) t->count_write();
}

}  // namespace strata::cuda
