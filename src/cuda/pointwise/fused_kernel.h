// What fused kernels of pointwise ops and of ops on rows share: strided tensors, parameters, compilation.
#pragma once
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/runtime/module.h"
#include "cuda/runtime/stream.h"
#include "record/fused.h"

namespace strata::cuda {

// The strided tensors of a program: dimensions that are adjacent in all of them are merged.
struct FusedStrides {
  std::vector<int64_t> size;               // the fastest dimension first
  std::vector<std::vector<int64_t>> step;  // of each tensor, in elements
};
FusedStrides fused_strides(const FusedProgram& program, const std::vector<const TensorImpl*>& tensors);
constexpr int64_t kMostFusedStrided = 1 << 30;  // elements of a launch that reads strided tensors
// Why a kernel cannot address the strided tensors; null: it can.
const char* unfit(const FusedStrides& strides);
// Whether vectors of so many elements of a strided tensor are contiguous and aligned.
bool has_vectors(const TensorImpl& t, const std::vector<int64_t>& step, int64_t items);
bool is_aligned(const void* p, size_t bytes);

// The bytes of a struct of parameters in device code, member by member.
class FusedParameters {
 public:
  void add_address(const void* p) { add(p); }
  void add(auto value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void add_numbers(const FusedProgram& program);  // in the order of for_each_number
  void add_strides(const FusedStrides& strides);
  void pad_to_eight() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }
  void* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

// What the source of a kernel depends on, as bytes.
class FusedKey {
 public:
  template <class... T> void add(T... values) {
    (text_.append(reinterpret_cast<const char*>(&values), sizeof(T)), ...);
  }
  void add_text(const std::string& text) { text_ += text + '\0'; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct FusedKernel {
  std::optional<Function> kernel;
  std::string source, error;  // why there is no kernel
};
// Compiles a source with a kernel `fused`, or finds the kernel of an earlier call with this key.
const FusedKernel& fused_kernel(const FusedProgram& program, FusedKey key, const Gpu& gpu,
                                const std::function<std::string()>& source);

}  // namespace strata::cuda
