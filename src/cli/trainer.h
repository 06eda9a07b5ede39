// Training of the small CNN: epochs, tests, checkpoints that resume bit for bit, metrics, a plot.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cli/digits.h"
#include "cli/run_record.h"
#include "cli/small_cnn.h"
#include "cli/train_options.h"
#include "cuda/vgpu/summary.h"

namespace strata::cli {

using Schedule = optim::lr_scheduler::LRScheduler;

class Trainer {
 public:
  explicit Trainer(const TrainOptions& options);
  int run();                                             // exit status: 0, or 130 when interrupted
  const std::string& result() const { return result_; }  // as JSON, after run()
  RunRecord record() const;

 private:
  struct Row : EpochFacts {  // of metrics.csv
    std::string device;
    int64_t epoch = 0;
  };
  bool train_epoch();                                                                     // false: interrupted
  Tensor loss_of(const data::Example& batch);                                             // in the precision of --amp
  Tensor take_step(const data::Example& batch);                                           // but for the schedule's
  double test();                                                                          // accuracy on the test set
  data::DataLoader batches(const data::ImageSet& set, Tensor order, int64_t size) const;  // images and classes
  std::unique_ptr<Schedule> make_schedule();                                              // counts steps
  Tensor order_of(int64_t epoch) const;                                                   // of the training images
  std::string path(const char* name) const { return options_.out + "/" + name; }
  void read_metrics();
  void write_metrics() const;
  void save_checkpoint() const;
  void load_checkpoint();
  Metadata description() const;  // must match to resume a checkpoint
  void write_reports() const;    // the run's record, the plot and the page
  void report(double seconds);
  Tensor take_recorded_step(const data::Example& batch);  // for the record: where its time goes
  void note_memory();
  void note_predictions(const data::Example& batch, const Tensor& classes);

  TrainOptions options_;
  Digits digits_;
  Device device_;
  SmallCnn net_;
  optim::Adam optimizer_;
  std::unique_ptr<Schedule> schedule_;
  amp::GradScaler scaler_;           // of --amp f16
  int64_t images_, steps_;           // to train on; in an epoch
  int64_t test_images_;              // to test with
  int64_t epoch_ = 0, step_ = 0;     // finished epochs; finished steps of the current one
  double epoch_seconds_ = 0;         // spent in the current epoch's steps
  std::vector<float> losses_;        // of every step
  std::vector<Row> rows_, others_;   // this run's; those of other devices in the same folder
  cuda::vgpu::Summary counters_;     // of the training steps, for --counters
  std::optional<EventFile> events_;  // for --tensorboard
  RunRecord record_;                 // the recorded step, memory, predictions
  bool step_recorded_ = false;
  std::string result_, started_;  // started_: the time, for people
};

}  // namespace strata::cli
