// Device ops that run on the CPU: inputs are copied to the host, results back. The kernel's name says so.
#include "base/trace.h"
#include "dispatch/choose.h"
#include "dispatch/devices.h"

namespace strata {
namespace {

// The arguments with their tensors replaced by f(tensor), which this object keeps alive.
struct MappedArgs {
  Args args;
  std::vector<Tensor> tensors;
  std::vector<std::vector<Tensor>> lists;

  template <class F> MappedArgs(const Args& from, const F& f) : args(from) {
    for (uint32_t i = 0; i < args.size; ++i) {
      if (args.is_tensor(i)) {
        args[i] = Value(tensors.emplace_back(f(from.share(i))));
      } else if (args[i].tag == Tag::Tensors) {
        std::vector<Tensor>& list = lists.emplace_back();
        for (const Tensor& t : from[i].tensor_list()) list.push_back(t ? f(t) : Tensor());
        args[i] = Value(TensorList(std::span<const Tensor>(list)));
      } else if (args[i].tag == Tag::Device) {
        args[i] = Value(Device{});
      }
    }
  }
};

Tensor moved(const Tensor& t, Device device) {
  if (!t || t.device() == device) return t;
  static const OpRecord& to = find_op("to", "device");
  Args args = to.defaults;
  args[0] = Value(t);
  args[1] = Value(device);
  return call(to, args);
}
}  // namespace

void run_on_host(const Call& c) {
  static const OpRecord& copy = find_op("copy");
  const OnDeviceOf scope{Device{}};  // new tensors of the kernel stay on the host too
  const MappedArgs host(c.args, [](const Tensor& t) { return t.device().type == DeviceType::Cpu ? t : to_host(*t); });
  std::vector<Tensor> outs(c.op.outputs);
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    outs[o] = shape_only(*c.outs[o]);
    outs[o]->device = {};
    outs[o]->set_contiguous_strides();
    outs[o]->allocate();
  }
  const Call call{c.op, host.args, outs.data()};
  Plan plan;
  const Kernel& chosen = choose(c.op.kernels(Backend::Cpu), call, plan);
  run(chosen, call, plan);
  for (uint32_t o = 0; o < c.op.outputs; ++o) call_inplace(copy, Args(alias(*c.outs[o]), outs[o], false));
}

void compose_on_host(const OpRecord& op, const Args& args, Results& results) {
  const Device device = device_of_call(op, args);
  if (device.type == DeviceType::Cpu) return op.composite_fn(args, results);
  if (device.type == DeviceType::Meta) {  // no values to copy: the composite itself determines the shapes
    const OnDeviceOf scope(device);
    return op.composite_fn(args, results);
  }
  const Kernel& k = op.kernels(Backend::Cuda)[0];
  if (thread_state.explain) [[unlikely]]
    thread_state.explain->add(op, k);
  tracing::Span span(tracing::Layer::Kernel, k.name);
  const MappedArgs host(args, [](const Tensor& t) { return moved(t, {}); });
  {
    const OnDeviceOf scope{Device{}};
    op.composite_fn(host.args, results);
  }
  if (results.list)
    for (Tensor& t : *results.list) t = moved(t, device);
  else
    for (uint32_t o = 0; o < op.outputs; ++o) results.outs[o] = moved(results.outs[o], device);
}

}  // namespace strata
