#pragma once
#include <filesystem>
#include <string>
#include <vector>

// Where the captions of a folder's pictures lie, for those who write them; captioned_folder.h reads them, and finds the pictures.
namespace burnish::data {

/// A picture or clip of a folder, and the file beside it that holds its caption.
struct CaptionPlace {
  std::filesystem::path picture, file;
  bool is_there = false;  ///< whether the file is
};

/// Lists the pictures and videos of a folder as load_captioned_folder finds them, in the order of their names, with the place of the
/// caption of this ending (".txt"). Members of archives, beside which no file can be written, are left out and said. A data Error when
/// there is no picture.
std::vector<CaptionPlace> caption_places(const std::filesystem::path& folder, const std::string& ending);
/// Reads a caption, without blanks around it; a data Error where it is not UTF-8.
std::string read_caption(const std::filesystem::path& file);

}  // namespace burnish::data
