#include "data/captioned_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/tar.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 12> kEndings{".png",  ".jpg",  ".jpeg", ".webp", ".tif", ".tiff",
                                                    ".heic", ".heif", ".avif", ".jxl",  ".gif", ".bmp"};
constexpr int kMostRepeats = 10000;

bool is_picture(const fs::path& path) {
  auto ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

void add_members(const fs::path& archive, std::vector<fs::path>& pictures) {
  for (const auto& member : read_tar(archive)) {
    if (is_picture(member.name)) pictures.push_back(archive / member.name);
  }
}

std::vector<fs::path> pictures_below(const fs::path& folder) {
  std::vector<fs::path> pictures;
  if (!io::is_folder(folder)) {
    add_members(folder, pictures);
    std::sort(pictures.begin(), pictures.end());
    return pictures;
  }
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (!it->is_regular_file()) continue;
    if (is_picture(it->path())) pictures.push_back(it->path());
    if (it->path().extension() == ".tar") add_members(it->path(), pictures);
  }
  if (failed) data_error("data", "cannot read the folder {}: {}", folder.string(), failed.message());
  std::sort(pictures.begin(), pictures.end());
  return pictures;
}

/// Fewer need no word: nobody means a year by them.
constexpr int kRepeatsToSay = 100;

/// The 10 of `10_cat`, or 1.
int repeats_of(const fs::path& folder) {
  auto name = folder.filename().string();
  auto digits = name.substr(0, name.find('_'));
  int repeats = 1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), repeats);
  bool is_number = error == std::errc() && end == digits.data() + digits.size() && digits.size() < name.size();
  if (!is_number) return 1;
  if (repeats < 1 || repeats > kMostRepeats)
    data_error("data", "the folder {} asks for {} repeats of its pictures; a name like 10_cat begins with 1 to {}", folder.string(), digits,
               kMostRepeats);
  return repeats;
}

/// ".txt" and 1 for ".txt"; ".long" and 3 for ".long=3".
std::vector<std::pair<std::string, double>> parse_endings(const std::string& list) {
  std::vector<std::pair<std::string, double>> endings;
  for (const auto& entry : split_list(list)) {
    auto equals = std::min(entry.find('='), entry.size());
    auto number = entry.substr(std::min(equals + 1, entry.size()));
    double weight = 1;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    bool is_weight = equals == entry.size() || (error == std::errc() && end == number.data() + number.size() && weight > 0 && weight < 1e9);
    if (!is_weight || !entry.starts_with('.') || equals < 2)
      config_error("data", "caption_extension '{}' is no ending like .txt, or .txt=3 with how often it is drawn", entry);
    endings.emplace_back(entry.substr(0, equals), weight);
  }
  if (endings.empty()) config_error("data", "caption_extension is empty; give the ending of the files with captions, .txt say");
  return endings;
}

std::string read_caption(const fs::path& file) {
  auto text = read_file_bytes(file);
  if (!is_utf8(text)) data_error("data", "the caption {} is not UTF-8; save the file in that encoding", file.string());
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return std::string(trim(text));
}

/// That of the object in a file; null where there is none.
nlohmann::json caption_in_json(const fs::path& file) {
  if (!is_file_there(file)) return nullptr;
  auto json = nlohmann::json::parse(read_caption(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) data_error("data", "{} is not a JSON object", file.string());
  for (const char* key : {"prompt", "caption", "text"}) {
    if (json.contains(key)) return json[key];
  }
  return nullptr;
}

/// The captions of a picture as its row has them; null where there is none.
nlohmann::json captions_beside(const fs::path& picture, const std::vector<std::pair<std::string, double>>& endings) {
  nlohmann::json list;
  for (const auto& [ending, weight] : endings) {
    auto file = fs::path(picture).replace_extension(ending);
    if (is_file_there(file)) list.push_back({{"text", read_caption(file)}, {"weight", weight}});
  }
  if (list.is_null()) return caption_in_json(fs::path(picture).replace_extension(".json"));
  return list.size() == 1 ? list[0]["text"] : list;
}

}  // namespace

Metadata load_captioned_folder(const fs::path& folder, const CaptionFiles& captions) {
  auto root = fs::canonical(folder);
  auto pictures = pictures_below(root);
  if (pictures.empty()) {
    data_error("data",
               "the folder {} holds no picture (.png, .jpg, .webp, .tiff, .heic, .avif, .jxl, .gif or .bmp); name a folder that does, or a "
               "metadata file",
               folder.string());
  }
  auto endings = parse_endings(captions.endings);
  Metadata m{.rows = {}, .columns = {"image", "prompt"}};
  std::vector<std::string> without_caption;
  std::set<fs::path> said;
  for (const auto& picture : pictures) {
    auto prompt = captions_beside(picture, endings);
    if (prompt.is_null() && captions.class_tokens.empty()) {
      without_caption.push_back(picture.filename().string());
      continue;
    }
    if (prompt.is_null()) prompt = captions.class_tokens;
    nlohmann::json row{{"image", picture.string()}, {"prompt", prompt}};
    auto folder_of = picture.parent_path();
    auto repeats = folder_of == root || folder_of == file_behind(picture) ? 1 : repeats_of(folder_of);  // 00000_of_00010.tar is no count
    if (repeats >= kRepeatsToSay && said.insert(picture.parent_path()).second)
      warn("the name of the folder {} asks for {} visits an epoch of each of its pictures; rename it if that is no count",
           picture.parent_path().string(), repeats);
    m.rows.insert(m.rows.end(), static_cast<size_t>(repeats), row);
  }
  if (!without_caption.empty()) {
    data_error("data", "{} of the {} pictures in {} have no caption; the first is {}, whose caption is looked for in {}",
               without_caption.size(), pictures.size(), folder.string(), without_caption[0],
               fs::path(without_caption[0]).replace_extension(endings.front().first).string());
  }
  return m;
}

}  // namespace burnish::data
