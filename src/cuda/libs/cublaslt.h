// The part of the interface of cuBLASLt, NVIDIA's library of matrix products, that Strata uses.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/driver/api.h"

namespace strata::cuda::cublaslt {

// Names and numbers as in cublasLt.h and library_types.h.
enum DataType : int {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR8I = 3,
  kR32I = 10,
  kR16BF = 14,
  kR8FE4M3 = 28,
  kR8FE5M2 = 29
};
enum ComputeType : int { kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FFastTf32 = 77 };
enum Operation : int { kOpN = 0, kOpT = 1 };
enum MatmulDescAttribute : int {
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBiasPointer = 8,
  kDescAuxPointer = 11,
  kDescAuxLeadingDimension = 12,
  kDescScaleA = 17,
  kDescScaleB = 18,
  kDescFastAccumulation = 25,
  kDescBiasDataType = 26,
  kDescScaleModeA = 31,
  kDescScaleModeB = 32,
};
enum Epilogue : int { kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32, kEpilogueAux = 128 };  // bits
enum ScaleMode : int { kScaleOuterVector = 3 };
enum LayoutAttribute : int { kLayoutBatchCount = 5, kLayoutBatchStride = 6 };
enum PreferenceAttribute : int {
  kPreferMaxWorkspace = 1,
  kPreferReductions = 3,
  kPreferAlignmentA = 5,
  kPreferAlignmentB = 6,
  kPreferAlignmentC = 7,
  kPreferAlignmentD = 8,
};
enum ReductionScheme : uint32_t { kReductionComputeType = 2 };

using Status = int;  // 0: success
constexpr Status kNotSupported = 15;
using Handle = struct Context*;
using MatmulDesc = struct MatmulDescOpaque*;
using Layout = struct LayoutOpaque*;
using Preference = struct PreferenceOpaque*;
struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

struct Functions {
  Status (*create)(Handle*);
  const char* (*status_name)(Status);
  Status (*desc_create)(MatmulDesc*, int compute, int scale);
  Status (*desc_destroy)(MatmulDesc);
  Status (*desc_set)(MatmulDesc, int attribute, const void* value, size_t bytes);
  Status (*layout_create)(Layout*, int type, uint64_t rows, uint64_t columns, int64_t ld);
  Status (*layout_destroy)(Layout);
  Status (*layout_set)(Layout, int attribute, const void* value, size_t bytes);
  Status (*preference_create)(Preference*);
  Status (*preference_destroy)(Preference);
  Status (*preference_set)(Preference, int attribute, const void* value, size_t bytes);
  Status (*heuristic)(Handle, MatmulDesc, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                      HeuristicResult* results, int* found);
  Status (*matmul)(Handle, MatmulDesc, const void* alpha, const void* a, Layout, const void* b, Layout,
                   const void* beta, const void* c, Layout, void* d, Layout, const Algorithm*, void* workspace,
                   size_t bytes, driver::CUstream);
};

// Null if the library cannot be used; vendor_library(Vendor::CublasLt) has the reason. Opened at the first call.
const Functions* functions();

}  // namespace strata::cuda::cublaslt
