#pragma once
#include <array>
#include <memory>
#include <set>
#include <string>

#include "train/options.h"

namespace burnish::train {

class Objective;
struct Input;
struct ObjectiveSettings;
struct Subject;

/// A value that an objective draws for a visit, beside noise, what draws latents, and the time.
struct Drawn {
  std::string name;
  bool is_noise = false;  ///< of the shape of latents; otherwise a whole number
};

/// An objective as options speak of it, defined in the file of the objective.
struct ObjectiveKind {
  std::string word;                        ///< what the task names before its stage
  std::vector<std::string> columns = {};   ///< of the metadata, beside picture and caption, in the words of --help
  std::vector<std::string> pictures = {};  ///< those that name a further picture of the sample; units read it by the column's name
  std::vector<Drawn> drawn = {};
  std::vector<Input> (*inputs)() = nullptr;  ///< what else its units read of a sample (train/inputs.h)
  bool imports_diffsynth = false;            ///< whether a cache of DiffSynth-Studio holds what it reads
  /// Its own options, whose values are in TrainOptions::objective. One that several objectives have is the same in each.
  std::vector<models::Option> options = {};
  /// Refuses options that mean nothing to it, or that contradict it.
  void (*check)(const TrainOptions&) = nullptr;
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

/// The words of the objectives that have an option of this name; none where it is no objective's own.
std::vector<std::string> objectives_with(const std::string& option);

/// The options that choose an objective and those of single ones.
void objective_fields(config::Fields& f, TrainOptions& o);

/// That which the task names; a config Error for an unknown word.
const ObjectiveKind& objective_of(const TrainOptions& o);
bool is_sft(const TrainOptions& o);
/// Whether the task is more than a stage of split training.
bool is_whole(const TrainOptions& o);

/// The one of extra_inputs whose pictures are references to the model; "" when it names none.
std::string reference_column(const TrainOptions& o);

/// Those of extra_inputs that the model reads under their own names (models::ExtraInput).
std::set<std::string> extra_columns(const TrainOptions& o);

/// Refuses options that mean nothing to the objective, or that contradict it.
void check_objective(const TrainOptions& o);

/// What of the objective decides what is learned, as ", words"; "" for plain fine-tuning.
std::string objective_fingerprint(const TrainOptions& o);

}  // namespace burnish::train
