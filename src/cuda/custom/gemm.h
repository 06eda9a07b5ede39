// Matrix products with a tile and an epilogue of one's own, compiled at run time for `cuda` and `vgpu`.
//
//   const gemm::Kernel linear_relu = gemm::compile({.dtype = DType::BF16, .epilogue = "relu(acc + bias[n])"});
//   const Tensor y = linear_relu(x, w, {{"bias", bias}});
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/args.h"

namespace strata::gemm {

struct Config {
  // Of both factors. On tensor cores: float16, bfloat16, int8 (with exact sums), and the two float8 formats, of which each
  // factor may be either; float32 too with tf32. Without them: float32 and float64.
  DType dtype = DType::BF16;
  std::array<int, 3> tile{0, 0, 0};  // m, n, k of a block's tile; 0: 128, 128, 32, or 64, 64, 16 without tensor cores
  int stages = 0;                    // tiles in flight; 0: two to four, as fit into 96 KiB
  std::array<int, 2> warps{0, 0};    // warps along m and n, on tensor cores; 0: parts of 64 x 32 at most
  std::string epilogue = "acc";      // a C++ expression over acc, m, n, batch and names of tensors and numbers
  std::optional<DType> out_dtype = {};     // by default dtype; int32 for int8, bfloat16 for float8
  std::string preamble = {};               // CUDA C++ before the kernel: functions for the epilogue
  std::string name = "gemm";               // of the kernel, for messages and profilers
  std::vector<std::string> options = {};   // for NVRTC
  bool tf32 = false;                       // float32 on tensor cores, which read the upper 19 bits of each number
  std::string second = {};                 // an expression for a second result of the same shape
  std::optional<DType> second_dtype = {};  // out_dtype by default
  bool amax = false;                       // also return the largest |result| of the first expression, in float32
};

// A name in the epilogue and how it is used.
struct ExtraUse {
  enum class Kind : uint8_t { Number, Vector, Matrix };
  std::string name;
  Kind kind;
  // Every use of a vector is [n] or every use is [m], or every use of a matrix is [m, n]: the sizes must then be equal.
  bool by_row = false, by_column = false;
};

// A tensor or a number for a name of the epilogue. Borrows the tensor for one call.
struct Named {
  std::string name;
  Operand value;
};

class STRATA_API Kernel {
 public:
  const Config& config() const;                 // with tile, stages, warps and out_dtype filled in
  const std::vector<ExtraUse>& extras() const;  // in the order of their first use
  uint32_t shared_bytes() const;                // per block

  // epilogue(a @ b) for a[..., m, k] and b[..., k, n], whose batch dimensions broadcast; any strides and addresses. A
  // kernel is compiled for each combination of layouts and dtypes of the tensors when it is first needed. Tensors on
  // meta give the shape. Results are not recorded for gradients. Throws Type for wrong dtypes and for names that are
  // missing or unknown, Runtime for wrong shapes and devices, Value for a tile that does not fit the device,
  // cuda::CompileError for an epilogue that does not compile.
  //
  // all() returns the result, that of the second expression, and amax, as far as there are such; the operators return
  // the first. `outs` may be empty, or has a tensor for each expression.
  std::vector<Tensor> all(const Tensor& a, const Tensor& b, std::span<const Named> extras = {},
                          std::span<const Tensor> outs = {}) const;
  Tensor operator()(const Tensor& a, const Tensor& b, std::span<const Named> extras = {}, Tensor out = {}) const;
  Tensor operator()(const Tensor& a, const Tensor& b, std::initializer_list<Named> extras, Tensor out = {}) const {
    return (*this)(a, b, std::span(extras.begin(), extras.size()), std::move(out));
  }

 private:
  friend Kernel compile(const Config& config);
  struct State;
  explicit Kernel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Checks the configuration. Throws Value if the tile or the epilogue cannot be used.
STRATA_API Kernel compile(const Config& config);

// The same with a configuration that is known at compile time, so that the compiler checks the tile:
//
//   struct LinearRelu : gemm::Defaults {
//     static constexpr const char* kEpilogue = "relu(acc + bias[n])";
//   };
//   const gemm::Gemm<LinearRelu> linear_relu;
struct Defaults {
  static constexpr DType kDType = DType::BF16;
  static constexpr int kM = 128, kN = 128, kK = 32, kStages = 4;
  static constexpr const char* kEpilogue = "acc";
};
template <class C> class Gemm : public Kernel {
  static_assert(C::kM % 16 == 0 && C::kN % 16 == 0 && C::kK % 16 == 0 && C::kM > 0 && C::kN > 0 && C::kK > 0,
                "the sizes of a tile are multiples of 16");
  static_assert(C::kStages >= 2 && C::kStages <= 8, "a pipeline has 2 to 8 stages");

 public:
  Gemm()
      : Kernel(compile({.dtype = C::kDType,
                        .tile = {C::kM, C::kN, C::kK},
                        .stages = C::kStages,
                        .warps = {0, 0},
                        .epilogue = C::kEpilogue,
                        .out_dtype = {},
                        .preamble = {},
                        .name = "gemm",
                        .options = {},
                        .tf32 = false,
                        .second = {},
                        .second_dtype = {},
                        .amax = false})) {}
};

}  // namespace strata::gemm
