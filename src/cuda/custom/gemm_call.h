// One call of a product with an epilogue: its operands checked, results made, and the parameters of the kernel.
#pragma once
#include "cuda/custom/gemm_kernel_params.h"
#include "cuda/custom/gemm_source.h"
#include "cuda/runtime/stream.h"

namespace strata::gemm {

struct Call {
  const Config& c;
  const std::vector<ExtraUse>& uses;
  Tensor left, right;  // the factors; those in units of two bytes are dense along k and aligned, if need be copies
  std::vector<Tensor> outs;  // one per expression, then amax
  KernelParams p{};
  Variant variant;
  std::vector<const TensorImpl*> by_element, others;  // tensors of the epilogue; by_element: [m, n] is read for [m, n]

  Call(const Config& config, const std::vector<ExtraUse>& extras, const Tensor& a, const Tensor& b,
       std::span<const Named> named, std::span<const Tensor> given);

  bool is_meta() const { return left.device().type == DeviceType::Meta; }
  std::span<const Tensor> outs_without_amax() const { return std::span(outs).first(c.second.empty() ? 1 : 2); }
  bool is_empty() const { return p.m == 0 || p.n == 0 || p.batches == 0; }
  // Throws Runtime if a result that is given overlaps an operand.
  void check_outputs(const Tensor& a, const Tensor& b);
  // Fills in the addresses of the factors, copies them where a kernel needs other strides, and clears amax. Before a
  // launch.
  void prepare();
  // Describes the product for the kernel for Hopper and chooses its tiles. False if that kernel cannot compute it.
  bool lay_out_for_hopper(const cuda::Gpu& gpu, cuda::GemmLayout& l);
  // What a compiled kernel depends on.
  std::string key() const;

 private:
  void check_device(const TensorImpl& t, const char* what) const;
  void check_factors() const;
  void set_shape(std::span<const Tensor> given);
  void add_extra(const ExtraUse& use, std::span<const Named> named);
  void add_tensor(const ExtraUse& use, const TensorImpl& t, Extra& x) const;
  void set_params();
  int vector_of(const TensorImpl& t, int64_t dense_stride, int64_t ld, int64_t rows, const int64_t* batch) const;
  bool choose_reading();
};

}  // namespace strata::gemm
