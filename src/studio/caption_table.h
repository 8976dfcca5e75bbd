#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::studio {

/// The table of captions that a dataset's folder may hold, as those of hubs do: metadata.csv or metadata.jsonl, with a column of pictures
/// (image, video, file_name) and one of captions (prompt, caption, text). Where it is there, it is what training reads. Captions are
/// replaced where they stand; everything else of the file keeps its bytes.
class CaptionTable {
 public:
  /// Reads the table of a folder; nothing where there is none, one of other columns, or a damaged one, of which training says the line.
  static std::optional<CaptionTable> of(const std::filesystem::path& dataset);

  /// The caption of a picture, which is named from the folder on; nothing where no row names it.
  std::optional<std::string> caption(const std::string& picture) const;
  /// Gives a picture another caption, and a row where it has none; save() writes that.
  void set(const std::string& picture, const std::string& caption);
  /// Writes the file, whole or not at all, if a caption was changed.
  void save();

 private:
  /// A caption in the text of the file, from one byte to another.
  struct Place {
    size_t begin = 0, end = 0;
    std::string caption = {};
  };
  explicit CaptionTable(std::filesystem::path path);
  bool read_csv();
  bool read_lines();
  std::string encoded(const std::string& picture, const std::string& caption, const Place& place) const;
  std::string row_of(const std::string& picture, const std::string& caption) const;

  std::filesystem::path path_;
  std::string text_;
  std::string picture_column_, caption_column_;
  std::vector<std::string> columns_;        ///< of a .csv
  std::map<std::string, Place> places_;     ///< by picture
  std::map<std::string, std::string> set_;  ///< captions that save() writes
};

}  // namespace burnish::studio
