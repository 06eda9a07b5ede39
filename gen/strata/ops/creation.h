// Generated from creation.cpp: do not edit.
#pragma once
#include <cmath>

#include "record/op.h"

namespace strata {
STRATA_API extern OpRecord op_empty;
inline Tensor empty(IntList size, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_empty, Args(size, dtype, device, requires_grad, memory_format)); }
STRATA_API extern OpRecord op_full;
inline Tensor full(IntList size, Scalar fill_value, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_full, Args(size, fill_value, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_zeros;
inline Tensor zeros(IntList size, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_zeros, Args(size, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_ones;
inline Tensor ones(IntList size, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_ones, Args(size, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_empty_strided;
inline Tensor empty_strided(IntList size, IntList stride, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_empty_strided, Args(size, stride, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_empty_like;
inline Tensor empty_like(const Tensor& input, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_empty_like, Args(input, dtype, device, requires_grad, memory_format)); }
STRATA_API extern OpRecord op_full_like;
inline Tensor full_like(const Tensor& input, Scalar fill_value, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_full_like, Args(input, fill_value, dtype, device, requires_grad, memory_format)); }
STRATA_API extern OpRecord op_zeros_like;
inline Tensor zeros_like(const Tensor& input, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_zeros_like, Args(input, dtype, device, requires_grad, memory_format)); }
STRATA_API extern OpRecord op_ones_like;
inline Tensor ones_like(const Tensor& input, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_ones_like, Args(input, dtype, device, requires_grad, memory_format)); }
STRATA_API extern OpRecord op_new_empty;
inline Tensor new_empty(const Tensor& input, IntList size, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_new_empty, Args(input, size, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_new_full;
inline Tensor new_full(const Tensor& input, IntList size, Scalar fill_value, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_new_full, Args(input, size, fill_value, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_new_zeros;
inline Tensor new_zeros(const Tensor& input, IntList size, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_new_zeros, Args(input, size, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_new_ones;
inline Tensor new_ones(const Tensor& input, IntList size, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_new_ones, Args(input, size, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_new_empty_strided;
inline Tensor new_empty_strided(const Tensor& input, IntList size, IntList stride, std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt, bool requires_grad = false) { return call(op_new_empty_strided, Args(input, size, stride, dtype, device, requires_grad)); }
STRATA_API extern OpRecord op_fill;
inline Tensor fill(const Tensor& input, Scalar value) { return call(op_fill, Args(input, value)); }
inline Tensor fill_(const Tensor& input, Scalar value) { return call_inplace(op_fill, Args(input, value)); }
STRATA_API extern OpRecord op_fill_tensor;
inline Tensor fill(const Tensor& input, const Tensor& value) { return call(op_fill_tensor, Args(input, value)); }
inline Tensor fill_(const Tensor& input, const Tensor& value) { return call_inplace(op_fill_tensor, Args(input, value)); }
STRATA_API extern OpRecord op_zero;
inline Tensor zero(const Tensor& input) { return call(op_zero, Args(input)); }
inline Tensor zero_(const Tensor& input) { return call_inplace(op_zero, Args(input)); }
}  // namespace strata
