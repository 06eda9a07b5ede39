#include "onnx/registry.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace strata::onnx {
namespace {

constexpr OpTable (*kTables[])() = {math_ops,     shape_ops,     reduce_ops,    index_ops,   nn_ops,       pool_ops,
                                    norm_ops,     recurrent_ops, attention_ops, control_ops, sequence_ops, cast_ops,
                                    quantize_ops, resize_ops,    signal_ops,    random_ops,  loss_ops,     string_ops,
                                    ml_ops,       training_ops,  vision_ops};

using Index = std::unordered_map<std::string_view, std::vector<const OpEntry*>>;
const Index& by_name() {
  static const Index index = [] {
    Index all;
    for (const auto table : kTables)
      for (const OpEntry& entry : table()) all[entry.name].push_back(&entry);
    return all;
  }();
  return index;
}

struct UserOps {
  std::shared_mutex mutex;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const UserOp>> ops;
};
UserOps& user_ops() {
  static UserOps* const ops = new UserOps;  // never destroyed: threads may run until the process has ended
  return *ops;
}
std::string domain_of(std::string_view domain) { return domain == "ai.onnx" ? std::string() : std::string(domain); }
}  // namespace

const OpEntry* find_entry(std::string_view domain, std::string_view name, int64_t version) {
  const auto found = by_name().find(name);
  if (found == by_name().end()) return nullptr;
  const OpEntry* best = nullptr;
  for (const OpEntry* e : found->second)
    if (domain == e->domain && e->since <= version && (!best || e->since > best->since)) best = e;
  return best;
}

std::vector<OpEntry> all_ops() {
  std::vector<OpEntry> all;
  for (const auto table : kTables)
    for (const OpEntry& entry : table()) all.push_back(entry);
  return all;
}

void register_op(const std::string& domain, const std::string& name, UserOp op) {
  UserOps& u = user_ops();
  const std::unique_lock lock(u.mutex);
  u.ops[{domain_of(domain), name}] = std::make_shared<const UserOp>(std::move(op));
}

std::shared_ptr<const UserOp> find_user_op(std::string_view domain, std::string_view name) {
  UserOps& u = user_ops();
  const std::shared_lock lock(u.mutex);
  const auto found = u.ops.find({domain_of(domain), std::string(name)});
  return found == u.ops.end() ? nullptr : found->second;
}

}  // namespace strata::onnx
