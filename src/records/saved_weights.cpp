#include "records/saved_weights.h"

#include <algorithm>

#include "base/input_error.h"
#include "base/number.h"

namespace burnish::records {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".safetensors";

/// "step-12" and "text_encoder" of step-12.text_encoder.safetensors; the part is "" in a file's name without one.
std::pair<std::string, std::string> stem_and_part(const std::string& file) {
  if (!file.ends_with(kEnding)) return {};
  auto name = file.substr(0, file.size() - std::string(kEnding).size());
  auto dot = name.find('.');
  return {name.substr(0, dot), dot == name.npos ? "" : name.substr(dot + 1)};
}

/// Returns how new what a run saved is: by its step; the best weights are taken ahead of the last. -1 for other names.
int64_t newness(const std::string& stem) {
  if (stem == "best") return INT64_MAX;
  if (!stem.starts_with("step-")) return -1;
  return parse_number<int64_t>(std::string_view(stem).substr(5)).value_or(-1);
}

}  // namespace

std::vector<SavedFile> newest_weights(const fs::path& run, const std::string& own_name) {
  const auto prefix = own_name.empty() ? "" : own_name + "-";
  std::vector<SavedFile> files;
  int64_t newest = -1;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run, failed)) {
    auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    auto [stem, part] = stem_and_part(name.substr(prefix.size()));
    auto age = newness(stem);
    if (age < 0 || age < newest) continue;
    if (age > newest) files.clear();
    newest = age;
    files.push_back({part, entry.path()});
  }
  std::ranges::sort(files, {}, [](const auto& file) { return std::pair(file.part, file.path); });
  if (files.empty()) data_error("records", "{} holds no weights that a run saved, {}step-100.safetensors say", run.string(), prefix);
  return files;
}

}  // namespace burnish::records
