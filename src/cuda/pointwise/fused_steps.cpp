#include "cuda/pointwise/fused_steps.h"

#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {
namespace {

class Steps {
 public:
  explicit Steps(const FusedProgram& p) : p_(p), results_(p.steps.size()), row_shape_(p.shape) {
    int64_t inside = p.row;
    for (size_t d = row_shape_.size(); d-- > 0 && inside > 1;) {
      inside /= p.shape[d];
      row_shape_[d] = 1;
    }
  }
  void run() {
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      if (p_.steps[i].formula) run_formula_of(i);
      else if (p_.steps[i].output == 0) run_rows(i);
    }
  }

 private:
  // A tensor over memory that somebody else owns, or with memory of its own.
  Tensor tensor(const std::vector<int64_t>& shape, DType type, std::byte* memory) const {
    Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
    t->set_shape(Shape(shape.data(), shape.size()));
    t->set_contiguous_strides();
    t->dtype = type;
    t->device = p_.device;
    if (memory) t->data = memory;
    else t->allocate();
    return t;
  }
  // The values of rows have size 1 in the dimensions of a row, so that they are broadcast to elements.
  Tensor operand(const FusedOperand& from, RowExtent extent) const {
    if (from.kind == FusedOperand::Kind::Step) return results_[from.index];
    const Tensor& t = p_.tensors[from.index];
    if (extent != RowExtent::Rows || t.numel() == 1) return t;
    Tensor values = alias(*t);
    values->set_shape(Shape(row_shape_.data(), row_shape_.size()));
    values->set_contiguous_strides();
    return values;
  }
  void run_formula_of(size_t i) {
    const FusedStep& s = p_.steps[i];
    results_[i] = tensor(s.part.extent == RowExtent::Rows ? row_shape_ : p_.shape, s.type, s.to);
    FormulaOperands operands{};
    Tensor held[kMaxOperands];
    for (int k = 0; k < s.formula->inputs; ++k) {
      const FusedOperand& from = s.from[k];
      if (from.kind == FusedOperand::Kind::Number) {
        operands.number[k] = static_cast<uint64_t>(from.number);
      } else {
        held[k] = operand(from, s.part.extent);
        operands.tensor[k] = &*held[k];
      }
    }
    for (int k = 0; k < s.formula->members; ++k) operands.members[k] = static_cast<uint64_t>(s.members[k]);
    run_formula(*s.formula, p_.compute, operands, *results_[i]);
  }
  void run_rows(size_t i) {
    const RowOp& op = *p_.steps[i].rows;
    std::vector<Tensor> in, made;
    for (int k = 0; k < p_.steps[i].inputs(); ++k)
      in.push_back(operand(p_.steps[i].from[k], op.in[static_cast<size_t>(k)].extent));
    std::byte* outs[kMaxRowOutputs] = {};
    for (size_t k = i; k < p_.steps.size() && p_.steps[k].rows.get() == &op; ++k)
      outs[p_.steps[k].output] = p_.steps[k].to;
    op.alone(in, outs, made);
    for (size_t k = i; k < p_.steps.size() && p_.steps[k].rows.get() == &op; ++k) {
      const FusedStep& s = p_.steps[k];
      Tensor& result = results_[k];
      result = made[static_cast<size_t>(s.output)];
      if (s.part.extent != RowExtent::Rows || s.part.width != 1) continue;
      result = alias(*result);
      result->set_shape(Shape(row_shape_.data(), row_shape_.size()));
      result->set_contiguous_strides();
    }
  }

  const FusedProgram& p_;
  std::vector<Tensor> results_;
  std::vector<int64_t> row_shape_;
};

}  // namespace

void run_steps(const FusedProgram& p, const Stream& stream) {
  const InStreamOf there(stream);
  Steps(p).run();
}

}  // namespace strata::cuda
