#include "dispatch/lone_call.h"

#include <algorithm>

#include "dispatch/choose.h"

namespace strata {
namespace {

struct LoneCall {
  const OpRecord* op;
  SavedArgs args;
  std::vector<Tensor> outs;                         // without memory
  std::vector<std::pair<uint32_t, size_t>> inputs;  // parameters and the operands that they are

  LoneCall(const Call& c, const RowOp& rows) : op(&c.op) {
    Args held = c.args;
    std::vector<Tensor> aliases;  // a tensor may get other memory before the group is computed
    uint32_t others = 0;
    for (uint32_t i = 0; i < held.size; ++i) {
      if (!held.is_tensor(i)) continue;
      const auto is = [&](const RowInput& in) { return in.tensor == &c.args.tensor(i); };
      const auto found = std::ranges::find_if(rows.in, is);
      if (found != rows.in.end()) {
        inputs.emplace_back(i, found - rows.in.begin());
      } else {
        held[i] = Value(aliases.emplace_back(alias(c.args.tensor(i))));
        others |= 1u << i;
      }
    }
    args.save(held, others);
    for (uint32_t o = 0; o < c.op.outputs; ++o) outs.push_back(without_memory(*c.outs[o]));
  }
  static Tensor without_memory(const TensorImpl& t) {
    Tensor out(Ref<TensorImpl>::adopt(TensorImpl::make()));
    out->set_shape(t.sizes());
    out->set_contiguous_strides();
    out->dtype = t.dtype;
    out->device = t.device;
    return out;
  }
  void run(const std::vector<Tensor>& in, std::byte* const* to, std::vector<Tensor>& results) const {
    Args given = args.view();
    for (const auto& [parameter, operand] : inputs) given[parameter] = Value(in[operand]);
    for (size_t o = 0; o < outs.size(); ++o) {
      results.push_back(without_memory(*outs[o]));
      if (to[o]) results.back()->data = to[o];  // somebody else owns the memory
      else results.back()->allocate();
    }
    run_kernel(Call{*op, given, results.data()});
  }
};

}  // namespace

decltype(RowOp::alone) lone_call(const Call& c, const RowOp& rows) {
  return
    [call = std::make_shared<const LoneCall>(c, rows)](const std::vector<Tensor>& in, std::byte* const* to,
                                                       std::vector<Tensor>& results) { call->run(in, to, results); };
}

}  // namespace strata
