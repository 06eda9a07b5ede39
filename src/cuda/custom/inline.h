// Functions in C++ and CUDA C++ from source texts, as PyTorch's torch.utils.cpp_extension.load_inline:
//
//   const cuda::InlineModule mine = cuda::load_inline({.name = "mine", .cuda_sources = {source}, .functions = {{"f", ""}}});
//   const Tensor y = mine.function("f")({x, 2}).tensor;
//
// Host functions are compiled by the system's C++ compiler with <strata/torch.h>, which has the names of libtorch; kernels
// by NVRTC, when one first runs on a device.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/custom/extension.h"

namespace strata::cuda {

struct InlineOptions {
  std::string name;                            // an identifier
  std::vector<std::string> cpp_sources = {};   // host code
  std::vector<std::string> cuda_sources = {};  // host code and kernels
  std::vector<std::pair<std::string, std::string>> functions =
    {};  // names and docs; none: PYBIND11_MODULE defines them
  std::vector<std::string> cflags = {}, cuda_cflags = {}, ldflags = {}, include_paths = {};
  std::string build_directory = {};  // "": the cache
};

class STRATA_API InlineModule {
 public:
  const std::string& name() const;
  const std::vector<ExtensionFunction>& functions() const;
  const ExtensionFunction& function(const std::string& name) const;  // throws Value if there is none
  const std::string& path() const;                                   // of the library

 private:
  friend InlineModule load_inline(const InlineOptions& options);
  struct State;
  explicit InlineModule(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// Compiles the sources and loads the functions; equal sources are compiled once per machine. Throws CompileError with
// the compiler's messages, which quote the sources, Value for invalid options, NotImplemented if a compiler is missing.
STRATA_API InlineModule load_inline(const InlineOptions& options);

}  // namespace strata::cuda
