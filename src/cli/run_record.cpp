#include "cli/run_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace strata::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;

json parts_json(const std::vector<StepPart>& parts) {
  json all = json::array();
  for (const StepPart& p : parts)
    all.push_back({{"name", p.name},
                   {"calls", p.calls},
                   {"us", p.us},
                   {"bytes", p.bytes},
                   {"kernels", p.kernels},
                   {"rejected", p.rejected}});
  return all;
}
// The library would convert what has another kind: a dict to a list, a float beyond all integers.
const json& list(const json& all, const char* key) {
  const json& found = all.at(key);
  if (!found.is_array()) throw json::other_error::create(501, fmt::format("{} is no list", key), &found);
  return found;
}
int64_t integer(const json& v) {
  if (!v.is_number_integer()) throw json::other_error::create(501, "expected an integer", &v);
  return v.get<int64_t>();
}

std::vector<StepPart> parts_of(const json& all) {
  std::vector<StepPart> parts;
  for (const json& p : all)
    parts.push_back(
      {p.at("name"), integer(p.at("calls")), p.at("us"), p.at("bytes"), p.at("kernels"), p.at("rejected")});
  return parts;
}

}  // namespace

std::string to_json(const RunRecord& r) {
  json environment = json::array(), epochs = json::array(), digits = json::array();
  for (const auto& [name, value] : r.environment) environment.push_back({name, value});
  for (const EpochFacts& e : r.epochs)
    epochs.push_back({{"step_ms", e.step_ms},
                      {"images_per_second", e.images_per_second},
                      {"loss", e.loss},
                      {"accuracy", e.accuracy},
                      {"memory_mb", e.memory_mb}});
  for (const DigitSample& d : r.digits)
    digits.push_back({{"pixels", d.pixels}, {"label", d.label}, {"predicted", d.predicted}});
  const json out{{"format", kFormat},
                 {"program", "strata train"},
                 {"name", r.name},
                 {"device", r.device},
                 {"data", r.data},
                 {"command", r.command},
                 {"started", r.started},
                 {"seconds", r.seconds},
                 {"steps_per_epoch", r.steps_per_epoch},
                 {"images", r.images},
                 {"parameters", r.parameters},
                 {"environment", environment},
                 {"losses", r.losses},
                 {"epochs", epochs},
                 {"memory_steps", r.memory_steps},
                 {"memory_mb", r.memory_mb},
                 {"clock", r.clock},
                 {"layers", parts_json(r.layers)},
                 {"ops", parts_json(r.ops)},
                 {"confusion", r.confusion},
                 {"digits", digits}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

RunRecord read_run(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  STRATA_CHECK(in.good() || in.eof(), Io, "report: cannot read {}", file);
  try {
    const json all = json::parse(text.str());
    STRATA_CHECK(all.at("format") == kFormat, Value,
                 "report: {} was written by another version of strata train; train anew", file);
    RunRecord r;
    r.name = all.at("name");
    r.device = all.at("device");
    r.data = all.at("data");
    r.command = all.at("command");
    r.started = all.at("started");
    r.seconds = all.at("seconds");
    r.steps_per_epoch = integer(all.at("steps_per_epoch"));
    r.images = integer(all.at("images"));
    r.parameters = integer(all.at("parameters"));
    for (const json& pair : list(all, "environment")) r.environment.emplace_back(pair.at(0), pair.at(1));
    // JSON has no numbers for what is not finite.
    for (const json& v : list(all, "losses")) r.losses.push_back(v.is_null() ? NAN : v.get<double>());
    for (const json& e : all.at("epochs"))
      r.epochs.push_back(
        {e.at("step_ms"), e.at("images_per_second"), e.at("loss"), e.at("accuracy"), e.at("memory_mb")});
    r.memory_steps = all.at("memory_steps").get<std::vector<double>>();
    r.memory_mb = all.at("memory_mb").get<std::vector<double>>();
    r.clock = all.at("clock");
    r.layers = parts_of(list(all, "layers"));
    r.ops = parts_of(list(all, "ops"));
    for (const json& row : list(all, "confusion")) {
      r.confusion.emplace_back();
      for (const json& n : row) r.confusion.back().push_back(integer(n));
    }
    for (const json& d : list(all, "digits")) {
      r.digits.push_back({{}, integer(d.at("label")), integer(d.at("predicted"))});
      for (const json& v : list(d, "pixels")) r.digits.back().pixels.push_back(static_cast<uint8_t>(integer(v)));
      STRATA_CHECK(r.digits.back().pixels.size() == 784, Value, "report: {}: a digit has {} pixels, expected 784", file,
                   r.digits.back().pixels.size());
    }
    for (const auto& row : r.confusion)
      STRATA_CHECK(row.size() == r.confusion.size(), Value, "report: {}: the confusion matrix is not square", file);
    STRATA_CHECK(r.memory_steps.size() == r.memory_mb.size(), Value, "report: {}: the memory timeline has two lengths",
                 file);
    return r;
  } catch (const json::exception& e) {
    fail(ErrorKind::Value, fmt::format("report: {} is no record of a run of strata train: {}", file, e.what()));
  }
}

std::vector<RunRecord> read_runs(const std::vector<std::string>& places) {
  std::vector<RunRecord> runs;
  std::vector<std::string> from;  // the folder of each
  for (const std::string& place : places) {
    std::error_code error;
    STRATA_CHECK(fs::exists(place, error), Io,
                 "report: there is no {}; name the folder of a run (--out of strata train)", place);
    std::vector<std::string> files;
    if (fs::is_directory(place, error)) {
      for (const auto& entry : fs::directory_iterator(place, error)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("run-") && name.ends_with(".json")) files.push_back(entry.path().string());
      }
      std::sort(files.begin(), files.end());
      STRATA_CHECK(!files.empty(), Value, "report: {} has no run-*.json; strata train --out {} writes one", place,
                   place);
    } else {
      files.push_back(place);
    }
    for (const std::string& file : files) {
      runs.push_back(read_run(file));
      from.push_back(fs::path(place).lexically_normal().string());
    }
  }
  // Runs that cannot be told apart are called by their folders.
  std::map<std::pair<std::string, std::string>, int> times;
  for (const RunRecord& r : runs) ++times[{r.name, r.device}];
  const bool ambiguous = std::any_of(times.begin(), times.end(), [](const auto& t) { return t.second > 1; });
  for (size_t i = 0; ambiguous && i < runs.size(); ++i) runs[i].name = from[i];
  return runs;
}

}  // namespace strata::cli
