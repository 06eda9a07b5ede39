// The run-time arguments of a oneDNN call with an input of bytes.
#pragma once
#include <vector>

#include "cpu/onednn/api.h"
#include "cpu/staging.h"
#include "record/epilogue.h"

namespace strata::cpu {

// The scale of a channel's sums is that of its weights times that of the input.
struct ByteArguments {
  std::vector<float> scales;
  float result_scale = 1;
  onednn::Extra extra;

  ByteArguments(const ByteScales* bytes, const TensorImpl* weight_scales, int64_t channels) {
    if (!bytes) return;
    const Tensor given = staged(*weight_scales, DType::F32);
    scales.resize(static_cast<size_t>(channels));
    for (int64_t o = 0; o < channels; ++o)
      scales[static_cast<size_t>(o)] =
        static_cast<float>(bytes->input * double{given.data<float>()[given.numel() == 1 ? 0 : o]});
    result_scale = static_cast<float>(bytes->result);
    extra.scales = scales.data();
    extra.result_scale = &result_scale;
    extra.input_zero = &bytes->input_zero;
    extra.result_zero = &bytes->result_zero;
  }
  ByteArguments(const ByteArguments&) = delete;
  ByteArguments& operator=(const ByteArguments&) = delete;
};

}  // namespace strata::cpu
