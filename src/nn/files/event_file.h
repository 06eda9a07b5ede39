// Event files, which TensorBoard shows: numbers and texts over the steps of a run. In Python: utils.tensorboard.SummaryWriter.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/api.h"

namespace strata {

// Appends to a new file of the folder, which is made if necessary. Throws Io. One thread at a time.
class STRATA_API EventFile {
 public:
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;
  const std::string& path() const;
  void add_scalar(std::string_view tag, double value, int64_t step);
  void add_text(std::string_view tag, std::string_view text, int64_t step);
  void flush();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace strata
