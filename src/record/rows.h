// Ops that compute rows independently of each other: how a group of deferred ops (dispatch/deferred.h) computes one of them. On the CPU
// that is a function of a block of rows, on GPUs a functor of a kernel that is compiled at run time; the op's own kernels call the same
// ones, so a group has the bits of the single op.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "record/op.h"

namespace strata {

// What a block of rows holds of an operand or result.
enum class RowExtent : uint8_t {
  Elements,  // all elements of its rows
  Rows,      // some values for each row: statistics
  Whole      // results only: values that are complete after the last block
};

constexpr size_t kMaxRowInputs = 4, kMaxRowOutputs = kMaxOutputs;

// Inputs are contiguous, in the compute type. So are results that are elements, except bools; all others have their own dtype.
struct RowBlock {
  int64_t first, count;  // rows
  const void* in[kMaxRowInputs];
  void* out[kMaxRowOutputs];  // null for RowExtent::Whole
};

struct RowPart {
  RowExtent extent = RowExtent::Elements;
  int64_t width = 1;   // values per row, for RowExtent::Rows
  bool ready = false;  // of a result: `prepare` computes it
};
struct RowInput : RowPart {
  const TensorImpl* tensor = nullptr;
  bool parameter = false;  // of all rows: a functor reads it vector by vector
};

// How GPUs compute an op: a functor with a static function `run` of the row (cuda/common/row_threads.cuh), the numbers, the words, the
// inputs, the results and the parameters. Elements are functions of (vector, T(&)[8]), values of rows T.
struct GpuRows {
  std::string header, functor;       // "cuda/nn/softmax_rows.cuh", "SoftmaxRow<false, true>"
  int64_t threads = 0;               // of a row, as in the op's own kernel; 0: its bits are the same with any number
  int arrays = 0;                    // T[kVectors][8] that it holds in registers
  std::vector<double> numbers = {};  // rounded to T
  std::vector<uint64_t> words = {};
};
constexpr int64_t kGpuRowVectors = 8;  // of a thread, at most; twice as many if their elements have 16 bits

// One call. The operands that are not listed were read when it was made.
struct RowOp {
  DType compute = DType::F32;  // or float64
  Shape shape = {};            // of the elements
  int64_t row = 1;             // elements of a row; 1: the op works on elements, and any number of them is a row
  std::vector<RowInput> in = {};
  RowPart out[kMaxRowOutputs] = {};
  int64_t align = 1;     // in elements: blocks begin at multiples of it
  int64_t together = 1;  // blocks begin at multiples of so many rows: a power of two up to 8
  int64_t unit = 0;      // rows that one thread computes, block after block; 0: any
  bool joins = false;    // pays only if the group computes its first input
  std::function<void(const RowBlock&)> run = {};
  std::function<void(const Call&)> prepare = {};  // once the results have memory, before any block; may be empty
  std::function<void(std::byte* const* outs)> finish =
    {};                               // after the last block, for RowExtent::Whole; null: not needed
  std::vector<Tensor> reads = {};     // by `finish`: the group stores them and does not overwrite them
  std::shared_ptr<GpuRows> gpu = {};  // for GPUs; `prepare` may change it
  // For GPUs, set by dispatch: computes the op without a group, for inputs in the order of `in` and results in that of the call. Where
  // an address is null, nobody needs the result.
  std::function<void(const std::vector<Tensor>& in, std::byte* const* outs, std::vector<Tensor>& results)> alone = {};
};

// Describes a call, or returns nothing if its rows cannot be computed one by one. The results have shapes, but no memory.
using DescribeRows = std::optional<RowOp> (*)(const Call&);
struct RowRule {
  DescribeRows describe;
  uint32_t whole;  // mask of the parameters that it reads: they have values by then
};
STRATA_API void set_row_rule(const OpRecord& op, DescribeRows describe, std::initializer_list<std::string_view> whole,
                             Backend backend = Backend::Cpu);
STRATA_API const RowRule* row_rule_of(const OpRecord& op, Backend backend);  // null: none

// For OpRecord::with(), if the op reads nothing but the operands of rows.
template <DescribeRows describe, Backend backend = Backend::Cpu> void computes_rows(OpRecord& op) {
  set_row_rule(op, describe, {}, backend);
}

// The rows of n columns that one thread adds up in order, for sums over rows: a function of the shape, so that the partition of such
// sums does not depend on the number of threads.
inline int64_t row_unit(int64_t n) {
  return std::clamp<int64_t>((1 << 17) / std::max<int64_t>(n, 1), 32, 1024) / 8 * 8;
}

}  // namespace strata
