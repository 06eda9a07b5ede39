#include "cuda/libs/nvrtc.h"

#include <fmt/core.h>

#include "base/sha256.h"
#include "cuda/libs/device_headers.h"
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
  int (*add_name)(Program, const char*);
  int (*lowered_name)(Program, const char*, const char**);

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
    add_name = find<decltype(add_name)>(library, "nvrtcAddNameExpression");
    lowered_name = find<decltype(lowered_name)>(library, "nvrtcGetLoweredName");
  }
  template <class F> static F find(const Library& library, const char* symbol) {
    const F f = library.find<F>(symbol);
    STRATA_CHECK(f, NotImplemented, "{} at {} has no {}", library.name(), library.path(), symbol);
    return f;
  }
};

// NVRTC has no C headers.
constexpr const char* kIntegers = R"(#pragma once
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long long uint64_t; typedef unsigned long long uintptr_t; typedef long long intptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-INT32_MAX - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-INT64_MAX - 1)
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
)";
constexpr const char* kMath = R"(#pragma once
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000)
#define M_PI 3.14159265358979323846
#define M_E 2.7182818284590452354
)";
constexpr const char* kNothing = "#pragma once\n";  // its functions are built in

// The headers that a source can include: these and those of src/device.
struct Headers {
  std::vector<const char*> names{"stdint.h", "cstdint", "math.h", "cmath", "string.h"};
  std::vector<const char*> texts{kIntegers, kIntegers, kMath, kMath, kNothing};
  Headers() {
    for (const DeviceHeader& header : device_headers()) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
  }
};
const Headers& headers() {
  static const auto* all = new Headers;
  return *all;
}

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

const std::string& nvrtc_identity() {
  static const auto* text = [] {
    std::string all = vendor_library(Vendor::Nvrtc).version;
    for (const char* header : headers().texts) all += header;
    return new std::string(sha256({reinterpret_cast<const std::byte*>(all.data()), all.size()}));
  }();
  return *text;
}

CompiledPtx compile_to_ptx(const std::string& source, const std::string& name, std::span<const char* const> options,
                           const std::vector<std::string>& instances) {
  const Nvrtc nvrtc;
  Program program = nullptr;
  const int made = nvrtc.create(&program, source.c_str(), name.c_str(), static_cast<int>(headers().names.size()),
                                headers().texts.data(), headers().names.data());
  STRATA_CHECK(made == 0, Runtime, "{}: NVRTC could not create the program: {}", name, nvrtc.error(made));
  struct Guard {
    const Nvrtc& n;
    Program& p;
    ~Guard() { n.destroy(&p); }
  } const guard{nvrtc, program};
  for (const std::string& instance : instances) {
    const int added = nvrtc.add_name(program, instance.c_str());
    STRATA_CHECK(added == 0, Value, "{}: NVRTC rejects the name '{}': {}", name, instance, nvrtc.error(added));
  }
  const int status = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  if (status != 0) {
    const std::string log = text_of(program, nvrtc.log_size, nvrtc.log);
    throw CompileError(fmt::format("{} does not compile ({}):\n{}", name, nvrtc.error(status), log), log);
  }
  CompiledPtx out{text_of(program, nvrtc.ptx_size, nvrtc.ptx), {}};
  for (const std::string& instance : instances) {
    const char* lowered = nullptr;
    const int found = nvrtc.lowered_name(program, instance.c_str(), &lowered);
    STRATA_CHECK(found == 0, Value, "{}: NVRTC does not find '{}': {}", name, instance, nvrtc.error(found));
    out.names[instance] = lowered;
  }
  return out;
}

}  // namespace strata::cuda
