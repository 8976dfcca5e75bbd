#pragma once
#include <map>
#include <vector>

#include "data/file_notes.h"
#include "data/look.h"
#include "data/row.h"

namespace burnish::data {

/// The rows of a run's datasets, looked at. A clip gives a row for each window that its subset's rule takes out of it, from the place of
/// its own row on. Opening datasets checks every row: that its files are there, that the whole pictures can be decoded (each file once, or
/// never where that is remembered), that the row's is large enough and further ones have its size; so a damaged file is known before a
/// model is loaded. What stands in a row is read by data/read.h.
class Dataset {
 public:
  /// Throws a data Error when no usable row is left, or (unless bad samples are skipped) at the first bad one; the message counts them all.
  explicit Dataset(const DatasetOptions& options);

  const DatasetOptions& options() const { return options_; }
  /// Rows that can be used, in file order.
  const std::vector<int64_t>& rows() const { return usable_; }
  /// Returns a row as metadata has it.
  const Row& row(int64_t row) const { return all_.rows.at(static_cast<size_t>(row)); }
  /// Returns what was found of a row; a data Error when it is not usable.
  const Looked& looked(int64_t row) const;
  /// The extent that a row is trained at.
  Extent extent(int64_t row) const;
  /// A row as a message names it: "row 3", "row 3 of the class set" or "row 3 of FOLDER", counted from its subset's first.
  std::string name_of(int64_t row) const;
  /// The origin of each subset.
  const std::vector<MetadataOrigin>& origins() const { return all_.origins; }
  /// The sentences about bad rows, by row number.
  const std::map<int64_t, std::string>& bad_samples() const { return all_.bad; }
  /// Remembers in checks_folder which pictures could be decoded; made, with its folders, where it is not there.
  void save_checks() { notes_.save(); }

 private:
  void check_enough_good() const;

  DatasetOptions options_;
  FileNotes notes_;
  Rows all_;
  std::map<int64_t, Looked> looked_;  ///< what was found of the usable rows
  std::vector<int64_t> usable_;
};

}  // namespace burnish::data
