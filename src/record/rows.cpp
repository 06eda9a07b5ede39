#include "record/rows.h"

#include <unordered_map>

namespace strata {
namespace {
std::unordered_map<const OpRecord*, RowRule>& rules() {  // filled by the definitions of ops, before main()
  static auto* all = new std::unordered_map<const OpRecord*, RowRule>;
  return *all;
}
}  // namespace

void set_row_rule(const OpRecord& op, DescribeRows describe, std::initializer_list<std::string_view> whole) {
  RowRule rule{describe, 0};
  for (const std::string_view name : whole) {
    const auto found = std::ranges::find(op.params, name, &Param::name);
    STRATA_ASSERT(found != op.params.end());
    rule.whole |= 1u << (found - op.params.begin());
  }
  rules().emplace(&op, rule);
}

const RowRule* row_rule_of(const OpRecord& op) {
  const auto found = rules().find(&op);
  return found == rules().end() ? nullptr : &found->second;
}

}  // namespace strata
