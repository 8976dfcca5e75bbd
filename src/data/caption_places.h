#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

// Where the captions and masks of a folder's pictures lie, for those who write them; captioned_folder.h reads them, and finds the pictures.
namespace burnish::data {

/// A picture or clip of a folder, and the file that holds its caption, or its mask.
struct PlaceBeside {
  std::filesystem::path picture, file;
  bool is_there = false;  ///< whether the file is
};

/// Lists the pictures and videos of a folder as load_captioned_folder finds them, in the order of their names, with the place of the
/// caption of this ending (".txt"). Members of archives, beside which no file can be written, are left out and said. A data Error when
/// there is no picture.
std::vector<PlaceBeside> caption_places(const std::filesystem::path& folder, const std::string& ending);
/// Reads a caption, without blanks around it; a data Error where it is not UTF-8.
std::string read_caption(const std::filesystem::path& file);

/// Throws a config Error for what is not the one ending of captions that are to be written.
void check_ending_written(const std::string& ending);
/// Refuses, by io::check_replaces, to write a caption over what is no text.
void check_replaces_caption(const PlaceBeside& place);
/// Refuses, by io::check_replaces, to write a mask over a picture of a folder for masks: masks are gray. Beside its picture, a mask's name
/// says what it is.
void check_replaces_mask(const PlaceBeside& place, const std::filesystem::path& mask_folder);

/// What the mask of a picture is called that has none: "cat-masklabel.png", as OneTrainer names it.
std::filesystem::path mask_beside(const std::filesystem::path& picture);
/// Lists the pictures of a folder in that way, with the place of each one's mask: the one that is there, else mask_beside. With a folder
/// for masks it is a PNG file there, of the picture's own name and of the subfolder that it lies in. Clips are left out and said.
std::vector<PlaceBeside> mask_places(const std::filesystem::path& folder, const std::filesystem::path& mask_folder = {});
/// Writes a mask, uint8 [H, W, 1], as a PNG file: in the place of one that is there, under OneTrainer's name where that has another ending.
void write_mask(const PlaceBeside& place, const at::Tensor& mask_HW1);

}  // namespace burnish::data
