#include "data/caption_places.h"

#include "base/count.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/archive_path.h"
#include "data/archived_files.h"
#include "data/clip.h"
#include "data/folder_contents.h"
#include "data/image.h"
#include "io/files.h"
#include "io/output_file.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// What lies in a folder as files, beside which others can be written.
FolderContents look_beside(const fs::path& folder, const Endings& endings, const char* written, SpelledFiles& there) {
  if (!io::is_folder(folder)) data_error("data", "{} is no folder, and {} are written for the pictures of one", folder.string(), written);
  auto found = look_into(folder, endings, /*with_videos=*/true, there);
  const auto num_found = std::ssize(found.pictures);
  std::erase_if(found.pictures, [](const fs::path& picture) { return file_behind(picture) != picture; });
  if (auto left = num_found - std::ssize(found.pictures); left > 0)
    warn("{} left out: nothing can be written beside a picture in an archive; unpack it", count_of(left, "picture"));
  return found;
}

/// Tells by its header whether a file is a PNG picture of grays alone, as write_mask writes them (PNG specification, section 11.2.2).
bool is_gray_png(const fs::path& file) {
  constexpr std::string_view kBegin = "\x89PNG\r\n\x1a\n";
  constexpr size_t kColorType = 25;
  const auto bytes = io::read_text(file);
  return bytes.starts_with(kBegin) && bytes.size() > kColorType && bytes[kColorType] == 0;
}

}  // namespace

std::string read_caption(const fs::path& file) {
  auto text = read_file_bytes(file);
  if (!is_utf8(text)) data_error("data", "the caption {} is not UTF-8; save the file in that encoding", file.string());
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return std::string(trim(text));
}

void check_ending_written(const std::string& ending) {
  const Endings endings = parse_endings(ending);
  if (endings.size() != 1 || endings[0].first != ending)
    config_error("data", "caption_extension '{}' must be one ending, .txt say, for captions that are written", ending);
}

void check_replaces_caption(const PlaceBeside& place) { io::check_replaces("caption", place.file, io::is_text); }

void check_replaces_mask(const PlaceBeside& place, const fs::path& mask_folder) {
  if (mask_folder.empty()) return;
  io::check_replaces("mask", place.file, is_gray_png);
}

std::vector<PlaceBeside> caption_places(const fs::path& folder, const std::string& ending) {
  SpelledFiles there;
  check_ending_written(ending);
  const Endings endings = parse_endings(ending);
  auto found = look_beside(fs::weakly_canonical(folder), endings, "captions", there);
  take_masks(found.pictures);
  if (found.pictures.empty()) refuse_without_pictures(folder, " and no clip beside which a caption could be written");
  say_passed_over(found, endings);
  std::vector<PlaceBeside> places;
  for (const auto& picture : found.pictures) {
    auto file = file_beside(named_by(picture), ending, there);
    auto beside = file ? *file : named_by(picture).replace_extension(ending);
    places.push_back({picture, beside, file.has_value()});
  }
  return places;
}

fs::path mask_beside(const fs::path& picture) {
  return picture.parent_path() / (picture.stem().string() + std::string(kMaskNames.back()) + ".png");
}

std::vector<PlaceBeside> mask_places(const fs::path& folder, const fs::path& mask_folder) {
  SpelledFiles there;
  const Endings endings{{".txt", 1}};
  const auto root = fs::weakly_canonical(folder);
  auto found = look_beside(root, endings, "masks", there);
  if (!mask_folder.empty()) take_pictures_below(fs::weakly_canonical(mask_folder), found.pictures);
  const auto masks = take_masks(found.pictures);
  const auto num_found = std::ssize(found.pictures);
  std::erase_if(found.pictures,
                [](const fs::path& picture) { return is_video(picture) || is_clip_alone(picture) || io::is_folder(picture); });
  if (found.pictures.empty()) refuse_without_pictures(folder, " of which a mask could be made");
  if (auto left = num_found - std::ssize(found.pictures); left > 0)
    warn("{} left out: masks are made of pictures alone", count_of(left, "clip"));
  std::vector<PlaceBeside> places;
  for (const auto& picture : found.pictures) {
    if (!mask_folder.empty()) {
      auto file = (mask_folder / picture.lexically_relative(root)).replace_extension(".png");
      places.push_back({picture, file, io::is_there(file)});
    } else if (auto mask = masks.find(key_of(picture)); mask != masks.end()) {
      places.push_back({picture, mask->second, true});
    } else {
      places.push_back({picture, mask_beside(picture), false});
    }
  }
  return places;
}

void write_mask(const PlaceBeside& place, const at::Tensor& mask_HW1) {
  const bool is_png = ending_of(place.file) == ".png";
  const auto file = is_png ? place.file : mask_beside(place.picture);
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  write_png(file, mask_HW1);
  if (place.is_there && !is_png) fs::remove(place.file, ignored);
}

}  // namespace burnish::data
