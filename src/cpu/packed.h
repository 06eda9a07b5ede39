// Other forms of a tensor's values, kept between calls: weights transformed or reordered once instead of in every call.
//
// A form lives with the storage it was made from and is dropped with it. It is used only while the storage has seen no
// further write, and a checksum still fits: of all bytes where others know the address (NumPy, DLPack, mapped files), of a sample
// of them otherwise, for C++ programs that write through data<T>(). A form is kept from the second call on that asks for it
// with unchanged values: weights in training, which change with every step, cost no memory.
#pragma once
#include <array>
#include <functional>

#include "tensor/tensor.h"

namespace strata::cpu {

// Tells forms of one storage apart: what it is, and for which sizes.
using FormKey = std::array<int64_t, 8>;
enum class Form : int64_t { Winograd = 1, WinogradFlipped, OneDnn, OneDnnProduct, LstmGates };

// Is a form of t with this key kept and still good?
STRATA_API bool has_form(const TensorImpl& t, const FormKey& key);
// The form, kept or made by make(memory). t is dense.
STRATA_API Ref<Storage> form_of(const TensorImpl& t, const FormKey& key, size_t bytes,
                                const std::function<void(std::byte*)>& make);
// The form if it is kept, or is worth keeping from this call on; otherwise null, and the caller takes t as it lies. For
// kernels that only gain by the form. Memory that others may write to is left alone: looking at all of it costs too much.
STRATA_API Ref<Storage> form_if_kept(const TensorImpl& t, const FormKey& key, size_t bytes,
                                     const std::function<void(std::byte*)>& make);

constexpr size_t kMostFormBytes = size_t{512} << 20;  // of all forms together; beyond it they are made in every call
STRATA_API size_t form_bytes();                       // kept now

}  // namespace strata::cpu
