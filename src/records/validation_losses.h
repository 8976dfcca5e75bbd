#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace burnish::records {

/// A validation loss that a run logged.
struct ValidationLoss {
  int64_t step = 0;
  double loss = 0;
};
/// Reads those of log.jsonl, by rising step, of a step that was taken twice the last; none where a run measured none.
std::vector<ValidationLoss> read_validation_losses(const std::filesystem::path& run);
/// Returns the loss at a step, between two looks on the line between them; nothing where none was taken before, or none after.
std::optional<double> loss_at(const std::vector<ValidationLoss>& losses, int64_t step);

}  // namespace burnish::records
