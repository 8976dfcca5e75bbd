#include "data/row.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "data/caption_cells.h"
#include "data/frame_files.h"
#include "data/load_metadata.h"
#include "data/several.h"
#include "data/spelling.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

bool is_list(const Columns& columns, const std::string& name) {
  const auto* column = find_column(columns, name);
  return column != nullptr && (column->is == Column::Is::pictures || column->is == Column::Is::references);
}

/// Finds the files that rows of one dataset name.
class Files {
 public:
  explicit Files(const std::string& base_path) : base_(base_path) {}
  std::string find(const std::string& given) {
    if (auto path = spelled_.find(base_, given)) return path->string();
    data_error("data", "the file {} does not exist", (base_ / given).string());
  }

 private:
  fs::path base_;
  SpelledFiles spelled_;
};

std::string read_file(const nlohmann::json& row, const DatasetOptions& options) {
  // file_name is what datasets of the Hugging Face hub call it.
  for (const auto& key : split_list(options.data_file_keys + ",file_name")) {
    auto it = row.find(key);
    if (it == row.end() || is_list(options.columns, key)) continue;
    if (it->is_array()) {
      data_error(
          "data",
          "the column '{}' names several files, as rows do for models that make layers; name one file, or such a model (for `burnish data` "
          "the --settings of its run)",
          key);
    }
    if (!it->is_string() || trim(it->get<std::string>()).empty()) data_error("data", "the column '{}' names no file", key);
    return it->get<std::string>();
  }
  data_error("data", "none of the columns {} is there; --data_file_keys names those that hold files", options.data_file_keys);
}

/// A list of files as a cell of csv holds it: in JSON. A text that is none is one file.
nlohmann::json list_in(const std::string& text) {
  if (!trim(text).starts_with("[")) return text;
  auto is_flat = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= 1; };
  auto list = nlohmann::json::parse(text, is_flat, /*allow_exceptions=*/false);
  return list.is_array() ? list : nlohmann::json(text);
}

/// The file that a cell names; none where a row leaves it empty.
std::optional<std::string> read_one_file(const nlohmann::json& row, const std::string& column, Files& there) {
  auto it = row.find(column);
  if (it == row.end() || it->is_null()) return std::nullopt;
  auto cell = it->is_string() ? list_in(it->get<std::string>()) : *it;
  if (cell.is_array()) {
    if (cell.empty()) return std::nullopt;
    if (cell.size() > 1) data_error("data", "the column '{}' names {} files, and one is read of it", column, cell.size());
    cell = nlohmann::json(cell[0]);
  }
  if (!cell.is_string()) data_error("data", "the column '{}' holds no file name but a {}", column, cell.type_name());
  auto given = cell.get<std::string>();
  return trim(given).empty() ? std::nullopt : std::optional(there.find(given));
}

/// One file or a list of them, under the names that they have among further pictures.
std::map<std::string, std::string> read_files(const nlohmann::json& row, const std::string& column, Files& there) {
  std::map<std::string, std::string> files;
  auto it = row.find(column);
  if (it == row.end() || it->is_null()) return files;
  auto cell = it->is_string() ? list_in(it->get<std::string>()) : *it;
  for (const auto& file : cell.is_array() ? cell : nlohmann::json::array({cell})) {
    if (!file.is_string())
      data_error("data", "the column '{}' must hold a file name or a list of them, and holds a {}", column, file.type_name());
    auto given = file.get<std::string>();
    if (trim(given).empty() && !cell.is_array()) continue;
    files[picture_name(column, files.size())] = there.find(given);
  }
  return files;
}

/// The cell of a row's picture, or where a column holds one layer of it that of the first; null where the row has neither.
const nlohmann::json* first_layer(const nlohmann::json& row, const std::string& key) {
  for (const auto& name : {key, key + "_0"}) {
    if (auto it = row.find(name); it != row.end()) return &*it;
  }
  return nullptr;
}

std::string file_in(const nlohmann::json& cell, const std::string& key) {
  if (!cell.is_string() || trim(cell.get<std::string>()).empty()) data_error("data", "the column '{}' names no file", key);
  return cell.get<std::string>();
}

/// The files of a row's layers as it names them, the whole first.
std::vector<std::string> read_layers(const nlohmann::json& row, const DatasetOptions& options) {
  for (const auto& key : split_list(options.data_file_keys + ",file_name")) {
    const auto* cell = first_layer(row, key);
    if (cell == nullptr || is_list(options.columns, key)) continue;
    auto list = cell->is_string() ? list_in(cell->get<std::string>()) : *cell;
    std::vector<std::string> files;
    for (const auto& file : list.is_array() ? list : nlohmann::json::array({list})) files.push_back(file_in(file, key));
    auto next = [&] { return row.find(fmt::format("{}_{}", key, files.size())); };
    for (auto it = next(); it != row.end() && !it->is_null() && it->dump() != "\"\""; it = next()) files.push_back(file_in(*it, key));
    if (files.empty()) data_error("data", "the column '{}' names no file", key);
    return files;
  }
  data_error("data", "none of the columns {} is there; --data_file_keys names those that hold files", options.data_file_keys);
}

/// A row may say how many layers lie in the whole picture, as DiffSynth-Studio's do.
void check_layer_num(const nlohmann::json& row, int64_t num_files) {
  auto cell = row.find("layer_num");
  if (cell == row.end() || cell->is_null()) return;
  auto text = cell->is_string() ? std::string(trim(cell->get<std::string>())) : cell->dump();
  if (text.empty() || text == std::to_string(num_files - 1)) return;
  data_error("data", "the layer_num is {}, and the row names {} pictures: the whole and {} layers; name as many, or take layer_num out",
             text, num_files, num_files - 1);
}

/// A JSON number, or a csv cell that is one.
double read_loss_weight(const nlohmann::json& row) {
  auto it = row.find("loss_weight");
  if (it == row.end() || it->is_null()) return 1;
  auto text = it->is_string() ? std::string(trim(it->get<std::string>())) : it->dump();
  if (text.empty()) return 1;
  const auto weight = parse_number<double>(text);
  if (!weight || *weight < 0) data_error("data", "the loss_weight is {}, and must be a number of at least 0", text);
  return *weight;
}

/// Puts the layers of a row, or all files of a folder that it names, among its pictures.
void put_layers(const nlohmann::json& cells, const DatasetOptions& options, Files& there, Row& row) {
  auto files = read_layers(cells, options);
  row.name = io::xxh64(fs::path(files.front()).string());
  for (auto& file : files) file = there.find(file);
  if (files.size() == 1 && io::is_folder(files.front())) {
    const auto in_folder = frame_files(files.front());
    if (in_folder.empty()) data_error("data", "the folder {} is to hold the layers of a picture, and holds no picture", files.front());
    files.assign(in_folder.begin(), in_folder.end());
  }
  check_layer_num(cells, std::ssize(files));
  row.file = files.front();
  for (size_t k = 1; k < files.size(); ++k) row.further[layer_name(static_cast<int64_t>(k))] = files[k];
  row.window = ClipWindow{.first = 0, .count = std::ssize(files), .rate = {1, 1}};
}

void put_target(const nlohmann::json& cells, const DatasetOptions& options, Files& there, Row& row) {
  auto file = read_file(cells, options);
  row.name = io::xxh64(fs::path(file).string());
  row.file = there.find(file);
}

/// Puts the files of references among a row's further ones, and what they are into its cell.
void put_references(const nlohmann::json& cells, const Column& column, Files& there, Row& row) {
  const auto cell = cells.find(column.name);
  const auto references = references_in(cell == cells.end() ? nlohmann::json() : *cell, column.name);
  size_t number = 0;
  for (const auto& reference : references) {
    for (const auto& file : {reference.seen, reference.heard}) {
      if (!file.empty()) row.further[picture_name(column.name, number++)] = there.find(file);
    }
  }
  if (!references.empty()) row.cells[column.name] = words_of_kinds(references);
}

/// Puts the files of a row's further pictures: what is cut as the target is one file, or of layers as many, or any number, and lists come
/// behind.
void put_further(const nlohmann::json& cells, const DatasetOptions& options, Files& there, Row& row) {
  const bool of_layers = target_of(options.columns).is == Column::Is::layers;
  for (const auto& column : options.columns) {
    if (!is_beside(column)) continue;
    if (of_layers || takes_several(column)) row.further.merge(read_files(cells, column.name, there));
    else if (auto file = read_one_file(cells, column.name, there)) row.further[column.name] = *file;
  }
  for (const auto& column : options.columns) {
    if (column.is == Column::Is::pictures) row.further.merge(read_files(cells, column.name, there));
    if (column.is == Column::Is::references) put_references(cells, column, there, row);
  }
}

/// Puts the cells of values: what stands in them, and of files their paths.
void put_cells(const nlohmann::json& cells, const Columns& columns, Files& there, Row& row) {
  for (const auto& column : columns) {
    if (!column.names_files() && !column.name.empty() && cells.contains(column.name)) row.cells[column.name] = cells[column.name];
  }
  for (const auto& column : columns) {
    if (column.is_seen() || !column.names_files()) continue;
    if (auto file = read_one_file(cells, column.name, there)) row.cells[column.name] = fs::absolute(*file).string();
  }
}

Row read_row(const nlohmann::json& cells, const Metadata& metadata, const DatasetOptions& options, const Subset& subset, Files& there) {
  Row row;
  put_cells(cells, options.columns, there, row);
  const auto& rule = subset.visits.captions;
  row.captions = read_captions(cells, metadata.columns, rule);
  row.prompt = with_trigger_word(subset.visits.trigger_word, plain_caption(rule, row.captions));
  if (target_of(options.columns).is == Column::Is::layers) put_layers(cells, options, there, row);
  else put_target(cells, options, there, row);
  put_further(cells, options, there, row);
  row.loss_weight = read_loss_weight(cells) * subset.loss_weight;
  return row;
}

/// Checks that some row names a file and a caption at all; else one sentence says it of all rows.
void check_columns(const Metadata& metadata, const std::string& path, const DatasetOptions& options) {
  auto is_there = [&](const std::vector<std::string>& names) {
    return std::ranges::any_of(metadata.rows, [&](const nlohmann::json& row) {
      return std::ranges::any_of(names, [&](const auto& name) { return row.contains(name); });
    });
  };
  auto columns = join(metadata.columns);
  auto names = split_list(options.data_file_keys + ",file_name");
  const bool of_layers = target_of(options.columns).is == Column::Is::layers;
  for (size_t i = 0, num_names = names.size(); of_layers && i < num_names; ++i) names.push_back(names[i] + "_0");
  if (!is_there(names))
    data_error("data", "{}: none of the columns {} is there; there are: {}; name the one that holds the files with --data_file_keys", path,
               options.data_file_keys, columns);
  if (metadata.bad.size() < metadata.rows.size() && !is_there({kCaptionColumns.begin(), kCaptionColumns.end()}))
    data_error("data", "{}: no column named prompt (or caption, or text); there are: {}; class_tokens gives one caption to all", path,
               columns);
}

/// Reads the rows of a subset behind those of the others.
void add_rows(size_t index, const DatasetOptions& options, Rows& all) {
  const auto& subset = options.subsets[index];
  auto metadata = load_metadata(subset.metadata_path, subset.caption_files);
  check_columns(metadata, subset.metadata_path, options);
  all.first.push_back(std::ssize(all.rows));
  Files there(subset.base_path);
  for (size_t i = 0; i < metadata.rows.size(); ++i) {
    all.rows.emplace_back();
    try {
      if (auto bad = metadata.bad.find(i); bad != metadata.bad.end()) throw Error(Exit::data, "data", bad->second);
      all.rows.back() = read_row(metadata.rows[i], metadata, options, subset, there);
    } catch (const Error& error) {
      all.bad[std::ssize(all.rows) - 1] = without_source(error);
    }
    all.rows.back().subset = index;
  }
  all.origins.push_back({subset.metadata_path, metadata_hash(metadata), subset.caption_files});
}

}  // namespace

bool is_beside(const Column& column) {
  using Fit = Column::Fit;
  return column.is_seen() && column.is != Column::Is::pictures && (column.fit == Fit::as_target || column.fit == Fit::square);
}

ClipRule rule_of(const Row& row, const DatasetOptions& options) {
  constexpr double kLeast = 0.1, kMost = 1000;
  auto rule = options.subsets[row.subset].clips;
  const auto cell = row.cells.find(kRateOfFrames);
  if (cell == row.cells.end() || cell->is_null()) return rule;
  const auto text = cell->is_string() ? std::string(trim(cell->get<std::string>())) : cell->dump();
  if (text.empty()) return rule;
  const auto rate = parse_number<double>(text);
  if (!rate || !(*rate >= kLeast && *rate <= kMost))
    data_error("data", "the {} is {}, and frames a second from {} to {} were expected", kRateOfFrames, text, kLeast, kMost);
  rule.rate = as_fraction(*rate);
  rule.may_be_slower = false;
  return rule;
}

std::string picture_name(const std::string& column, size_t number) {
  return number == 0 ? column : fmt::format("{} {}", column, number + 1);
}

std::string layer_name(int64_t k) { return fmt::format("layer {}", k); }

std::vector<std::string> target_files(const Row& row) {
  std::vector<std::string> files{row.file};
  auto next = [&] { return row.further.find(layer_name(std::ssize(files))); };
  for (auto it = next(); it != row.further.end(); it = next()) files.push_back(it->second);
  return files;
}

std::vector<std::string> files_in(const Row& row, const std::string& column) {
  std::vector<std::string> files;
  auto next = [&] { return row.further.find(picture_name(column, files.size())); };
  for (auto it = next(); it != row.further.end(); it = next()) files.push_back(it->second);
  return files;
}

std::vector<Reference> references_of(const Row& row, const std::string& column) {
  return references_of(row.cells.value(column, nlohmann::json::array()), files_in(row, column));
}

std::string metadata_hash(const Metadata& metadata) {
  io::Sha256 hash;
  // A value that is not UTF-8 must not stop this.
  for (const auto& row : metadata.rows) hash.update(row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return hash.hex();
}

Rows read_rows(const DatasetOptions& options) {
  Rows all;
  for (size_t i = 0; i < options.subsets.size(); ++i) add_rows(i, options, all);
  return all;
}

}  // namespace burnish::data
