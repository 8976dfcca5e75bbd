#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/dataset_options.h"
#include "data/references.h"

namespace burnish::data {

/// A row as metadata has it: its captions, the files and the cells of its columns. No pixels.
struct Row {
  std::string prompt = {}, file = {};               ///< the caption where none is drawn, and the path of the target
  Captions captions = {};                           ///< captions as they are in the metadata; at least one
  uint64_t name = 0;                                ///< hash of the file's name as the metadata has it
  nlohmann::json cells = nlohmann::json::object();  ///< cells of the columns of values that it has, by name; of files their paths
  std::map<std::string, std::string> further = {};  ///< paths of its further pictures and clips, by picture_name
  double loss_weight = 1;                           ///< the row's column loss_weight, a number of at least 0, times its subset's
  size_t subset = 0;                                ///< number of the subset that it is of
  std::optional<ClipWindow> window = {};            ///< the frames of a clip, or the layers, that the row is; none where it is a picture
};

/// The hashes of a row's files, by the names that further ones have there; "" is that of its target.
using RowHashes = std::map<std::string, std::string>;

/// Tells whether a column holds a picture or clip beside the target, cut as that is or to a square.
bool is_beside(const Column& column);
/// Returns the rule by which a row's clip becomes samples: its subset's, at the rate that the row has in a column kRateOfFrames.
ClipRule rule_of(const Row& row, const DatasetOptions& options);

/// Names a row's picture of that number, from 0 on, in a column of several, among its further pictures: the column's name, and from the
/// second on with a count: "kontext_images", "kontext_images 2".
std::string picture_name(const std::string& column, size_t number);

/// Names the k-th layer of a row's target behind the first one, k from 1 on, among its further pictures.
std::string layer_name(int64_t k);

/// The files of a row's target: one, or those of its layers, the whole first.
std::vector<std::string> target_files(const Row& row);

/// The files of a row in a column of pictures, clips or layers; none where it leaves the column empty.
std::vector<std::string> files_in(const Row& row, const std::string& column);

/// The references of a row in a column of them; none where it leaves the column empty.
std::vector<Reference> references_of(const Row& row, const std::string& column);

/// The origin of rows: the file or folder, and what names its content.
struct MetadataOrigin {
  std::string path, hash;
  CaptionFiles captions = {};  ///< with which it was read
};

/// Names the content of a metadata file, or of a folder with captions.
std::string metadata_hash(const Metadata& metadata);

/// The rows of all subsets, counted on from one to the next.
struct Rows {
  std::vector<Row> rows = {};
  std::vector<int64_t> first = {};           ///< first row of each subset
  std::map<int64_t, std::string> bad = {};   ///< sentences about rows that cannot be used
  std::vector<MetadataOrigin> origins = {};  ///< the origin of each subset
};

/// Reads the rows of all subsets. A data Error where a subset has no column of files or of captions at all.
Rows read_rows(const DatasetOptions& options);

}  // namespace burnish::data
