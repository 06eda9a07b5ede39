// Compiles CUDA C++ at run time with NVRTC, if it is installed.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace strata::cuda {

// A source that does not compile. The message has the compiler's log, which quotes the lines.
class STRATA_API CompileError : public Error {
 public:
  CompileError(const std::string& what, std::string log) : Error(ErrorKind::Value, what), log_(std::move(log)) {}
  const std::string& log() const { return log_; }

 private:
  std::string log_;
};

struct CompiledPtx {
  std::string ptx;
  std::map<std::string, std::string> names;  // of `instances`: the name in the PTX of each
};

// Identifies the compiler and the headers that are built in, for caches of its output.
STRATA_API const std::string& nvrtc_identity();

// Compiles a source to PTX. `instances`: template kernels to instantiate, such as "scale<float>". Built in are
// <stdint.h>, <math.h> and the headers of src/device: "device/functors/activations.h"; of src/cuda those that
// device_headers() lists. Throws NotImplemented with the reason if NVRTC is missing, and CompileError if the source does
// not compile.
STRATA_API CompiledPtx compile_to_ptx(const std::string& source, const std::string& name,
                                      std::span<const char* const> options = {},
                                      const std::vector<std::string>& instances = {});

}  // namespace strata::cuda
