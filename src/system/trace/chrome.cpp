// The Trace Event format, which Perfetto and Chrome open: a slice per span, arrows from the Python line to its kernels, and
// from an op to its backward step.
#include <fmt/core.h>
#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "system/trace/outputs.h"

namespace strata::tracing {

namespace {

// A JSON string. Texts may have any bytes: what is not UTF-8 becomes a question mark.
void append_json(fmt::memory_buffer& out, std::string_view text) {
  out.push_back('"');
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    } else if (c < 0x80) {
      out.push_back(static_cast<char>(c));
    } else {
      const size_t length = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
      bool good = length > 0 && c < 0xf5 && i + length <= text.size();
      for (size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
      if (good && c == 0xe0) good = static_cast<unsigned char>(text[i + 1]) >= 0xa0;  // not the shortest form
      if (good && c == 0xed) good = static_cast<unsigned char>(text[i + 1]) < 0xa0;   // half of a surrogate pair
      if (good && c == 0xf0) good = static_cast<unsigned char>(text[i + 1]) >= 0x90;
      if (good && c == 0xf4) good = static_cast<unsigned char>(text[i + 1]) < 0x90;
      if (good) {
        out.append(text.substr(i, length));
        i += length - 1;
      } else {
        out.push_back('?');
      }
    }
  }
  out.push_back('"');
}

class Writer {
 public:
  explicit Writer(const std::string& path)
      : path_(path), part_(path + ".part"), file_(std::fopen(part_.c_str(), "wb")) {
    if (!file_) fail_io(errno, path_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    if (!file_) return;
    std::fclose(file_);
    std::remove(part_.c_str());
  }
  void next() {  // between two records
    if (text.size() > (1 << 16)) flush();
  }
  void done() {
    flush();
    if (std::fclose(std::exchange(file_, nullptr)) != 0 || std::rename(part_.c_str(), path_.c_str()) != 0) {
      const int code = errno;
      std::remove(part_.c_str());
      fail_io(code, path_);
    }
  }
  fmt::memory_buffer text;

 private:
  void flush() {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail_io(errno, path_);
    text.clear();
  }
  std::string path_, part_;
  std::FILE* file_;
};

void append_facts(fmt::memory_buffer& out, const Recording& r, const Event& e) {
  fmt::format_to(std::back_inserter(out), "\"id\":{}", e.id);
  // A key may occur several times, which a JSON object cannot have.
  std::string lists[2];
  std::string tensors, rejected;
  for (const Fact& f : r.facts(e)) {
    switch (f.key->kind) {
      case Key::Kind::Integer: fmt::format_to(std::back_inserter(out), ",\"{}\":{}", f.key->name, f.integer); break;
      case Key::Kind::Number: fmt::format_to(std::back_inserter(out), ",\"{}\":{:g}", f.key->name, f.number); break;
      case Key::Kind::Tensor: tensors += (tensors.empty() ? "" : ", ") + tracing::to_string(f); break;
      case Key::Kind::Text:
      case Key::Kind::Copied:
        if (*f.key == tracing::key::rejected) {
          rejected += (rejected.empty() ? "" : "; ") + std::string(f.text);
          break;
        }
        fmt::format_to(std::back_inserter(out), ",\"{}\":", f.key->name);
        append_json(out, f.text);
    }
  }
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>{"tensors", tensors}, {"rejected", rejected}}) {
    if (text.empty()) continue;
    fmt::format_to(std::back_inserter(out), ",\"{}\":", name);
    append_json(out, text);
  }
}

// One end of an arrow; `bp` binds it to the slice that encloses the time.
void append_arrow(fmt::memory_buffer& out, const char* phase, const char* kind, uint64_t id, const Event& e) {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"ph\":\"{}\",\"id\":{},\"name\":\"{}\",\"cat\":\"{}\",\"pid\":0,\"tid\":{},\"ts\":{:.3f}{}}}",
                 phase, id, kind, kind, e.thread, static_cast<double>(e.begin_ns) / 1e3,
                 *phase == 'f' ? ",\"bp\":\"e\"" : "");
}

}  // namespace

void write_chrome_json(const Recording& r, const std::string& path) {
  Writer w(path);
  fmt::memory_buffer& out = w.text;
  fmt::format_to(std::back_inserter(out),
                 "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped\":\"{}\"}},\"traceEvents\":[\n", r.dropped);
  fmt::format_to(std::back_inserter(out),
                 "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{{\"name\":\"strata\"}}}}");
  std::set<uint32_t> threads;
  std::unordered_map<uint64_t, const Event*> python, forward;  // by id; by number of the node
  for (const Event& e : r.events) {
    threads.insert(e.thread);
    if (e.layer == Layer::Python) python.emplace(e.id, &e);
    if (e.layer == Layer::Op)
      if (const int64_t node = r.integer(e, tracing::key::node, 0)) forward[static_cast<uint64_t>(node)] = &e;
  }
  for (const uint32_t t : threads)
    fmt::format_to(std::back_inserter(out),
                   ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":{},\"args\":{{\"name\":\"{} {}\"}}}}",
                   t, t >= 1000000 ? "device stream" : "thread", t % 1000000);
  uint64_t arrows = 0;
  for (const Event& e : r.events) {
    fmt::format_to(std::back_inserter(out),
                   ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"cat\":\"{}\",\"name\":",
                   e.thread, static_cast<double>(e.begin_ns) / 1e3, static_cast<double>(e.end_ns - e.begin_ns) / 1e3,
                   tracing::name_of(e.layer));
    append_json(out, e.name);
    out.append(std::string_view(",\"args\":{"));
    append_facts(out, r, e);
    out.append(std::string_view("}}"));
    if (e.layer == Layer::Kernel || e.layer == Layer::Device)
      if (const auto from = python.find(e.id); from != python.end()) {
        append_arrow(out, "s", "call", ++arrows, *from->second);
        append_arrow(out, "f", "call", arrows, e);
      }
    if (e.layer == Layer::Autograd)
      if (const auto from = forward.find(static_cast<uint64_t>(r.integer(e, tracing::key::node, 0)));
          from != forward.end()) {
        append_arrow(out, "s", "backward", ++arrows, *from->second);
        append_arrow(out, "f", "backward", arrows, e);
      }
    w.next();
  }
  out.append(std::string_view("\n]}\n"));
  w.done();
}

void write_text(const std::string& path, const std::string& text) {
  Writer w(path);
  w.text.append(text);
  w.done();
}

}  // namespace strata::tracing
