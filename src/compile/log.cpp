#include "compile/log.h"

#include <fmt/core.h>

#include "compile/capture.h"
#include "dispatch/source_line.h"

namespace strata::graph {
namespace {

int64_t bytes_of(const TensorImpl& t) { return t.numel * static_cast<int64_t>(size_of(t.dtype)); }

}  // namespace

std::string ProgramLog::name_of(const TensorImpl& t) {
  std::string& name = names_[{t.storage.get(), t.data}];
  if (name.empty()) name = fmt::format("%t{}", others_++);
  return name;
}

std::string ProgramLog::text_of(const Value& v) {
  switch (v.tag) {
    case Tag::None: return "None";
    case Tag::Tensor: pending_.bytes_read += bytes_of(*v.tensor); return name_of(*v.tensor);
    case Tag::Float: return fmt::format("{}", v.f);
    case Tag::Int: return fmt::format("{}", v.i);
    case Tag::Bool: return v.i ? "True" : "False";
    case Tag::Complex: return fmt::format("{}+{}j", v.complex->re, v.complex->im);
    case Tag::Ints: return strata::to_string(v.int_list());
    case Tag::Floats: return fmt::format("{} numbers", v.float_list().size());
    case Tag::Str: return fmt::format("'{}'", v.string());
    case Tag::DType: return strata::name_of(v.dtype());
    case Tag::Device: return strata::to_string(v.device());
    case Tag::Generator: return "a generator";
    case Tag::Tensors: {
      std::string list;
      for (const Tensor& t : v.tensor_list()) {
        if (t) pending_.bytes_read += bytes_of(*t);
        list += (list.empty() ? "" : ", ") + (t ? name_of(*t) : std::string("None"));
      }
      return "[" + list + "]";
    }
  }
  return "";
}

void ProgramLog::before(const OpRecord& op, Form form, const Args& args, const Tensor*) {
  pending_ = {};
  pending_.op = op.name;
  pending_.line = short_program_line();
  pending_.scope = capture_scope();
  std::string list;
  for (uint32_t i = 0; i < args.size; ++i) {
    if (args[i].tag == Tag::None) continue;
    list += (list.empty() ? "" : ", ") + text_of(args[i]);
  }
  pending_.text = fmt::format("{}{}({})", op.name, form == Form::InPlace ? "_" : form == Form::Out ? ".out" : "", list);
}

void ProgramLog::after(const OpRecord& op, const Tensor* outs, size_t count) {
  std::string names;
  for (size_t k = 0; k < count; ++k) {
    if (!outs[k]) continue;
    const TensorImpl& t = *outs[k];
    std::string name = fmt::format("%{}", results_++);
    names += (names.empty() ? "" : ", ") + name;
    names_[{t.storage.get(), t.data}] = std::move(name);
    pending_.results.push_back(fmt::format("{}{}", strata::name_of(t.dtype), strata::to_string(t.sizes())));
    if (!op.view_fn) pending_.bytes_written += bytes_of(t);
  }
  if (op.view_fn) pending_.bytes_read = 0;
  if (!names.empty()) pending_.text = names + " = " + pending_.text;
  calls.push_back(std::move(pending_));
}
void ProgramLog::failed() { add_break(fmt::format("{} raises", pending_.op)); }
void ProgramLog::reads(const Storage*, const char* why) { add_break(fmt::format("reads values ({})", why)); }
void ProgramLog::sets_generator() { add_break("sets the seed or the state of a generator"); }

void ProgramLog::add_break(std::string reason) {
  std::string line = short_program_line();
  if (!breaks.empty() && breaks.back().after == calls.size() && breaks.back().reason == reason &&
      breaks.back().line == line)
    return;
  breaks.push_back({calls.size(), std::move(reason), std::move(line)});
}

}  // namespace strata::graph
