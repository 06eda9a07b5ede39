// The files of a training run: the checkpoint and metrics.csv.
#include <fmt/core.h>

#include <array>
#include <fstream>
#include <sstream>

#include "cli/trainer.h"

namespace strata::cli {
namespace {

constexpr const char* kColumns = "device,epoch,step_ms,images_per_s,loss,accuracy,memory_mb";
constexpr int64_t kRowNumbers = 6;  // of a row, without the device

TensorDict with_prefix(const char* prefix, const TensorDict& dict) {
  TensorDict out;
  for (const auto& [name, tensor] : dict) out.emplace_back(prefix + name, tensor);
  return out;
}
TensorDict without_prefix(const std::string& prefix, const TensorDict& dict) {
  TensorDict out;
  for (const auto& [name, tensor] : dict)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), tensor);
  return out;
}
const Tensor& find(const TensorDict& dict, const std::string& name, const std::string& file) {
  for (const auto& [key, tensor] : dict)
    if (key == name) return tensor;
  fail(ErrorKind::Runtime, fmt::format("{}: '{}' is missing; this is not a checkpoint of strata train", file, name));
}

}  // namespace

Metadata Trainer::description() const {
  return {
    {"program", "strata train"},
    {"model", options_.amp.empty() ? options_.model : options_.model + " in " + options_.amp},
    {"data", digits_.name},
    {"device", options_.device},
    {"batch_size", fmt::format("{}", options_.batch_size)},
    {"lr", fmt::format("{}", options_.lr)},
    {"seed", fmt::format("{}", options_.seed)},
    {"schedule", options_.schedule == "constant" ? "constant" : fmt::format("cosine over {} epochs", options_.epochs)},
    {"images", fmt::format("{}", images_)}};
}

void Trainer::save_checkpoint() const {
  TensorDict all = with_prefix("model.", net_.state_dict());
  for (auto& entry : with_prefix("optimizer.", optimizer_.state_dict())) all.push_back(std::move(entry));
  for (auto& entry : with_prefix("schedule.", schedule_->state_dict())) all.push_back(std::move(entry));
  for (auto& entry : with_prefix("scaler.", scaler_.state_dict())) all.push_back(std::move(entry));
  Tensor losses = make_tensor(std::array{static_cast<int64_t>(losses_.size())}, DType::F32);
  std::copy(losses_.begin(), losses_.end(), losses.data<float>());
  Tensor rows = make_tensor(std::array{static_cast<int64_t>(rows_.size()), kRowNumbers}, DType::F64);
  auto* to = rows.data<double>();
  for (const Row& r : rows_)
    for (double v : {static_cast<double>(r.epoch), r.step_ms, r.images_per_second, r.loss, r.accuracy, r.memory_mb})
      *to++ = v;
  Tensor position = make_tensor(std::array<int64_t, 1>{3}, DType::F64);
  position.data<double>()[0] = static_cast<double>(epoch_);
  position.data<double>()[1] = static_cast<double>(step_);
  position.data<double>()[2] = epoch_seconds_;
  all.emplace_back("train.losses", losses);
  all.emplace_back("train.rows", rows);
  all.emplace_back("train.position", position);
  save(path("checkpoint.safetensors"), all, description());
}

void Trainer::load_checkpoint() {
  const std::string file = path("checkpoint.safetensors");
  const SafeTensors saved = load(file);
  for (const auto& [key, mine] : description()) {
    const auto theirs = saved.metadata.find(key);
    STRATA_CHECK(theirs != saved.metadata.end(), Runtime,
                 "{}: '{}' is missing; this is not a checkpoint of strata train", file, key);
    STRATA_CHECK(theirs->second == mine, Value,
                 "--resume: {} was trained with {} {}, now {} is requested; give the same options, or another --out",
                 file, key, theirs->second, mine);
  }
  try {
    net_.load_state_dict(without_prefix("model.", saved.tensors));
    optimizer_.load_state_dict(without_prefix("optimizer.", saved.tensors));
    schedule_->load_state_dict(without_prefix("schedule.", saved.tensors));
    scaler_.load_state_dict(without_prefix("scaler.", saved.tensors));
  } catch (const Error& e) {
    fail(e.kind(), fmt::format("{}: {}; the file is damaged or of another version: begin anew with another --out", file,
                               e.what()));
  }
  const Tensor &losses = find(saved.tensors, "train.losses", file), &rows = find(saved.tensors, "train.rows", file),
               &position = find(saved.tensors, "train.position", file);
  STRATA_CHECK(losses.dtype() == DType::F32 && rows.dtype() == DType::F64 && position.dtype() == DType::F64 &&
                 rows.dim() == 2 && rows.size(1) == kRowNumbers && position.numel() == 3,
               Runtime, "{}: the record of the run has another form; this is not a checkpoint of this version", file);
  losses_.assign(losses.data<float>(), losses.data<float>() + losses.numel());
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const double* r = rows.data<double>() + i * kRowNumbers;
    rows_.push_back({{r[1], r[2], r[3], r[4], r[5]}, options_.device, static_cast<int64_t>(r[0])});
  }
  epoch_ = static_cast<int64_t>(position.data<double>()[0]);
  step_ = static_cast<int64_t>(position.data<double>()[1]);
  epoch_seconds_ = position.data<double>()[2];
  STRATA_CHECK(epoch_ >= 0 && step_ >= 0 && step_ < std::max<int64_t>(steps_, 1) &&
                 static_cast<int64_t>(losses_.size()) == epoch_ * steps_ + step_ &&
                 static_cast<int64_t>(rows_.size()) == epoch_,
               Runtime, "{}: {} epochs and {} steps do not go with {} losses; the file is damaged", file, epoch_, step_,
               losses_.size());
}

// Keeps the rows of other devices in the same folder, so that one table compares them.
void Trainer::read_metrics() {
  std::ifstream file(path("metrics.csv"));
  for (std::string line; std::getline(file, line);) {
    Row r{};
    std::istringstream fields(line);
    char comma = 0;
    if (std::getline(fields, r.device, ',') &&
        fields >> r.epoch >> comma >> r.step_ms >> comma >> r.images_per_second >> comma >> r.loss >> comma >>
          r.accuracy >> comma >> r.memory_mb &&
        r.device != options_.device)
      others_.push_back(r);
  }
}

void Trainer::write_metrics() const {
  std::string text = std::string(kColumns) + "\n";
  for (const auto* some : {&others_, &rows_})
    for (const Row& r : *some)
      text += fmt::format("{},{},{:.4f},{:.1f},{:.6f},{:.4f},{:.1f}\n", r.device, r.epoch, r.step_ms,
                          r.images_per_second, r.loss, r.accuracy, r.memory_mb);
  write_file(path("metrics.csv"), text);
}

}  // namespace strata::cli
