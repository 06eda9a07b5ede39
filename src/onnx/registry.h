// The ops that networks are made of, found by name.
#pragma once
#include "onnx/network.h"

namespace strata::onnx {

// That of the newest version up to `version`; null if there is none.
const OpEntry* find_entry(std::string_view domain, std::string_view name, int64_t version);
std::shared_ptr<const UserOp> find_user_op(std::string_view domain, std::string_view name);

// The tables of onnx/ops: one per family.
using OpTable = std::span<const OpEntry>;
OpTable math_ops();
OpTable shape_ops();
OpTable reduce_ops();
OpTable index_ops();
OpTable nn_ops();
OpTable pool_ops();
OpTable norm_ops();
OpTable recurrent_ops();
OpTable attention_ops();
OpTable control_ops();
OpTable sequence_ops();
OpTable cast_ops();
OpTable quantize_ops();
OpTable resize_ops();
OpTable signal_ops();
OpTable random_ops();
OpTable loss_ops();
OpTable string_ops();
OpTable ml_ops();
OpTable training_ops();
OpTable vision_ops();

}  // namespace strata::onnx
