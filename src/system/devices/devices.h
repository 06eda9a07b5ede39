// What the devices of this machine are and can do. The same as `strata devices`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/api.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace strata::devices {

// One property: a number with its unit, or a text.
struct Property {
  std::string name;  // "multiprocessors"
  std::string text;  // as it is shown: "132", "79.1 GiB"
  std::optional<double> number = {};
};

// Operations or bytes per second; 0: not known, or not measured.
struct Peak {
  std::string what;  // "float32", "bfloat16 (tensor cores)", "copy"
  std::string unit;  // "FLOP/s", "OP/s", "B/s"
  double nominal = 0, measured = 0;
};

struct MemoryLevel {
  std::string name;                  // "registers", "L2 cache"
  uint64_t bytes = 0;                // of one
  int count = 1;                     // how many there are: 132 for the registers of 132 multiprocessors
  double nominal = 0, measured = 0;  // bytes per second, of all; 0: not known
};

struct Info {
  std::string device;   // "cpu", "cuda:0", "vgpu:0"
  std::string why_not;  // empty: it can be used
  std::string name;
  std::vector<Property> properties;
  std::vector<Peak> peaks;
  std::vector<MemoryLevel> memory;
};

// `measure`: also copies and multiplies, about a second per device.
STRATA_API std::vector<Info> list(bool measure = false);
// Bytes per second, read and written, of a copy of bytes / 2; operations per second of a large product. Measured now.
STRATA_API double copy_rate(Device d, int64_t bytes);
STRATA_API double product_rate(Device d, DType t);
STRATA_API std::string to_text(const std::vector<Info>& all, bool details);
STRATA_API std::string to_json(const std::vector<Info>& all);

// What a device does now; -1: not known.
struct Load {
  std::string device;
  double percent = -1, memory_percent = -1;    // of its time
  double memory_used = -1, memory_total = -1;  // bytes
  double watts = -1, celsius = -1, mhz = -1;
};
// Since the last call, or over a tenth of a second at the first.
STRATA_API std::vector<Load> load();
STRATA_API std::string to_text(const Load& load);
STRATA_API std::string to_json(const std::vector<Load>& all);

// Element types: range and precision, computed from their codes.
struct TypeFacts {
  std::string name;
  int bits = 0, exponent_bits = 0, mantissa_bits = 0;  // 0: not a float
  double largest = 0, smallest = 0;  // finite; of floats the smallest normal one above 0, of integers the lowest
  double smallest_subnormal = 0;     // 0: has none
  double epsilon = 0;                // from 1 to the next number
  double digits = 0;                 // decimal ones
  std::string use;
};
STRATA_API std::vector<TypeFacts> dtypes();
STRATA_API std::string to_text(const std::vector<TypeFacts>& all);
STRATA_API std::string to_json(const std::vector<TypeFacts>& all);

// Results per clock and multiprocessor, by compute capability, from NVIDIA's documents: see rates.cpp.
struct Rates {
  int capability;                                                 // 90
  const char* generation;                                         // "Hopper"
  int f64, f32, f16;                                              // fused multiply-adds of ordinary cores
  int tensor_cores;                                               // per multiprocessor
  int tensor_f64, tensor_tf32, tensor_f16, tensor_f8, tensor_i8;  // dense fused multiply-adds of tensor cores
  const char* source;
};
// Of the capability, or the last one before it of the same major version; null if there is none.
STRATA_API const Rates* rates_of(int capability);

}  // namespace strata::devices
