// The oneDNN module, opened on first use.
#pragma once
#include "cpu/onednn/api.h"

namespace strata::cpu {

const onednn::Table* onednn_table();  // null when the module is missing
const char* onednn_missing();         // why, a static text
// Throws what the module reported.
[[noreturn]] void onednn_failed(const char* op);

}  // namespace strata::cpu
