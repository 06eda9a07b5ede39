// Memory checks for in-place ops and out= arguments.
#pragma once
#include "record/op.h"

namespace strata {

// Whether two tensors are the same elements in the same order and dtype.
bool same_view(const TensorImpl& a, const TensorImpl& b);
void check_writable(const TensorImpl& t, const char* op);  // rejects overlapping elements
void check_written(const OpRecord& op, const Args& args);  // Tensor(a!) arguments: writable, and not overlapping others
void count_writes(const OpRecord& op, const Args& args);   // increments the versions of written arguments
void check_cast(DType from, DType to, const char* op);     // rejects float to int and int to bool
void check_fits(const Tensor& value, const TensorImpl& self, const char* op);  // shape and dtype of an in-place result
// Whether target (default: args[0]) overlaps another tensor; the same view counts unless same_allowed.
bool overlaps_partly(const Args& args, const TensorImpl* target = nullptr, bool same_allowed = true);
// Whether two dense tensors share elements. Views with gaps may share none: they count as separate.
bool share_memory(const TensorImpl& a, const TensorImpl& b);
// Rejects an out= tensor that overlaps an input (other than the same view if that is allowed).
void refuse_overlap(const Args& args, const TensorImpl& given, bool same_allowed, const char* op);
void check_out(const OpRecord& op, const Args& args, const Tensor* outs);  // device and memory of out= tensors
// For an out= tensor that must be resized: it must not share elements with an input.
void check_out_is_no_input(const OpRecord& op, const Args& args, const TensorImpl& given);
void check_out_dtype(const OpRecord& op, DType result, DType given);
// An out= tensor in its current state, or after getting a shape; another thread may resize it meanwhile.
Tensor out_as_it_is(const TensorImpl& t);
Tensor out_of_shape(TensorImpl& t, Shape shape);
Tensor clone_values(const TensorImpl& t);  // a dense copy, no history

}  // namespace strata
