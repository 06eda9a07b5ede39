#include "cuda/libs/nvrtc.h"

#include "cuda/libs/libraries.h"

namespace strata::cuda {
namespace {

using Program = void*;

struct Nvrtc {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error)(int);

  Nvrtc() {
    const Library& library = vendor_library(Vendor::Nvrtc).library;
    library.require();
    create = find<decltype(create)>(library, "nvrtcCreateProgram");
    compile = find<decltype(compile)>(library, "nvrtcCompileProgram");
    ptx_size = find<decltype(ptx_size)>(library, "nvrtcGetPTXSize");
    ptx = find<decltype(ptx)>(library, "nvrtcGetPTX");
    log_size = find<decltype(log_size)>(library, "nvrtcGetProgramLogSize");
    log = find<decltype(log)>(library, "nvrtcGetProgramLog");
    destroy = find<decltype(destroy)>(library, "nvrtcDestroyProgram");
    error = find<decltype(error)>(library, "nvrtcGetErrorString");
  }
  template <class F> static F find(const Library& library, const char* symbol) {
    const F f = library.find<F>(symbol);
    STRATA_CHECK(f, NotImplemented, "{} at {} has no {}", library.name(), library.path(), symbol);
    return f;
  }
};

// The text returned by a pair of functions: one for its size, one for its contents.
template <class Size, class Get> std::string text_of(Program program, Size size, Get get) {
  size_t bytes = 0;
  size(program, &bytes);
  std::string text(bytes, '\0');
  get(program, text.data());
  while (text.ends_with('\0')) text.pop_back();
  return text;
}
}  // namespace

std::string compile_to_ptx(const std::string& source, const std::string& name, std::span<const char* const> options) {
  const Nvrtc nvrtc;
  Program program = nullptr;
  const int made = nvrtc.create(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  STRATA_CHECK(made == 0, Runtime, "{}: NVRTC could not create the program: {}", name, nvrtc.error(made));
  struct Guard {
    const Nvrtc& n;
    Program& p;
    ~Guard() { n.destroy(&p); }
  } const guard{nvrtc, program};
  const int status = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  STRATA_CHECK(status == 0, Value, "{}: {}\n{}", name, nvrtc.error(status),
               text_of(program, nvrtc.log_size, nvrtc.log));
  return text_of(program, nvrtc.ptx_size, nvrtc.ptx);
}

}  // namespace strata::cuda
