// The line of the user's program that runs, for messages.
#pragma once
#include <string>

#include "base/api.h"

namespace strata {

std::string program_line();        // 'File "a/model.py", line 12, in forward', or empty
std::string short_program_line();  // "model.py:12", or empty
// The line of the op that a graph calls on this thread, instead of the line that started the run. Null: no graph runs.
STRATA_API STRATA_THREAD_LOCAL_DECL extern thread_local constinit const std::string* replayed_line;
inline std::string at_line(const std::string& line) { return line.empty() ? "" : " at " + line; }

}  // namespace strata
