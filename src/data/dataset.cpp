#include "data/dataset.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/input_error.h"
#include "data/looked_files.h"

namespace burnish::data {

namespace {

/// The options with what is cut as layers are as layers: as many, with transparency.
DatasetOptions completed(DatasetOptions options) {
  for (auto& column : options.columns) {
    if (target_of(options.columns).is != Column::Is::layers || !column.is_seen() || column.is == Column::Is::mask) continue;
    column.channels = 4;
    if (is_beside(column)) column.is = Column::Is::layers;
  }
  return options;
}

}  // namespace

Dataset::Dataset(const DatasetOptions& options) : options_(completed(options)), notes_(checks_path(options)) {
  for (const auto& subset : options_.subsets) {
    check_rule(subset.size);
    check_rule(subset.clips);
  }
  all_ = read_rows(options_);
  looked_ = look(all_, options_, notes_);
  for (const auto& [row, looked] : looked_) usable_.push_back(row);
  check_enough_good();
}

// Bad rows are only good where they may be skipped, and others are left of each subset.
void Dataset::check_enough_good() const {
  const auto& [rows, first_rows, bad, origins] = all_;
  if (bad.empty()) return;
  const auto& [first_bad, reason] = *bad.begin();
  if (!options_.skip_bad_samples) {
    data_error("data", "{}: {} of {} samples cannot be used; the first is {}: {} (--on_bad_sample skip leaves them out)",
               options_.subsets[row(first_bad).subset].metadata_path, bad.size(), rows.size(), name_of(first_bad), reason);
  }
  for (size_t i = 0; i < options_.subsets.size(); ++i) {
    auto first = first_rows[i], end = i + 1 < first_rows.size() ? first_rows[i + 1] : std::ssize(rows);
    auto good = looked_.lower_bound(first);
    if (good != looked_.end() && good->first < end) continue;
    data_error("data", "{}: none of the {} samples can be used; the first is {}: {}", options_.subsets[i].metadata_path, end - first,
               name_of(first), bad.at(first));
  }
}

const Looked& Dataset::looked(int64_t row) const {
  if (auto found = looked_.find(row); found != looked_.end()) return found->second;
  auto reason = all_.bad.find(row);
  data_error("data", "{} cannot be used: {}", name_of(row), reason == all_.bad.end() ? "there is no such row" : reason->second);
}

Extent Dataset::extent(int64_t row) const {
  const auto& window = this->row(row).window;
  return extent_of(looked(row).size, window ? window->count : 1);
}

std::string Dataset::name_of(int64_t row) const {
  const auto& first_rows = all_.first;
  auto behind = std::ranges::upper_bound(first_rows, row);
  if (behind == first_rows.begin() || row >= std::ssize(all_.rows)) return fmt::format("row {}", row);
  auto index = static_cast<size_t>(behind - first_rows.begin()) - 1;
  const auto& subset = options_.subsets[index];
  auto name = fmt::format("row {}", row - first_rows[index]);
  auto same_kind = [&](const Subset& other) { return other.visits.of_class_set == subset.visits.of_class_set; };
  if (std::ranges::count_if(options_.subsets, same_kind) > 1) return name + " of " + subset.metadata_path;
  return subset.visits.of_class_set ? name + " of the class set" : name;
}

}  // namespace burnish::data
