// Caches other forms of a tensor's values between calls: weights transformed or reordered once instead of in every
// call.
//
// A form belongs to the storage it was made from and is freed with it. It is used only if the storage has not been
// written since and a checksum matches: of all bytes if other code knows the address (NumPy, DLPack, mapped files), of
// a sample of them otherwise, for C++ programs that write through data<T>(). Read-only memory, such as the weights of a
// model file, is not checked, and its forms do not count against the limit. A form is kept from the second request
// with unchanged values on: weights in training, which change every step, cost no memory.
#pragma once
#include <array>
#include <functional>

#include "tensor/tensor.h"

namespace strata::cpu {

// Identifies a form of a storage: its kind, and the sizes.
using FormKey = std::array<int64_t, 8>;
enum class Form : int64_t { Winograd = 1, WinogradFlipped, OneDnn, OneDnnProduct, LstmGates };

// Whether a form of t with this key is kept and still valid.
STRATA_API bool has_form(const TensorImpl& t, const FormKey& key);
// The form, kept or created by make(memory). t is dense.
STRATA_API Ref<Storage> form_of(const TensorImpl& t, const FormKey& key, size_t bytes,
                                const std::function<void(std::byte*)>& make);
// The form if it is kept, or is worth keeping from this call on; otherwise null, and the caller uses t directly. For
// kernels that also work without the form. Memory that other code may write to is not cached: checking all of it costs
// too much.
STRATA_API Ref<Storage> form_if_kept(const TensorImpl& t, const FormKey& key, size_t bytes,
                                     const std::function<void(std::byte*)>& make);

// Whether form_if_kept may keep forms of t, which must be dense.
STRATA_API bool may_keep_forms(const TensorImpl& t);

constexpr size_t kMostFormBytes = size_t{512} << 20;  // of all forms together; beyond it they are created in every call
STRATA_API size_t form_bytes();                       // currently kept

}  // namespace strata::cpu
