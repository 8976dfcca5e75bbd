#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/best_options.h"
#include "judging/verdict.h"
#include "records/saved_weights.h"

namespace burnish::app {

/// A run whose saves were judged.
struct JudgedRun {
  std::vector<judging::Judged> ranked;  ///< best first
  std::vector<records::Save> saves;     ///< their files, by rising step
  std::optional<judging::Overfitting> overfitting;
  std::string seen_by;                          ///< what looked at previews; "": nothing did
  std::vector<std::filesystem::path> training;  ///< the training pictures that previews were compared with
  int64_t num_held_out = 0;                     ///< held-out pictures that they were compared with
  double copies_from = 0;                       ///< likeness from which on a preview is a copy
  std::vector<std::string> missing;             ///< what could be measured and is not there, in sentences
};
/// Judges the saves of a run; a data Error where it saved nothing, or there is nothing by which they could be told apart.
JudgedRun judge(const BestOptions& options);

/// Says all of it for people.
std::string text_of(const JudgedRun& judged, const std::filesystem::path& run);
/// Says the same for programs: {"take", "why", "overfitting", "seen_by", "copies_from", "missing", "saves": [...]}, best save first.
nlohmann::json json_of(const JudgedRun& judged);

}  // namespace burnish::app
