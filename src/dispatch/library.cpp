#include "dispatch/library.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/library.h"

namespace strata::library {
namespace {

struct Ops {
  std::mutex mutex;
  std::map<std::string, OpRecord*> by_name;
  std::vector<const OpRecord*> in_order;
  std::set<std::string> loaded;  // paths of libraries
};
Ops& ops() {
  static auto* all = new Ops;
  return *all;
}

bool is_identifier(std::string_view s) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) && std::ranges::all_of(s, in_word);
}

void check_name(const std::string& schema) {
  const std::string name = schema.substr(0, schema.find('('));
  const size_t colons = name.find("::");
  STRATA_CHECK(colons != name.npos && is_identifier(std::string_view(name).substr(0, colons)) &&
                 is_identifier(std::string_view(name).substr(colons + 2)),
               Value, "custom_op: a schema begins with \"namespace::name(\", got \"{}\"", schema);
}

void no_shape_rule(const Call& c) {
  fail(ErrorKind::NotImplemented,
       fmt::format("{} has no shape rule: define it with infer(), or the op with composite()", c.op.name));
}
}  // namespace

OpRecord& custom_op(const std::string& schema) {
  check_name(schema);
  const std::string name = schema.substr(0, schema.find('('));
  Ops& all = ops();
  const std::lock_guard hold(all.mutex);
  STRATA_CHECK(!all.by_name.contains(name), Value, "custom_op: {} is defined already: {}", name,
               all.by_name[name]->schema);
  const auto* text = new std::string(schema);  // never freed, like the record: names of parameters point into it
  auto record = std::make_unique<OpRecord>();
  try {
    record->define(text->c_str());
  } catch (const Error& e) {  // of Strata's own schemas this is an internal error
    fail(ErrorKind::Value, fmt::format("custom_op: {}", e.what()));
  }
  OpRecord& op = *record.release();
  op.infer_fn = no_shape_rule;
  op.helper();  // its name is not one of Strata's
  all.by_name[name] = &op;
  all.in_order.push_back(&op);
  return op;
}

const OpRecord& find(const std::string& name) {
  Ops& all = ops();
  const std::lock_guard hold(all.mutex);
  const auto found = all.by_name.find(name);
  STRATA_CHECK(found != all.by_name.end(), Value, "there is no custom op '{}'", name);
  return *found->second;
}

std::vector<const OpRecord*> load(const std::string& path) {
  static auto* loading = new std::mutex;  // one library at a time, so that its ops are those added meanwhile
  const std::lock_guard one(*loading);
  Ops& all = ops();
  Library library({.name = path.c_str(), .files = {path}});
  STRATA_CHECK(library, Io, "load_library: {}", library.why());
  const auto define = library.find<void (*)()>("strata_define_ops");
  const auto its_layout = library.find<size_t (*)()>("strata_layout");
  STRATA_CHECK(define && its_layout, Value, "load_library: {} defines no ops; put them into a STRATA_LIBRARY() block",
               library.path());
  STRATA_CHECK(its_layout() == layout(), Value,
               "load_library: {} was built with the headers of another version of Strata; build it again",
               library.path());
  const auto count = [&] {
    const std::lock_guard hold(all.mutex);
    return all.in_order.size();
  };
  const size_t before = count();
  if (all.loaded.contains(library.path())) return {};
  define();
  all.loaded.insert(library.path());
  const std::lock_guard hold(all.mutex);
  return {all.in_order.begin() + static_cast<std::ptrdiff_t>(before), all.in_order.end()};
}

}  // namespace strata::library
