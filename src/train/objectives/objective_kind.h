#pragma once
#include <array>
#include <memory>
#include <set>
#include <string>

#include "config/fields.h"
#include "models/family.h"
#include "train/samples/inputs.h"

namespace burnish::train {

class Objective;
struct ObjectiveSettings;
struct Subject;

/// A value that an objective draws for a visit, beside noise, what draws latents, and the time.
struct Drawn {
  std::string name;
  bool is_noise = false;  ///< of the shape of latents; otherwise a whole number
};

/// What an objective looks at of a run's options before it agrees to them.
struct RunForObjective {
  const models::OptionValues& own;  ///< ObjectiveKind::options
  bool augments = false;            ///< pictures are cut in several ways
  bool draws_latents = false;       ///< from the autoencoder's distribution
  bool replays = false;             ///< recorded draws
  double noise_offset = 0;
  std::string loss_type;    ///< robust_loss.h
  bool is_weighed = false;  ///< by time, in another way than uniformly, as the options say
};

/// An objective as options speak of it, defined in the file of the objective.
struct ObjectiveKind {
  std::string word;                        ///< what the task names before its stage
  std::vector<std::string> columns = {};   ///< of the metadata, beside picture and caption, in the words of --help
  std::vector<std::string> pictures = {};  ///< those that name a further picture of the sample; units read it by the column's name
  std::vector<Drawn> drawn = {};
  std::vector<Input> (*inputs)() = nullptr;  ///< what else its units read of a sample (train/samples/inputs.h)
  bool imports_diffsynth = false;            ///< whether a cache of DiffSynth-Studio holds what it reads
  /// Its own options. One that several objectives have is the same in each.
  std::vector<models::Option> options = {};
  /// Refuses options that mean nothing to it, or that contradict it.
  void (*check)(const RunForObjective&) = nullptr;
  /// Its own options that decide what is learned, in words that follow its word.
  std::string (*fingerprint)(const models::OptionValues&) = nullptr;
  std::unique_ptr<Objective> (*make)(const ObjectiveSettings&, const Subject&);
};

const ObjectiveKind& sft();
const ObjectiveKind& direct_distill();
const ObjectiveKind& dpo();
const ObjectiveKind& trajectory_imitation();

/// All of them, in the order of --help.
inline constexpr std::array kObjectives{sft, direct_distill, dpo, trajectory_imitation};

/// The options of all objectives, each once, and what they are when they are not given.
std::vector<models::Option> objective_options();
models::OptionValues default_objective_options();
/// The words of the objectives that have an option of this name; none where it is no objective's own.
std::vector<std::string> objectives_with(const std::string& option);

/// The words of all objectives.
std::vector<std::string> objective_words();
/// The columns that models read beside picture and caption, references first.
std::vector<std::string> columns_of_models();
/// The options that choose an objective, and those of single ones.
void objective_fields(config::Fields& f, std::string& task, std::string& extra_inputs, models::OptionValues& own);

/// What units may read of a sample: what every run has, the columns that families read, and what objectives read.
InputTable input_table();

}  // namespace burnish::train
