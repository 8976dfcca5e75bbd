#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "models/parts/find_components.h"

// LTX-2's single files hold the settings of all their parts as one JSON in their metadata, a section a part.
namespace burnish::models::ltx2 {

/// The key of the settings in the metadata.
inline const std::string kSettingsKey = "config";

/// Returns what files say of a part beside its tensors: the config.json beside them, or else the section of that name ("vae", "audio_vae",
/// "vocoder", "transformer") of the settings in the metadata; null where there is neither. Throws a data Error where what the metadata
/// holds under "config" is no JSON.
nlohmann::json settings_of(const Source& source, const std::string& section);

/// Reads a part's configuration by `of` from its settings and shapes; a data Error of it begins with where the part lies. `otherwise` where
/// the files hold no such part.
template <class Config>
Config read_settings(const Source& source, const std::string& section, Config (*of)(const nlohmann::json&, const io::Shapes&),
                     const Config& otherwise = {}) {
  if (!source.entry) return otherwise;
  return naming(source.entry->label, [&] { return of(settings_of(source, section), source.shapes()); });
}

}  // namespace burnish::models::ltx2
