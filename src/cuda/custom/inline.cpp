#include "cuda/custom/inline.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/library.h"
#include "cuda/custom/host_compiler.h"
#include "cuda/custom/source_text.h"
#include "cuda/custom/split_source.h"
#include "cuda/runtime/runtime.h"

namespace strata::cuda {

struct InlineModule::State {
  std::string name, path;
  Extension extension;
};

const std::string& InlineModule::name() const { return state_->name; }
const std::string& InlineModule::path() const { return state_->path; }
const std::vector<ExtensionFunction>& InlineModule::functions() const { return state_->extension.functions(); }
const ExtensionFunction& InlineModule::function(const std::string& name) const {
  std::string all;
  for (const ExtensionFunction& f : functions()) {
    if (f.name == name) return f;
    all += (all.empty() ? "" : ", ") + f.name;
  }
  fail(ErrorKind::Value, fmt::format("{} has no function '{}'; its functions are {}", state_->name, name, all));
}

namespace {

constexpr const char* kKernels = "strata_inline_kernels";
constexpr size_t kMaxName = 200;  // with the digest of the sources it is the name of a file, of at most 255 bytes

bool is_plain_name(std::string_view name) {
  const auto words = words_of(name);
  return words.size() == 1 && words[0] == name;
}

void check_options(const InlineOptions& o) {
  STRATA_CHECK(is_plain_name(o.name), Value, "load_inline: the name '{}' is not an identifier", o.name);
  STRATA_CHECK(o.name.size() <= kMaxName, Value, "load_inline: the name has {} characters; at most {} are possible",
               o.name.size(), kMaxName);
  STRATA_CHECK(!o.cpp_sources.empty() || !o.cuda_sources.empty(), Value,
               "load_inline: there are no sources; pass cpp_sources or cuda_sources");
  for (const auto* list : {&o.cpp_sources, &o.cuda_sources, &o.cflags, &o.cuda_cflags, &o.ldflags, &o.include_paths})
    for (const std::string& text : *list)
      STRATA_CHECK(text.find('\0') == text.npos, Value, "load_inline: a source or an option has a NUL character");
  for (const auto& [name, doc] : o.functions) {
    std::string_view rest = name;
    for (size_t at = rest.find("::"); at != rest.npos; at = rest.find("::")) {
      STRATA_CHECK(is_plain_name(rest.substr(0, at)), Value, "load_inline: '{}' is not the name of a function", name);
      rest.remove_prefix(at + 2);
    }
    STRATA_CHECK(is_plain_name(rest), Value, "load_inline: '{}' is not the name of a function", name);
  }
}

std::string joined_sources(const std::vector<std::string>& sources) {
  std::string all;
  for (const std::string& source : sources) all += source + "\n";
  return all;
}

// As a C++ literal. Octal escapes, because they end after three digits.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == ' ' || c == '_') out += c;
    else if (c == '\n') out += "\\n\"\n\"";
    else out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  }
  return out + "\"";
}
std::string literals(const std::vector<std::string>& texts) {
  std::string out = "{";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + literal(text);
  return out + "}";
}

// Flags of nvcc that choose architectures, outputs and the host's options have no meaning for NVRTC.
std::vector<std::string> flags_for_nvrtc(const std::vector<std::string>& flags) {
  std::vector<std::string> out;
  for (size_t i = 0; i < flags.size(); ++i) {
    const std::string& f = flags[i];
    const auto is = [&](const char* name) { return f == name || f.starts_with(std::string(name) + "="); };
    if (is("-Xcompiler") || is("--compiler-options") || is("-Xptxas") || is("-gencode") || is("--generate-code") ||
        is("-arch") || is("-code") || is("--gpu-architecture") || is("--gpu-code")) {
      i += f.find('=') == f.npos;
      continue;
    }
    if (f == "-O0" || f == "-O1" || f == "-O2" || f == "-O3" || f == "-g" || f == "--expt-relaxed-constexpr" ||
        f == "--expt-extended-lambda" || f == "-lineinfo")
      continue;
    out.push_back(f);
  }
  return out;
}

HostUnit unit_of(const InlineOptions& o) {
  HostUnit unit{o.name, "", {}, o.cflags, o.ldflags, o.build_directory};
  for (const std::string& path : o.include_paths) unit.flags.push_back("-I" + path);
  const std::string cpp = joined_sources(o.cpp_sources), cuda = joined_sources(o.cuda_sources);
  const std::string cpp_name = o.name + ".cpp", cuda_name = o.name + ".cu";
  unit.text = fmt::format("#define TORCH_EXTENSION_NAME {}\n", o.name);
  SplitSource split;
  if (!o.cuda_sources.empty()) {
    split = split_source(cuda, kKernels);
    std::vector<std::string> options{"--device-as-default-execution-space"};
    for (std::string& flag : flags_for_nvrtc(o.cuda_cflags)) options.push_back(std::move(flag));
    for (const std::string& path : o.include_paths) options.push_back("-I" + path);
    const std::string device =
      fmt::format("#include \"cuda/custom/extension_device.cuh\"\n#line 1 \"{}\"\n{}", cuda_name, split.device);
    unit.text += fmt::format("static const ::strata::cuda::KernelSource {}({}, {}, {}, {});\n", kKernels,
                             literal(cuda_name), literal(device), literals(options), literals(split.kernels));
    unit.text += fmt::format(
      "extern \"C\" STRATA_API const ::strata::cuda::KernelSource* strata_extension_kernels() {{ return &{}; }}\n",
      kKernels);
  }
  if (!o.cpp_sources.empty()) {
    unit.text += fmt::format("#line 1 \"{}\"\n{}\n", cpp_name, host_source(cpp));
    unit.files.emplace_back(cpp_name, cpp);
  }
  if (!o.cuda_sources.empty()) {
    unit.text += fmt::format("#line 1 \"{}\"\n{}\n", cuda_name, split.host);
    unit.files.emplace_back(cuda_name, cuda);
  }
  std::string bindings;
  if (!o.functions.empty()) {
    bindings = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n";
    for (const auto& [name, doc] : o.functions) {
      const size_t scope = name.rfind("::");
      bindings += fmt::format("  m.def(\"{}\", &::{}, {});\n", scope == name.npos ? name : name.substr(scope + 2), name,
                              literal(doc));
    }
    bindings += "}\n";
  }
  unit.text += fmt::format("#line 1 \"bindings\"\n{}", bindings);
  unit.text +=
    "extern \"C\" STRATA_API size_t strata_extension_layout() { return ::strata::cuda::extension_layout(); }\n";
  unit.files.emplace_back("bindings", bindings);
  return unit;
}

Library open_library(const HostUnit& unit, std::string& path) {
  HostLibrary built = build_library(unit);
  Library library({.name = built.path.c_str(), .files = {built.path}});
  if (!library && !built.is_new) {  // a damaged file
    built = build_library(unit, true);
    library = Library({.name = built.path.c_str(), .files = {built.path}});
  }
  if (!built.temporary.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(built.temporary, ignored);
  }
  STRATA_CHECK(library, Io, "load_inline: {}", library.why());
  path = built.path;
  return library;
}

// The device to check kernels with while loading.
std::optional<Device> device_for_check() {
  for (const DeviceType type : {DeviceType::Cuda, DeviceType::Vgpu})
    if (Runtime::why_not(type).empty()) return Device(type);
  return std::nullopt;
}
}  // namespace

InlineModule load_inline(const InlineOptions& options) {
  check_options(options);
  auto state = std::make_shared<InlineModule::State>();
  state->name = options.name;
  const Library library = open_library(unit_of(options), state->path);
  const auto layout = library.find<size_t (*)()>("strata_extension_layout");
  STRATA_CHECK(layout && layout() == extension_layout(), Value,
               "load_inline: {} was built with the headers of another version of Strata", library.path());
  const auto define = library.find<void (*)(Extension&)>("strata_define_extension");
  STRATA_CHECK(define, Value,
               "load_inline: {} defines no functions; name them in functions=, or define PYBIND11_MODULE",
               options.name);
  define(state->extension);
  if (const auto kernels = library.find<const KernelSource* (*)()>("strata_extension_kernels"))
    if (const auto device = device_for_check()) kernels()->compile_all(*device);  // errors now, not at the first call
  return InlineModule(std::move(state));
}

}  // namespace strata::cuda
