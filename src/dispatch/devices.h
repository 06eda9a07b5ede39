// The device of a call. Only used once a device has been opened (devices_in_use).
#pragma once
#include "record/op.h"

namespace strata {

// Where the results are placed unless the shape rule sets a device: the device of the tensors, or the default device.
// Throws Runtime for tensors on several devices, except for ops that copy, and zero-dimensional CPU tensors of
// pointwise ops.
Device device_of_call(const OpRecord& op, const Args& args);
// Whose kernels run: the device of the results, or of any tensor for ops that copy between devices. Rejects copies from
// meta.
Device device_of_run(const Call& c);
// Runs a composite on the host (OpRecord::cuda_on_host): copies are ops, so that gradients are recorded.
void compose_on_host(const OpRecord& op, const Args& args, Results& results);
// Rejects an out= tensor on another device than the inputs; an op without tensors may write to any device.
void check_out_device(const OpRecord& op, const Args& args, const TensorImpl& given);
// Device meta: only the versions of written arguments are incremented.
void run_on_meta(const Call& c);
[[noreturn]] void refuse_device(const OpRecord& op, Device device);  // NotImplemented: there is no kernel

}  // namespace strata
