// Which device a call runs on. Only asked once a device has been opened (devices_in_use).
#pragma once
#include "record/op.h"

namespace strata {

// Where the results go unless the shape rule says otherwise: the device of the tensors, or the default device. Throws Runtime where
// tensors of several devices meet, except for ops that copy, and numbers in zero-dimensional CPU tensors of pointwise ops.
Device device_of_call(const OpRecord& op, const Args& args);
// Whose kernels run: the device of the results, or of any tensor for ops that copy between devices. Refuses copies out of meta.
Device device_of_run(const Call& c);
// A composite that computes on the host (OpRecord::cuda_on_host): copies go through ops, so that gradients follow.
void compose_on_host(const OpRecord& op, const Args& args, Results& results);
// Refuses an out= tensor of another device than the inputs; an op without tensors writes anywhere.
void check_out_device(const OpRecord& op, const Args& args, const TensorImpl& given);
// Device meta: the results are complete once their shapes are.
void run_on_meta(const Call& c);
[[noreturn]] void refuse_device(const OpRecord& op, Device device);  // NotImplemented: there is no kernel

}  // namespace strata
