// Generated from copy.cpp: do not edit.
#pragma once
#include <cmath>

#include "record/op.h"

namespace strata {
STRATA_API extern OpRecord op_copy;
inline Tensor copy(const Tensor& input, const Tensor& src, bool non_blocking = false) { return call(op_copy, Args(input, src, non_blocking)); }
inline Tensor copy_(const Tensor& input, const Tensor& src, bool non_blocking = false) { return call_inplace(op_copy, Args(input, src, non_blocking)); }
STRATA_API extern OpRecord op_clone;
inline Tensor clone(const Tensor& input, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_clone, Args(input, memory_format)); }
STRATA_API extern OpRecord op_contiguous;
inline Tensor contiguous(const Tensor& input, std::string_view memory_format = "contiguous_format") { return call(op_contiguous, Args(input, memory_format)); }
STRATA_API extern OpRecord op_to_copy;
inline Tensor to_copy(const Tensor& input, DType dtype, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_to_copy, Args(input, dtype, memory_format)); }
STRATA_API extern OpRecord op_to_dtype;
inline Tensor to(const Tensor& input, DType dtype, bool non_blocking = false, bool copy = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_to_dtype, Args(input, dtype, non_blocking, copy, memory_format)); }
STRATA_API extern OpRecord op_to_device;
inline Tensor to(const Tensor& input, std::optional<Device> device = std::nullopt, std::optional<DType> dtype = std::nullopt, bool non_blocking = false, bool copy = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_to_device, Args(input, device, dtype, non_blocking, copy, memory_format)); }
STRATA_API extern OpRecord op_to_other;
inline Tensor to(const Tensor& input, const Tensor& other, bool non_blocking = false, bool copy = false, std::optional<std::string_view> memory_format = std::nullopt) { return call(op_to_other, Args(input, other, non_blocking, copy, memory_format)); }
STRATA_API extern OpRecord op_type_as;
inline Tensor type_as(const Tensor& input, const Tensor& other) { return call(op_type_as, Args(input, other)); }
}  // namespace strata
