#include "dispatch/complex.h"

#include "dispatch/memory.h"
#include "record/formula.h"

namespace strata {
namespace {

// The arguments with the complex tensors replaced by one of their parts.
struct PartArgs {
  Args args;
  std::vector<Tensor> held;
  std::vector<std::vector<Tensor>> lists;

  PartArgs(const Call& c, int part) : args(c.args) {
    held.reserve(args.size);
    const auto select = [&](const Tensor& t) { return t && is_complex(t.dtype()) ? part_of(*t, part) : t; };
    for (uint32_t i = 0; i < args.size; ++i) {
      Value& v = args[i];
      if (v.tag == Tag::Tensor) {
        v = Value(held.emplace_back(select(c.args.share(i))));
      } else if (v.tag == Tag::Tensors) {
        std::vector<Tensor>& list = lists.emplace_back();
        for (const Tensor& t : c.args[i].tensor_list()) list.push_back(select(t));
        v = Value(TensorList(std::span<const Tensor>(list)));
      } else if (c.op.params[i].type == ParamType::Scalar && v) {
        const bool value = c.op.params[i].name == "value" || c.op.params[i].name == "fill_value";
        if (value) {
          const Complex<double> z = v.scalar().to_complex();
          v = Value(part ? z.im : z.re);
        }
      }
    }
  }
};

// Writes real numbers into one of the parts.
void store_part(const Tensor& value, const TensorImpl& whole, int part) {
  static const OpRecord& copy = find_op("copy");
  const bool recorded = thread_state.grad_mode;
  thread_state.grad_mode = false;
  call_inplace(copy, Args(part_of(whole, part), value, false));
  thread_state.grad_mode = recorded;
}
}  // namespace

void check_accepts_complex(const OpRecord& op, const Args& args) {
  const auto check = [&](DType t) {
    if (is_complex(t) && !op.accepts.has(t)) refuse_dtype(op, t);
  };
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) check(v.tensor->dtype);
    else if (v.tag == Tag::Tensors)
      for (const Tensor& t : v.tensor_list())
        if (t) check(t.dtype());
  }
}

void run_by_parts(const Call& c, void (*run)(const Call&)) {
  const bool in_place = c.op.outputs == 1 && c.args.size && c.args.is_tensor(0) && c.outs[0].get() == &c.args.tensor(0);
  for (const int part : {0, 1}) {
    PartArgs parts(c, part);
    std::vector<Tensor> outs(c.op.outputs);
    for (uint32_t o = 0; o < c.op.outputs; ++o) {
      outs[o] = c.outs[o];
      if (!is_complex(outs[o].dtype())) continue;
      if (in_place) {  // a kernel that writes only what changes
        outs[o] = clone_values(*part_of(*c.outs[o], part));
        parts.args[0] = Value(outs[o]);
      } else {
        outs[o] = shape_only(*c.outs[o]);
        outs[o]->dtype = real_type(outs[o].dtype());
        outs[o]->allocate();
      }
    }
    run(Call{c.op, parts.args, outs.data()});
    for (uint32_t o = 0; o < c.op.outputs; ++o)
      if (outs[o].get() != c.outs[o].get()) store_part(outs[o], *c.outs[o], part);
  }
}

}  // namespace strata
