#include "dispatch/devices.h"

#include <fmt/core.h>

#include "base/trace.h"
#include "dispatch/tuning.h"

namespace strata {

// Parameters of optimizers and clipping whose 0-dimensional tensors may be on the CPU: the host reads them.
static bool read_by_the_host(std::string_view param) {
  for (const std::string_view name : {"steps", "lr", "mu_products", "etas", "mus", "total_norm"})
    if (param == name) return true;
  return false;
}

Device device_of_call(const OpRecord& op, const Args& args) {
  bool numbers = op.formulas;  // whether a 0-dimensional CPU tensor passes for a number
  Device found;
  const TensorImpl* host = nullptr;  // a CPU tensor that is not treated as a number
  bool any = false;
  const auto see = [&](const TensorImpl& t) {
    any = true;
    if (t.device.type == DeviceType::Cpu) {
      if (!(numbers && t.ndim == 0)) host = &t;
      return;
    }
    if (found.type == DeviceType::Cpu) found = t.device;
    STRATA_CHECK(found == t.device || op.crosses, Runtime,
                 "{}: Expected all tensors to be on the same device, but found at least two devices, {} and {}!",
                 op.name, to_string(found), to_string(t.device));
  };
  for (uint32_t i = 0; i < args.size; ++i) {
    const Value& v = args[i];
    if (op.outputs == 0) numbers = read_by_the_host(op.params[i].name);
    if (v.tag == Tag::Tensor) see(*v.tensor);
    else if (v.tag == Tag::Tensors)
      for (const Tensor& t : v.tensor_list())
        if (t) see(*t);
  }
  if (!any) return thread_state.default_device;
  STRATA_CHECK(found.type == DeviceType::Cpu || !host || op.crosses, Runtime,
               "{}: Expected all tensors to be on the same device, but found at least two devices, {} and cpu!",
               op.name, to_string(found));
  if (found.type != DeviceType::Cpu) read_tuning_once(found);
  return found;
}

void check_out_device(const OpRecord& op, const Args& args, const TensorImpl& given) {
  bool any = false;
  for (const Value& v : args) any |= v.tag == Tag::Tensor || (v.tag == Tag::Tensors && v.size > 0);
  if (!any) return;
  const Device device = device_of_call(op, args);
  STRATA_CHECK(device == given.device, Runtime,
               "{}: Expected all tensors to be on the same device, but the inputs are on {} and out= is on {}", op.name,
               to_string(device), to_string(given.device));
}

Device device_of_run(const Call& c) {
  if (c.op.outputs == 0) return device_of_call(c.op, c.args);
  const Device out = c.outs[0]->device;
  if (out.type == DeviceType::Meta || !c.op.crosses) return out;
  for (const Value& v : c.args)
    if (v.tag == Tag::Tensor && v.tensor->device.type == DeviceType::Meta) refuse_copy_from_meta();
  if (out.type != DeviceType::Cpu) return out;
  for (const Value& v : c.args)
    if (v.tag == Tag::Tensor && v.tensor->device.type != DeviceType::Cpu) return v.tensor->device;
  return out;
}

void run_on_meta(const Call& c) {
  static constexpr Kernel nothing{.name = "meta: nothing runs"};
  if (thread_state.explain) [[unlikely]]
    thread_state.explain->add(c.op, nothing);
  const tracing::Span span(tracing::Layer::Kernel, nothing.name);
}

void refuse_device(const OpRecord& op, Device device) {
  fail(ErrorKind::NotImplemented,
       fmt::format("Could not run '{}' on device '{}': the op has no kernel for it. Copy its inputs to the CPU with "
                   ".cpu() and the result back with .to('{}').",
                   op.name, to_string(device), to_string(device)));
}

OnDeviceOf::OnDeviceOf(const Args& args) : before_(thread_state.default_device) {
  bool any = false;
  const auto see = [&](Device d) {  // a device takes precedence over the CPU, whose tensors may be numbers
    if (!any || d.type != DeviceType::Cpu) enter(d);
    any = true;
  };
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) see(v.tensor->device);
    else if (v.tag == Tag::Tensors)
      for (const Tensor& t : v.tensor_list())
        if (t) see(t.device());
  }
}

}  // namespace strata
