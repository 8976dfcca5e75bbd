#include "data/folder_contents.h"

#include <algorithm>
#include <cctype>

#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "data/archive_path.h"
#include "data/clip.h"
#include "data/frame_files.h"
#include "data/tar.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// The endings of files that stand beside pictures and are none: captions, settings, tables, what other programs keep of a picture.
constexpr std::array<std::string_view, 12> kBeside{".txt",     ".caption", ".json", ".jsonl", ".csv", ".toml",
                                                   ".parquet", ".tar",     ".npz",  ".yaml",  ".md",  ".safetensors"};
std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_picture(const fs::path& path, bool or_video) { return is_picture_name(path) || (or_video && is_video(path)); }

/// The endings of files that are no captions, whatever an option says: pictures and clips apart, weights, tables, archives and settings.
constexpr std::array<std::string_view, 20> kNoCaptions{".safetensors", ".sft", ".gguf", ".ckpt", ".pt",   ".pth",   ".bin",
                                                       ".onnx",        ".npz", ".npy",  ".json", ".csv",  ".jsonl", ".parquet",
                                                       ".tar",         ".zip", ".gz",   ".toml", ".yaml", ".yml"};

/// Tells whether files of this ending may hold captions: it names no folder, and no file that is of another kind.
bool is_of_captions(const std::string& ending) {
  const fs::path file = "caption" + in_small_letters(ending);
  if (ending.find_first_of("/\\") != ending.npos || ending.find('\0') != ending.npos || file.extension().string().size() < 2) return false;
  return !is_picture(file, /*or_video=*/true) && std::ranges::find(kNoCaptions, file.extension().string()) == kNoCaptions.end();
}

/// Tells whether a path is one that systems make beside what users put there: `.DS_Store`, `._cat.png`.
bool is_hidden(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part.string().starts_with('.'); });
}

void add_members(const fs::path& archive, bool with_videos, FolderContents& found) {
  for (const auto& member : read_tar(archive)) {
    if (is_hidden(member.name)) continue;
    if (is_picture(member.name, with_videos)) found.pictures.insert(archive / member.name);
    else found.passed_over[ending_of(member.name)].insert(archive / member.name);
  }
}

void add_file(const fs::directory_entry& file, bool with_videos, FolderContents& found) {
  std::error_code unreachable;  // a link that leads to itself, say
  auto status = file.status(unreachable);
  if (file.is_symlink() && !fs::exists(status)) found.dangling.push_back(file.path());
  if (file.is_symlink() && fs::is_directory(status)) found.linked_folders.push_back(file.path());
  if (!fs::is_regular_file(status)) return;
  if (is_picture(file.path(), with_videos)) found.pictures.insert(file.path());
  else found.passed_over[ending_of(file.path())].insert(file.path());
  if (is_parquet(file.path())) found.parquets.insert(file.path());
  if (file.path().extension() != ".tar") return;
  try {
    add_members(file.path(), with_videos, found);
  } catch (const Error& error) {
    found.damaged[file.path()] = without_source(error);
  }
}

void say_links(const std::vector<fs::path>& links, const std::string& kind, const std::string& reason) {
  if (!links.empty()) warn("{} left out: {}; the first is {}", count_of(std::ssize(links), kind), reason, links.front().string());
}

/// Tells whether a folder is a clip: one of pictures with a caption beside it. In other folders each picture is one by itself.
bool is_clip_folder(const fs::path& folder, const Endings& endings, SpelledFiles& there) {
  auto has = [&](const std::string& ending) { return file_beside(named_by(folder), ending, there).has_value(); };
  bool has_caption = has(".json") || std::ranges::any_of(endings, [&](const auto& ending) { return has(ending.first); });
  return has_caption && !frame_files(folder).empty();
}

/// The number of `cat_3`, behind the key of its picture `cat`; nothing where the name has none.
std::optional<std::pair<std::string, int64_t>> layer_of(const std::string& key) {
  const auto end = key.rfind('_');
  const auto number = end == key.npos ? std::nullopt : parse_number<int64_t>(key.substr(end + 1));
  return number ? std::optional(std::pair(key.substr(0, end), *number)) : std::nullopt;
}

}  // namespace

std::string ending_of(const fs::path& path) { return in_small_letters(path.extension().string()); }

Endings parse_endings(const std::string& list) {
  Endings endings;
  for (const auto& entry : split_list(list)) {
    auto equals = std::min(entry.find('='), entry.size());
    auto number = entry.substr(std::min(equals + 1, entry.size()));
    const auto weight = equals == entry.size() ? 1.0 : parse_number<double>(number).value_or(0);
    if (weight <= 0 || weight >= 1e9 || !entry.starts_with('.') || equals < 2)
      config_error("data", "caption_extension '{}' is no ending like .txt, or .txt=3 with how often it is drawn", entry);
    if (!is_of_captions(entry.substr(0, equals)))
      config_error(
          "data",
          "caption_extension '{}' is no ending of captions: it has no / and is none of pictures, clips, weights or tables; .txt is one",
          entry);
    endings.emplace_back(entry.substr(0, equals), weight);
  }
  if (endings.empty()) config_error("data", "caption_extension is empty; give the ending of the files with captions, .txt say");
  return endings;
}

std::optional<fs::path> file_beside(const fs::path& picture, const std::string& ending, SpelledFiles& there) {
  auto capital = ending;
  std::ranges::transform(capital, capital.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const auto& spelled : {ending, in_small_letters(ending), capital}) {
    if (auto file = there.find("", fs::path(picture).replace_extension(spelled).string())) return file;
  }
  return std::nullopt;
}

void say_passed_over(FolderContents& found, const Endings& captions) {
  for (const auto& ending : kBeside) found.passed_over.erase(std::string(ending));
  for (const auto& [ending, weight] : captions) found.passed_over.erase(in_small_letters(ending));
  if (found.passed_over.empty()) return;
  std::vector<std::string> counts;
  int64_t num_files = 0;
  for (const auto& [ending, files] : found.passed_over) {
    counts.push_back(fmt::format("{} {}", files.size(), ending.empty() ? "without ending" : ending));
    num_files += std::ssize(files);
  }
  warn("{} passed over, which by their endings are no pictures: {}; the first is {}", count_of(num_files, "file is", "files are"),
       join(counts), found.passed_over.begin()->second.begin()->string());
}

fs::path named_by(const fs::path& picture) { return io::is_folder(picture) ? fs::path(picture.string() + ".frames") : picture; }

FolderContents look_into(const fs::path& folder, const Endings& endings, bool with_videos, SpelledFiles& there) {
  FolderContents found;
  if (!io::is_folder(folder)) {
    add_members(folder, with_videos, found);
    return found;
  }
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (is_hidden(it->path().filename())) {
      it.disable_recursion_pending();
    } else if (with_videos && it->is_directory() && !it->is_symlink() && is_clip_folder(it->path(), endings, there)) {
      it.disable_recursion_pending();
      found.pictures.insert(it->path());
    } else {
      add_file(*it, with_videos, found);
    }
  }
  if (failed) data_error("data", "cannot read the folder {}: {}", folder.string(), failed.message());
  say_links(found.linked_folders, "linked folder", "links are not followed, so name what they lead to as a dataset of its own");
  say_links(found.dangling, "link", "what it leads to is not there");
  return found;
}

void take_training_parts(std::set<fs::path>& parquets) {
  auto is_of = [](const fs::path& file, std::initializer_list<std::string_view> parts) {
    auto name = file.filename().string();
    return std::ranges::any_of(parts, [&](std::string_view part) {
      auto rest = std::string_view(name).substr(std::min(part.size(), name.size()));
      return name.starts_with(part) && (rest.starts_with('-') || rest.starts_with('.'));
    });
  };
  if (std::ranges::none_of(parquets, [&](const auto& file) { return is_of(file, {"train"}); })) return;
  auto all = std::ssize(parquets);
  std::erase_if(parquets, [&](const auto& file) { return is_of(file, {"test", "validation", "valid", "val", "dev", "eval"}); });
  if (auto left = all - std::ssize(parquets); left > 0)
    info("{} left out, by name for tests or validation; name such a file itself to use it", count_of(left, "Parquet file"));
}

std::string key_of(const fs::path& path) { return composed((path.parent_path() / path.stem()).string()); }

std::map<std::string, fs::path> take_masks(std::set<fs::path>& pictures) {
  std::set<std::string> keys;
  for (const auto& picture : pictures) keys.insert(key_of(picture));
  std::map<std::string, fs::path> masks;
  std::vector<fs::path> conditions;
  for (auto it = pictures.begin(); it != pictures.end();) {
    auto key = key_of(*it);
    auto belongs = [&](std::string_view ending) {
      return key.ends_with(ending) && keys.contains(key.substr(0, key.size() - ending.size()));
    };
    bool is_mask = false;
    for (auto ending : kMaskNames) {
      if (!belongs(ending)) continue;
      masks[key.substr(0, key.size() - ending.size())] = *it;
      is_mask = true;
    }
    bool is_condition = belongs(kConditionName);
    if (is_condition) conditions.push_back(*it);
    it = is_mask || is_condition ? pictures.erase(it) : std::next(it);
  }
  if (!conditions.empty())
    warn("{} left out: name what a picture is made from in a column of a metadata file; the first is {}",
         count_of(std::ssize(conditions), "picture -condlabel", "pictures -condlabel"), conditions.front().string());
  return masks;
}

void take_pictures_below(const fs::path& folder, std::set<fs::path>& pictures) {
  std::erase_if(pictures, [&](const fs::path& picture) { return *picture.lexically_relative(folder).begin() != ".."; });
}

std::map<std::string, std::map<int64_t, fs::path>> take_layers(std::set<fs::path>& pictures, const Endings& endings, SpelledFiles& there) {
  auto has_caption = [&](const fs::path& picture) {
    return std::ranges::any_of(endings, [&](const auto& ending) { return file_beside(picture, ending.first, there).has_value(); });
  };
  std::set<std::string> keys;
  for (const auto& picture : pictures) keys.insert(key_of(picture));
  std::map<std::string, std::map<int64_t, fs::path>> layers;
  for (auto it = pictures.begin(); it != pictures.end();) {
    auto layer = layer_of(key_of(*it));
    const bool is_layer = layer && keys.contains(layer->first) && !has_caption(*it);
    if (is_layer) layers[layer->first][layer->second] = *it;
    it = is_layer ? pictures.erase(it) : std::next(it);
  }
  return layers;
}

[[noreturn]] void refuse_without_pictures(const fs::path& folder, const char* more) {
  data_error("data",
             "the folder {} holds no picture (.png, .jpg, .webp, .tiff, .heic, .avif, .jxl, .gif or .bmp){}; name a folder that does, or a "
             "metadata file",
             folder.string(), more);
}

}  // namespace burnish::data
