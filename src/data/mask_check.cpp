#include "data/mask_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "data/clip.h"
#include "data/image.h"
#include "data/read_row.h"
#include "data/spelling.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// A pixel of 0 to 255 counts by its share; no mask that is meant stays below a tenth.
constexpr int kDim = 25;
constexpr int kWhite = 255;

/// What a mask holds: its values, and the smallest window that has all pixels above 0.
struct Look {
  int least = kWhite, most = 0;
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  Size size;
};

/// Adds what a mask holds, or one more frame of it.
void look_at(Look& look, const at::Tensor& mask_HW1) {
  auto pixels = mask_HW1.contiguous();
  const auto* at = pixels.const_data_ptr<uint8_t>();
  if (look.size.height == 0) look = {.top = pixels.size(0), .left = pixels.size(1), .size = {pixels.size(0), pixels.size(1)}};
  for (int64_t row = 0; row < look.size.height; ++row) {
    for (int64_t column = 0; column < look.size.width; ++column, ++at) {
      look.least = std::min<int>(look.least, *at);
      look.most = std::max<int>(look.most, *at);
      if (*at == 0) continue;
      look.top = std::min(look.top, row);
      look.left = std::min(look.left, column);
      look.bottom = std::max(look.bottom, row + 1);
      look.right = std::max(look.right, column + 1);
    }
  }
}

/// Looks at a picture, or at all frames of a clip.
Look look_at_file(const fs::path& file, bool as_clip, bool of_alpha) {
  Look look;
  if (!as_clip || !may_be_clip(file)) look_at(look, of_alpha ? decode_alpha(file) : decode_gray(file));
  else for_each_frame(file, of_alpha, [&](const at::Tensor& frame) { look_at(look, of_alpha ? frame : gray_of(frame)); });
  return look;
}

std::string text_of(const Look& look) {
  return fmt::format("{} {} {} {} {} {} {} {}", look.least, look.most, look.top, look.left, look.bottom, look.right, look.size.height,
                     look.size.width);
}

Look read_look(const std::string& text) {
  Look look;
  std::istringstream words(text);
  words >> look.least >> look.most >> look.top >> look.left >> look.bottom >> look.right >> look.size.height >> look.size.width;
  return words ? look : Look();
}

/// The file that each row's mask is in, by row.
std::map<int64_t, std::string> mask_files(const Dataset& dataset, const Column& column) {
  std::map<int64_t, std::string> files;
  SpelledFiles there;
  for (auto row : dataset.rows()) {
    const auto& entry = dataset.row(row);
    if (column.is == Column::Is::opacity) {
      files[row] = entry.file;
    } else if (auto given = entry.further.find(column.name); given != entry.further.end()) {
      files[row] = given->second;
    } else if (auto kept = entry.cells.find(column.name); kept != entry.cells.end() && kept->is_string()) {
      auto name = kept->get<std::string>();
      if (auto file = there.find(dataset.options().subsets[entry.subset].base_path, name); file && !name.empty())
        files[row] = file->string();
    }
  }
  return files;
}

/// One for all subsets, named by where their metadata is; "" where nothing is kept.
fs::path notes_path(const Dataset& dataset, const Column& column) {
  const fs::path folder = dataset.options().checks_folder;
  if (folder.empty() || !io::is_folder(folder)) return {};
  std::string metadata = column.is == Column::Is::opacity ? "alpha" : "masks";
  for (const auto& subset : dataset.options().subsets) metadata += "\n" + fs::absolute(subset.metadata_path).lexically_normal().string();
  return folder /
         fmt::format("checked-{}-{:016x}-masks.json", reads_clips(dataset.options().subsets) ? "clips" : "pictures", io::xxh64(metadata));
}

/// Every file once; none of a file that is no picture.
std::map<std::string, Look> look_at_all(const std::map<int64_t, std::string>& masks, const Column& column, bool as_clips, FileNotes notes) {
  std::map<std::string, Look> looks;
  for (const auto& [row, file] : masks) looks[file];
  auto seen = [&](const fs::path& file) -> std::string {
    try {
      return text_of(look_at_file(file, as_clips, column.is == Column::Is::opacity));
    } catch (const Error&) {
      return "";
    }
  };
  Progress progress("look at masks", std::ssize(looks));
  constexpr size_t kAtOnce = 64;
  int64_t num_seen = 0;
  for (auto it = looks.begin(); it != looks.end();) {
    if (interrupted()) throw Error(Exit::interrupted, "data", "interrupted while looking at the masks; nothing was trained yet");
    std::vector<fs::path> files;
    auto first = it;
    for (; it != looks.end() && files.size() < kAtOnce; ++it) files.emplace_back(it->first);
    auto texts = notes.get(files, seen);
    for (size_t i = 0; i < texts.size(); ++i, ++first) first->second = read_look(texts[i]);
    progress.update(num_seen += std::ssize(files));
  }
  notes.save();
  return looks;
}

/// Whether a pixel above 0 lies in what is cut out of the picture, in one of the ways in which it is.
bool is_seen(const Dataset& dataset, int64_t row, const Look& look) {
  const auto& entry = dataset.row(row);
  const auto whole = dataset.looked(row).picture;
  const auto num_variants = dataset.options().subsets[entry.subset].augmentation.num_variants;
  for (int64_t variant = 0; variant < std::max<int64_t>(1, num_variants); ++variant) {
    auto crop = crop_of(dataset, row, variant);
    auto scaled = covering_size(whole, crop.size);
    auto overlaps = [](int64_t from, int64_t length, int64_t side, int64_t covered, int64_t first, int64_t end) {
      return first * covered < (from + length) * side && end * covered > from * side;
    };
    if (overlaps(crop.top, crop.size.height, whole.height, scaled.height, look.top, look.bottom) &&
        overlaps(crop.left, crop.size.width, whole.width, scaled.width, look.left, look.right))
      return true;
  }
  return false;
}

/// Rows that have something in common, and the most that a pixel of one of their masks counts.
struct Group {
  int64_t count = 0, first = 0;
  int most = 0;
  void add(int64_t row, int brightest) {
    if (count++ == 0) first = row;
    most = std::max(most, brightest);
  }
};

std::vector<std::string> sentences(const Dataset& dataset, const Column& column, const Group& nothing, const Group& dim) {
  bool is_alpha = column.is == Column::Is::opacity;
  std::vector<std::string> said;
  auto having = [](const Group& group) { return count_of(group.count, "sample has", "samples have"); };
  if (nothing.count > 0)
    said.push_back(
        fmt::format("{} {} where the picture is cut out, so nothing is learned there but by unmasked_weight; the first is {}; {}",
                    having(nothing), is_alpha ? "no opaque pixel" : "a black mask", dataset.name_of(nothing.first),
                    is_alpha ? "what is opaque counts" : "what is white counts"));
  if (dim.count > 0)
    said.push_back(fmt::format("{} {} without a pixel above {} of 255, so {:.2g} of the loss counts there at most; the first is {}; {}",
                               having(dim), is_alpha ? "an opacity" : "a mask", dim.most, dim.most / 255.0, dataset.name_of(dim.first),
                               "255 counts whole, so multiply masks of 0 and 1 by 255"));
  return said;
}

}  // namespace

std::vector<std::string> warnings_of_masks(const Dataset& dataset, const Column& column) {
  const auto masks = mask_files(dataset, column);
  const auto looks = look_at_all(masks, column, reads_clips(dataset.options().subsets), FileNotes(notes_path(dataset, column)));
  Group nothing, dim;
  int64_t num_masks = 0, num_white = 0;
  for (const auto& [row, file] : masks) {
    const auto& look = looks.at(file);
    if (look.size != dataset.looked(row).picture) continue;
    ++num_masks;
    num_white += look.least == kWhite;
    if (look.most == 0 || !is_seen(dataset, row, look)) nothing.add(row, 0);
    else if (look.most <= kDim) dim.add(row, look.most);
  }
  auto said = sentences(dataset, column, nothing, dim);
  const auto is_bare = [&](auto row) {
    return !masks.contains(row) && !dataset.options().subsets[dataset.row(row).subset].visits.of_class_set;
  };
  const auto num_without = std::ranges::count_if(dataset.rows(), is_bare);
  const bool is_asked_for = mask_of(dataset.options().columns) != nullptr;
  if (is_asked_for && !masks.empty() && num_without > 0)
    said.push_back(fmt::format("{} no mask and {} whole, beside {} that {} one", count_of(num_without, "sample has", "samples have"),
                               num_without == 1 ? "counts" : "count", std::ssize(masks), masks.size() == 1 ? "has" : "have"));
  if (num_masks > 0 && num_white == num_masks)
    said.emplace_back(column.is == Column::Is::opacity ? "no picture is transparent anywhere, so masked_loss alpha changes nothing"
                                                       : "every mask is white all over, so masks change nothing");
  return said;
}

}  // namespace burnish::data
