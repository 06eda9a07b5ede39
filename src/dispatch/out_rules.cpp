// PyTorch's rules for out= tensors, op by op: those that must have the dtype of the result, or not overlap an input.
#include <algorithm>
#include <string_view>

#include "dispatch/devices.h"
#include "dispatch/memory.h"

namespace strata {
namespace {

// These require the dtype of the result; all others convert to the dtype of out=.
constexpr std::string_view kExactDType[] = {
  "abs",
  "addbmm",
  "addmm",
  "addmv",
  "alias_copy",
  "amax",
  "amin",
  "aminmax",
  "argmax",
  "argmin",
  "as_strided_copy",
  "baddbmm",
  "bitwise_not",
  "bmm",
  "ceil",
  "clamp",
  "cross",
  "cummax",
  "cummin",
  "diag",
  "diagonal_copy",
  "dot",
  "expand_copy",
  "float_power",
  "floor",
  "frac",
  "frexp",
  "gather",
  "hardshrink",
  "heaviside",
  "histc",
  "index_add",
  "index_copy",
  "index_reduce",
  "index_select",
  "isin",
  "isneginf",
  "isposinf",
  "kthvalue",
  "linalg.cholesky",
  "linalg.cholesky_ex",
  "linalg.cross",
  "linalg.det",
  "linalg.eigh",
  "linalg.eigvalsh",
  "linalg.inv",
  "linalg.inv_ex",
  "linalg.lu",
  "linalg.matrix_norm",
  "linalg.norm",
  "linalg.qr",
  "linalg.slogdet",
  "linalg.solve",
  "linalg.solve_ex",
  "linalg.solve_triangular",
  "linalg.svd",
  "linalg.svdvals",
  "linalg.vecdot",
  "linalg.vector_norm",
  "log_softmax",
  "logcumsumexp",
  "masked_select",
  "matmul",
  "median",
  "mm",
  "mode",
  "msort",
  "multinomial",
  "mv",
  "nan_to_num",
  "nanmedian",
  "nanquantile",
  "narrow_copy",
  "neg",
  "nn.functional.avg_pool2d",
  "nn.functional.avg_pool3d",
  "nn.functional.gelu",
  "nn.functional.linear",
  "nn.functional.logsigmoid",
  "nn.functional.softplus",
  "nn.functional.softshrink",
  "nonzero",
  "nonzero_static",
  "norm",
  "ormqr",
  "permute_copy",
  "quantile",
  "renorm",
  "round",
  "searchsorted",
  "sign",
  "signbit",
  "softmax",
  "sort",
  "squeeze_copy",
  "svd",
  "t_copy",
  "take",
  "take_along_dim",
  "topk",
  "transpose_copy",
  "triangular_solve",
  "tril",
  "triu",
  "trunc",
  "unfold_copy",
  "unsqueeze_copy",
  "vdot",
  "where",
};
// These move elements: a write could overwrite elements that are still to be read.
constexpr std::string_view kApart[] = {
  "cat",      "column_stack", "cross",         "dstack", "gather", "hstack",         "index_select",
  "kthvalue", "linalg.cross", "masked_select", "stack",  "take",   "take_along_dim", "vstack",
};
static_assert(std::ranges::is_sorted(kExactDType) && std::ranges::is_sorted(kApart));

template <size_t n> bool among(const std::string_view (&names)[n], const OpRecord& op) {
  return std::ranges::binary_search(names, std::string_view(op.name));
}
}  // namespace

void check_out(const OpRecord& op, const Args& args, const Tensor* outs) {
  for (uint32_t o = 0; o < op.outputs; ++o) {
    if (devices_in_use) [[unlikely]]
      check_out_device(op, args, *outs[o]);
    if (op.broadcasts) refuse_overlap(args, *outs[o], true, op.name.c_str());
    else if (among(kApart, op)) refuse_overlap(args, *outs[o], false, op.name.c_str());
    for (uint32_t other = 0; other < o; ++other)
      STRATA_CHECK(!share_memory(*outs[o], *outs[other]), Value,
                   "{}(): the out= tensors for results {} and {} must not overlap", op.name, other, o);
  }
}

void check_out_is_no_input(const OpRecord& op, const Args& args, const TensorImpl& given) {
  // empty tensors share no memory; given may be another object for the tensor (in Python)
  const auto is_given = [&](const TensorImpl& t) {
    return t.storage && t.storage.get() == given.storage.get() && t.same_shape(given);
  };
  for (const Value& v : args)
    STRATA_CHECK(
      v.tag != Tag::Tensor || !(is_given(*v.tensor) || share_memory(*v.tensor, given)), Runtime,
      "{}(): out= of shape {} is an input too and does not have the shape of the result; it cannot be resized", op.name,
      to_string(given.sizes()));
}

void check_out_dtype(const OpRecord& op, DType result, DType given) {
  check_cast(result, given, op.name.c_str());
  STRATA_CHECK(result == given || !among(kExactDType, op), Runtime,
               "{}(): Expected out tensor to have dtype {}, but got {} instead", op.name, name_of(result),
               name_of(given));
}

}  // namespace strata
