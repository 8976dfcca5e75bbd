#include "records/saved_weights.h"

#include <algorithm>
#include <map>

#include "base/input_error.h"
#include "base/number.h"

namespace burnish::records {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".safetensors";
constexpr int64_t kBest = INT64_MAX;

/// "step-12" and "text_encoder" of step-12.text_encoder.safetensors; the part is "" in a file's name without one.
std::pair<std::string, std::string> stem_and_part(const std::string& file) {
  if (!file.ends_with(kEnding)) return {};
  auto name = file.substr(0, file.size() - std::string(kEnding).size());
  auto dot = name.find('.');
  return {name.substr(0, dot), dot == name.npos ? "" : name.substr(dot + 1)};
}

/// Returns how new what a run saved is: by its step; the best weights are taken ahead of the last. -1 for other names.
int64_t newness(const std::string& stem) {
  if (stem == "best") return kBest;
  if (!stem.starts_with("step-")) return -1;
  return parse_number<int64_t>(std::string_view(stem).substr(5)).value_or(-1);
}

/// Every file of weights of a run with how new it is.
std::vector<std::pair<int64_t, SavedFile>> all_weights(const fs::path& run, const std::string& own_name) {
  const auto prefix = own_name.empty() ? "" : own_name + "-";
  std::vector<std::pair<int64_t, SavedFile>> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run, failed)) {
    auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    auto [stem, part] = stem_and_part(name.substr(prefix.size()));
    if (const auto age = newness(stem); age >= 0) files.push_back({age, {part, entry.path()}});
  }
  if (files.empty()) data_error("records", "{} holds no weights that a run saved, {}step-100.safetensors say", run.string(), prefix);
  return files;
}

}  // namespace

std::vector<SavedFile> newest_weights(const fs::path& run, const std::string& own_name) {
  const auto all = all_weights(run, own_name);
  const auto newest = std::ranges::max(all, {}, [](const auto& file) { return file.first; }).first;
  std::vector<SavedFile> files;
  for (const auto& [age, file] : all) {
    if (age == newest) files.push_back(file);
  }
  std::ranges::sort(files, {}, [](const auto& file) { return std::pair(file.part, file.path); });
  return files;
}

std::vector<Save> find_saves(const fs::path& run, const std::string& own_name) {
  std::map<int64_t, std::vector<fs::path>> by_step;
  for (const auto& [age, file] : all_weights(run, own_name)) {
    if (age != kBest) by_step[age].push_back(file.path);
  }
  if (by_step.empty())
    data_error("records", "{} holds the best weights of a run and none that it saved by step; --save_steps saves them", run.string());
  std::vector<Save> saves;
  for (auto& [step, files] : by_step) {
    std::ranges::sort(files);
    saves.push_back({step, std::move(files)});
  }
  return saves;
}

}  // namespace burnish::records
