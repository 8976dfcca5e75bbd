#include "data/captioned_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "data/archive_path.h"
#include "data/archived_files.h"
#include "data/caption_places.h"
#include "data/clip.h"
#include "data/frame_files.h"
#include "data/image.h"
#include "data/parquet.h"
#include "data/spelling.h"
#include "data/tar.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// Of files that stand beside pictures and are none: captions, settings, tables, what other programs keep of a picture.
constexpr std::array<std::string_view, 12> kBeside{".txt",     ".caption", ".json", ".jsonl", ".csv", ".toml",
                                                   ".parquet", ".tar",     ".npz",  ".yaml",  ".md",  ".safetensors"};
constexpr int kMostRepeats = 10000;

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string ending_of(const fs::path& path) { return in_small_letters(path.extension().string()); }

bool is_picture(const fs::path& path, bool or_video) { return is_picture_name(path) || (or_video && is_video(path)); }

/// As systems make them beside what users put there: `.DS_Store`, `._cat.png`.
bool is_hidden(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part.string().starts_with('.'); });
}

/// Endings of caption files, and how often each is drawn.
using Endings = std::vector<std::pair<std::string, double>>;

/// ".txt" and 1 for ".txt"; ".long" and 3 for ".long=3".
Endings parse_endings(const std::string& list) {
  Endings endings;
  for (const auto& entry : split_list(list)) {
    auto equals = std::min(entry.find('='), entry.size());
    auto number = entry.substr(std::min(equals + 1, entry.size()));
    const auto weight = equals == entry.size() ? 1.0 : parse_number<double>(number).value_or(0);
    if (weight <= 0 || weight >= 1e9 || !entry.starts_with('.') || equals < 2)
      config_error("data", "caption_extension '{}' is no ending like .txt, or .txt=3 with how often it is drawn", entry);
    endings.emplace_back(entry.substr(0, equals), weight);
  }
  if (endings.empty()) config_error("data", "caption_extension is empty; give the ending of the files with captions, .txt say");
  return endings;
}

/// The file beside a picture with that ending, in small or capital letters too, however its name is spelled; none where there is none.
std::optional<fs::path> file_beside(const fs::path& picture, const std::string& ending, SpelledFiles& there) {
  auto capital = ending;
  std::ranges::transform(capital, capital.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const auto& spelled : {ending, in_small_letters(ending), capital}) {
    if (auto file = there.find("", fs::path(picture).replace_extension(spelled).string())) return file;
  }
  return std::nullopt;
}

/// What a folder or an archive holds.
struct Found {
  std::set<fs::path> pictures = {}, parquets = {};
  std::map<fs::path, std::string> damaged = {};                ///< archives, and what is wrong with each
  std::vector<fs::path> linked_folders = {}, dangling = {};    ///< links that lead to a folder, and to nothing
  std::map<std::string, std::set<fs::path>> passed_over = {};  ///< files that are no pictures by their endings
};

void add_members(const fs::path& archive, bool with_videos, Found& found) {
  for (const auto& member : read_tar(archive)) {
    if (is_hidden(member.name)) continue;
    if (is_picture(member.name, with_videos)) found.pictures.insert(archive / member.name);
    else found.passed_over[ending_of(member.name)].insert(archive / member.name);
  }
}

void add_file(const fs::directory_entry& file, bool with_videos, Found& found) {
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

/// Counts what was not taken for a picture and is not one of the files that stand beside pictures.
void say_passed_over(Found& found, const Endings& captions) {
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

/// The name that files beside a picture have but for their endings; those of a folder of frames have its whole name.
fs::path named_by(const fs::path& picture) { return io::is_folder(picture) ? fs::path(picture.string() + ".frames") : picture; }

/// Whether a folder is a clip: one of pictures with a caption beside it. Of other folders each picture is one by itself.
bool is_clip_folder(const fs::path& folder, const Endings& endings, SpelledFiles& there) {
  auto has = [&](const std::string& ending) { return file_beside(named_by(folder), ending, there).has_value(); };
  bool has_caption = has(".json") || std::ranges::any_of(endings, [&](const auto& ending) { return has(ending.first); });
  return has_caption && !frame_files(folder).empty();
}

Found look_into(const fs::path& folder, const Endings& endings, bool with_videos, SpelledFiles& there) {
  Found found;
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

/// Where the hub's names of files say that some are to be trained (`train-00000-of-00003.parquet`), those of other parts are left out.
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

/// A picture's path without its ending, whichever system spelled it: what files that belong to it have in common.
std::string key_of(const fs::path& path) { return composed((path.parent_path() / path.stem()).string()); }

/// The mask of `cat.png` is `cat.mask.png`, or as OneTrainer names it `cat-masklabel.png`: takes masks out of the pictures, by the key of
/// their picture. OneTrainer's `cat-condlabel.png`, which steers the picture, is taken out too, and said.
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

/// A folder of masks may lie in that of the pictures, whose masks are none.
void take_pictures_below(const fs::path& folder, std::set<fs::path>& pictures) {
  std::erase_if(pictures, [&](const fs::path& picture) { return *picture.lexically_relative(folder).begin() != ".."; });
}

/// The number of `cat_3`, behind the key of its picture `cat`; nothing where the name has none.
std::optional<std::pair<std::string, int64_t>> layer_of(const std::string& key) {
  const auto end = key.rfind('_');
  const auto number = end == key.npos ? std::nullopt : parse_number<int64_t>(key.substr(end + 1));
  return number ? std::optional(std::pair(key.substr(0, end), *number)) : std::nullopt;
}

/// Takes layers out of the pictures, by the key of their picture and their number: those without a caption, as musubi-tuner has them.
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

/// Fewer need no word: nobody means a year by them.
constexpr int kRepeatsToSay = 100;

/// The 10 of `10_cat`, or 1; 0 leaves the folder out, as in sd-scripts.
int repeats_of(const fs::path& folder) {
  auto name = folder.filename().string();
  auto digits = name.substr(0, name.find('_'));
  const auto repeats = digits.size() < name.size() ? parse_number<int>(digits) : std::nullopt;
  if (!repeats) return 1;
  if (*repeats < 0 || *repeats > kMostRepeats)
    data_error("data", "the folder {} asks for {} repeats of its pictures; a name like 10_cat begins with 0 to {}", folder.string(), digits,
               kMostRepeats);
  return *repeats;
}

/// The object in the JSON file of a picture; null where there is none.
nlohmann::json object_beside(const fs::path& picture, SpelledFiles& there) {
  auto file = file_beside(picture, ".json", there);
  if (!file) return nullptr;
  auto json = nlohmann::json::parse(read_caption(*file), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json();
}

/// The captions of a picture as its row has them; null where there is none.
nlohmann::json captions_beside(const fs::path& picture, const nlohmann::json& object, const Endings& endings, SpelledFiles& there) {
  nlohmann::json list;
  for (const auto& [ending, weight] : endings) {
    if (auto file = file_beside(picture, ending, there)) list.push_back({{"text", read_caption(*file)}, {"weight", weight}});
  }
  if (!list.is_null()) return list.size() == 1 ? list[0]["text"] : list;
  for (const char* key : {"prompt", "caption", "text"}) {
    if (object.is_object() && object.contains(key)) return object[key];
  }
  return nullptr;
}

/// What the name of a picture's folder says it shows, as sd-scripts reads it: "sks dog" of "3_sks dog". "" where the name says nothing.
std::string words_of_folder(const fs::path& picture) {
  if (file_behind(picture) != picture && picture.parent_path() == file_behind(picture)) return "";  // 00000_of_00010.tar
  auto name = picture.parent_path().filename().string();
  auto end = name.find('_');
  bool has_count = end != name.npos && end > 0 && name.find_first_not_of("0123456789") == end;
  return has_count ? std::string(trim(name.substr(end + 1))) : "";
}

/// The fields of its JSON file, its path and its captions.
nlohmann::json row_of(const fs::path& picture, const CaptionFiles& captions, const Endings& endings, SpelledFiles& there) {
  auto row = object_beside(named_by(picture), there);
  auto prompt = captions_beside(named_by(picture), row, endings, there);
  auto text_file = named_by(picture).replace_extension(endings.front().first).filename().string();
  auto for_all = captions.class_tokens.empty() ? words_of_folder(picture) : captions.class_tokens;
  if (for_all.empty()) for_all = captions.trigger_word;
  if (prompt.is_null() && for_all.empty())
    data_error(
        "data",
        "{} has no caption; it is looked for in {}, as the prompt, caption or text of the object in its .json file, and in the name of "
        "a folder like 3_sks dog; class_tokens 'a dog' is the caption of all that have none (class_prompt in a class set), and a "
        "trigger_word begins every caption, or is one",
        picture.string(), text_file);
  row["image"] = picture.string();
  row["prompt"] = prompt.is_null() ? nlohmann::json(for_all) : prompt;
  return row;
}

/// How many rows a picture gives by the folder it is in; what is unusual of that is said once a folder.
int repeats_by_folder(const fs::path& picture, const fs::path& root, std::set<fs::path>& said) {
  auto folder = picture.parent_path();
  if (folder == root || folder == file_behind(picture)) return 1;  // 00000_of_00010.tar is no count
  auto repeats = repeats_of(folder);
  auto name = folder.filename().string();
  bool is_number = name.find_first_not_of("0123456789") == name.npos;
  bool is_usual = repeats > 0 && repeats < kRepeatsToSay && !is_number;
  if (is_usual || !said.insert(folder).second) return repeats;
  if (repeats == 0) {
    info("the folder {} is left out: its name asks for no visits of its pictures", folder.string());
  } else if (is_number) {
    info(
        "the folder {} is named by a number alone, which is no count: each of its pictures is visited once an epoch ({}_cat would ask for "
        "{})",
        folder.string(), name, name);
  } else {
    warn("the name of the folder {} asks for {} visits an epoch of each of its pictures; rename it if that is no count", folder.string(),
         repeats);
  }
  return repeats;
}

void add_parquet(const fs::path& file, Metadata& m, Found& found) {
  try {
    auto read = load_parquet(file);
    m.rows.insert(m.rows.end(), read.rows.begin(), read.rows.end());
    for (const auto& column : read.columns) {
      if (!contains(m.columns, column)) m.columns.push_back(column);
    }
  } catch (const Error& error) {
    if (error.code() != Exit::data) throw;
    found.damaged[file] = without_source(error);
  }
}

[[noreturn]] void refuse_without_pictures(const fs::path& folder, const char* more) {
  data_error("data",
             "the folder {} holds no picture (.png, .jpg, .webp, .tiff, .heic, .avif, .jxl, .gif or .bmp){}; name a folder that does, or a "
             "metadata file",
             folder.string(), more);
}

}  // namespace

std::string read_caption(const fs::path& file) {
  auto text = read_file_bytes(file);
  if (!is_utf8(text)) data_error("data", "the caption {} is not UTF-8; save the file in that encoding", file.string());
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return std::string(trim(text));
}

Metadata load_captioned_folder(const fs::path& folder, const CaptionFiles& captions) {
  if (!io::is_there(folder))
    data_error("data", "the archive {} does not exist; name one that does, or a folder of pictures", folder.string());
  auto root = fs::canonical(folder);
  auto endings = parse_endings(captions.endings);
  SpelledFiles there;
  auto found = look_into(root, endings, captions.with_videos, there);
  take_training_parts(found.parquets);
  if (found.pictures.empty() && found.parquets.empty() && found.damaged.empty()) refuse_without_pictures(folder, " and no Parquet file");
  say_passed_over(found, endings);
  if (!captions.mask_folder.empty()) take_pictures_below(fs::weakly_canonical(captions.mask_folder), found.pictures);
  auto masks = take_masks(found.pictures);
  auto layers = captions.with_layers ? take_layers(found.pictures, endings, there) : std::map<std::string, std::map<int64_t, fs::path>>{};
  Metadata m{.rows = {}, .columns = {"image", "prompt"}};
  std::set<fs::path> said;
  for (const auto& picture : found.pictures) {
    auto repeats = static_cast<size_t>(repeats_by_folder(picture, root, said));
    if (repeats == 0) continue;
    try {
      auto row = row_of(picture, captions, endings, there);
      if (auto mask = masks.find(key_of(picture)); mask != masks.end()) row["mask"] = mask->second.string();
      if (auto behind = layers.find(key_of(picture)); behind != layers.end()) {
        row["image"] = {picture.string()};
        for (const auto& [number, layer] : behind->second) row["image"].push_back(layer.string());
      }
      m.rows.insert(m.rows.end(), repeats, row);
    } catch (const Error& error) {
      m.bad[m.rows.size()] = without_source(error);
      m.rows.push_back({{"image", picture.string()}});
    }
  }
  for (const auto& file : found.parquets) add_parquet(file, m, found);
  for (const auto& [archive, reason] : found.damaged) {
    m.bad[m.rows.size()] = reason;
    m.rows.push_back({{"image", archive.string()}});
  }
  if (m.rows.empty())
    data_error("data", "all pictures of {} are in folders like 0_none, which are left out; rename one to 1_none", folder.string());
  return m;
}

namespace {

/// What lies in a folder as files, beside which others can be written.
Found look_at_files(const fs::path& folder, const Endings& endings, const char* written, SpelledFiles& there) {
  if (!io::is_folder(folder)) data_error("data", "{} is no folder, and {} are written for the pictures of one", folder.string(), written);
  auto found = look_into(folder, endings, /*with_videos=*/true, there);
  const auto num_found = std::ssize(found.pictures);
  std::erase_if(found.pictures, [](const fs::path& picture) { return file_behind(picture) != picture; });
  if (auto left = num_found - std::ssize(found.pictures); left > 0)
    warn("{} left out: nothing can be written beside a picture in an archive; unpack it", count_of(left, "picture"));
  return found;
}

}  // namespace

std::vector<PlaceBeside> caption_places(const fs::path& folder, const std::string& ending) {
  SpelledFiles there;
  const Endings endings = parse_endings(ending);
  auto found = look_at_files(fs::weakly_canonical(folder), endings, "captions", there);
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
  auto found = look_at_files(root, endings, "masks", there);
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
