// The files that a trace is saved as; for trace.cpp.
#pragma once
#include <span>
#include <string>

#include "system/trace/trace.h"

namespace strata::tracing {

void write_chrome_json(const tracing::Recording& r, const std::string& path);
std::string make_flame_svg(const tracing::Recording& r, std::span<const uint32_t> order,
                           std::span<const int32_t> parent, std::span<const int64_t> self_ns);
std::string make_html(const Trace& t);
void write_text(const std::string& path, const std::string& text);                  // replaces the file; throws Io
STRATA_API std::string page_of(const std::string& title, const std::string& body);  // HTML without other files
STRATA_API std::string escaped_xml(std::string_view text);

}  // namespace strata::tracing
