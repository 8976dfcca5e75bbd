#include "data/captioned_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 4> kEndings{".png", ".jpg", ".jpeg", ".webp"};
constexpr int kMostRepeats = 10000;

bool is_picture(const fs::directory_entry& entry) {
  auto ending = entry.path().extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return entry.is_regular_file() && std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

std::vector<fs::path> pictures_below(const fs::path& folder) {
  std::vector<fs::path> pictures;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (is_picture(*it)) pictures.push_back(it->path());
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

}  // namespace

Metadata load_captioned_folder(const fs::path& folder) {
  auto root = fs::canonical(folder);
  auto pictures = pictures_below(root);
  if (pictures.empty()) {
    data_error("data", "the folder {} holds no picture (.png, .jpg, .jpeg or .webp); name a folder that does, or a metadata file",
               folder.string());
  }
  Metadata m{.rows = {}, .columns = {"image", "prompt"}};
  std::vector<std::string> without_caption;
  std::set<fs::path> said;
  for (const auto& picture : pictures) {
    auto caption_file = fs::path(picture).replace_extension(".txt");
    if (!io::is_there(caption_file)) {
      without_caption.push_back(picture.filename().string());
      continue;
    }
    auto text = io::read_text(caption_file);
    if (!is_utf8(text)) data_error("data", "the caption {} is not UTF-8; save the file in that encoding", caption_file.string());
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    nlohmann::json row{{"image", picture.string()}, {"prompt", std::string(trim(text))}};
    auto repeats = picture.parent_path() == root ? 1 : repeats_of(picture.parent_path());
    if (repeats >= kRepeatsToSay && said.insert(picture.parent_path()).second)
      warn("the name of the folder {} asks for {} visits an epoch of each of its pictures; rename it if that is no count",
           picture.parent_path().string(), repeats);
    m.rows.insert(m.rows.end(), static_cast<size_t>(repeats), row);
  }
  if (!without_caption.empty()) {
    data_error("data", "{} of the {} pictures in {} have no caption; the first is {}, whose caption is looked for in {}",
               without_caption.size(), pictures.size(), folder.string(), without_caption[0],
               fs::path(without_caption[0]).replace_extension(".txt").string());
  }
  return m;
}

}  // namespace burnish::data
