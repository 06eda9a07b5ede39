// Runs PTX text on the virtual GPU: whole kernels, or one instruction over columns of numbers.
#pragma once
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cuda/vgpu/device.h"

namespace strata::cuda::vgpu::testing {

inline const std::string kHeader = ".version 8.3\n.target sm_80\n.address_size 64\n";

struct Whole {  // a module with its header
  std::string text;
};

struct Machine {
  explicit Machine(const std::string& body, const char* profile = "ampere") : Machine(Whole{kHeader + body}, profile) {}
  explicit Machine(const Whole& whole, const char* profile = "ampere")
      : profile(profile_of(profile)), memory(uint64_t{1} << 30), module(whole.text, memory) {}
  template <class T> uint64_t put(const std::vector<T>& v) {
    const uint64_t at = memory.allocate(std::max<size_t>(v.size() * sizeof(T), 1));
    std::memcpy(reinterpret_cast<void*>(at), v.data(), v.size() * sizeof(T));
    return at;
  }
  template <class T> std::vector<T> get(uint64_t at, size_t n) {
    std::vector<T> v(n);
    std::memcpy(v.data(), reinterpret_cast<void*>(at), n * sizeof(T));
    return v;
  }
  template <class... A> Counters run(const std::string& name, Launch launch, A... args) {
    const Program* p = module.kernel(name);
    if (!p) throw Error(ErrorKind::Value, "no kernel " + name);
    const void* pointers[] = {static_cast<const void*>(&args)..., nullptr};
    return vgpu::run(*p, profile, memory, launch, pointers);
  }
  // A grid of as many blocks as `n` threads need.
  template <class... A> Counters over(const std::string& name, int n, A... args) {
    return run(name, {{static_cast<uint32_t>((n + 127) / 128), 1, 1}, {128, 1, 1}}, args...);
  }
  Profile profile;
  Memory memory;
  Module module;
};

// PTX compiled by nvcc from tests/cuda/vgpu/kernels: "math.75".
Whole compiled(const std::string& name);

// One operand for every thread.
struct Column {
  template <class T> Column(const std::vector<T>& v) : bytes(sizeof(T)), count(v.size()), data(v.size() * sizeof(T)) {
    std::memcpy(data.data(), v.data(), data.size());
  }
  size_t bytes, count;
  std::vector<uint8_t> data;
};

// The instruction, with %d for its result and %a, %b, %c for operands, once per row. Further lines may precede it.
template <class D> std::vector<D> each(const std::string& text, const std::vector<Column>& columns) {
  const auto bits = [](size_t bytes) { return bytes * 8; };
  const char* names[] = {"%a", "%b", "%c"};
  std::string body = ".visible .entry k(.param .u64 out, .param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n";
  body +=
    ".reg .pred %p, %q; .reg .b64 %o, %at, %index; .reg .b32 %t; .reg .b16 %h<4>; .reg .b32 %w<4>; .reg .b64 %l<4>;\n";
  body += fmt::format(".reg .b{} %d;\n", std::max<size_t>(bits(sizeof(D)), 16));
  body +=
    "mov.u32 %w0, %ctaid.x; mov.u32 %w1, %ntid.x; mov.u32 %t, %tid.x; mad.lo.s32 %t, %w0, %w1, %t; cvt.u64.u32 %index, "
    "%t;\n";
  for (size_t k = 0; k < columns.size(); ++k) {
    body += fmt::format(".reg .b{} {};\n", std::max<size_t>(bits(columns[k].bytes), 16), names[k]);
    body += fmt::format("ld.param.u64 %at, [p{}]; mad.lo.u64 %at, %index, {}, %at; ld.global.b{} {}, [%at];\n", k,
                        columns[k].bytes, bits(columns[k].bytes), names[k]);
  }
  body += text + "\n";
  body += fmt::format("ld.param.u64 %o, [out]; mad.lo.u64 %o, %index, {}, %o; st.global.b{} [%o], %d;\nret;\n}}\n",
                      sizeof(D), bits(sizeof(D)));
  Machine m(body);
  const size_t n = columns.at(0).count, threads = 64;
  const size_t padded = (n + threads - 1) / threads * threads;
  uint64_t at[3] = {};
  for (size_t k = 0; k < columns.size(); ++k) {
    auto data = columns[k].data;
    data.resize(padded * columns[k].bytes);
    at[k] = m.put(data);
  }
  const uint64_t out = m.put(std::vector<D>(padded));
  m.run("k", {{static_cast<uint32_t>(padded / threads), 1, 1}, {static_cast<uint32_t>(threads), 1, 1}}, out, at[0],
        at[1], at[2]);
  return m.get<D>(out, n);
}

// All pairs of the values, as two columns.
template <class T> std::pair<std::vector<T>, std::vector<T>> pairs(const std::vector<T>& v) {
  std::pair<std::vector<T>, std::vector<T>> out;
  for (T a : v)
    for (T b : v) {
      out.first.push_back(a);
      out.second.push_back(b);
    }
  return out;
}

}  // namespace strata::cuda::vgpu::testing
