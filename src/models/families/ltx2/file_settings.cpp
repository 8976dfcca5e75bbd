#include "models/families/ltx2/file_settings.h"

#include "base/input_error.h"

namespace burnish::models::ltx2 {

nlohmann::json settings_of(const Source& source, const std::string& section) {
  if (!source.entry) return nullptr;
  if (!source.entry->config.is_null() || !source.tensors) return source.entry->config;
  const auto& metadata = source.tensors->metadata();
  const auto found = metadata.find(kSettingsKey);
  if (found == metadata.end()) return nullptr;
  const auto all = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object())
    data_error("models", "the metadata of {} has settings under \"config\" that are no JSON object; fetch the file again, it is damaged",
               source.entry->label);
  const auto part = all.find(section);
  return part == all.end() ? nlohmann::json() : *part;
}

}  // namespace burnish::models::ltx2
