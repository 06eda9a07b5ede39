#include "record/rows.h"

#include <unordered_map>

namespace strata {
namespace {
using Rules = std::unordered_map<const OpRecord*, RowRule>;
Rules& rules(Backend backend) {  // filled by the definitions of ops, before main()
  static auto* all = new Rules[kBackends];
  return all[static_cast<size_t>(backend)];
}
}  // namespace

void set_row_rule(const OpRecord& op, DescribeRows describe, std::initializer_list<std::string_view> whole,
                  Backend backend) {
  RowRule rule{describe, 0};
  for (const std::string_view name : whole) {
    const auto found = std::ranges::find(op.params, name, &Param::name);
    STRATA_ASSERT(found != op.params.end());
    rule.whole |= 1u << (found - op.params.begin());
  }
  rules(backend).emplace(&op, rule);
}

const RowRule* row_rule_of(const OpRecord& op, Backend backend) {
  const auto found = rules(backend).find(&op);
  return found == rules(backend).end() ? nullptr : &found->second;
}

}  // namespace strata
