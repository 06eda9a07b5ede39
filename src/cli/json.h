// JSON on standard output.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace strata::cli {

// Valid UTF-8, which JSON needs: other bytes become a replacement character.
template <class Json = nlohmann::json> std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace strata::cli
