// The oneDNN module, opened on first use.
#pragma once
#include "cpu/onednn/api.h"

namespace strata::cpu {

const onednn::Table* onednn_table();  // null if the module is missing
const char* onednn_missing();         // the reason, a static string
// Throws the error reported by the module.
[[noreturn]] void onednn_failed(const char* op);

}  // namespace strata::cpu
