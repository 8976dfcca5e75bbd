#pragma once
#include <array>
#include <memory>
#include <set>
#include <string>

#include "config/fields.h"
#include "models/registry.h"
#include "train/samples/inputs.h"
#include "train/subject/settings.h"

namespace burnish::train {

class Objective;
struct ObjectiveSettings;
struct Subject;

/// A value that an objective draws for a visit, beside noise, what draws latents, and the time.
struct Drawn {
  std::string name;
  bool is_noise = false;  ///< whether it has the shape of latents; otherwise it is a number
};

/// A condition that must hold for an objective's own option to decide anything.
struct OwnCondition {
  std::string option;
  std::string belongs_to;  ///< the condition in words
  bool (*counts)(const models::OptionValues& own);
};

/// The options of a run that an objective looks at before it agrees to them.
struct RunForObjective {
  const models::OptionValues& own;  ///< values of ObjectiveKind::options
  bool augments = false;            ///< whether pictures are seen otherwise than they are
  bool draws_latents = false;       ///< whether latents are drawn from the autoencoder's distribution
  bool replays = false;             ///< whether draws are recorded ones
  double noise_offset = 0;
  std::string loss_type;    ///< word of the loss (robust_loss.h)
  bool is_weighed = false;  ///< whether options weigh losses by time, other than uniformly
  bool has_masks = false;
  bool validates = false;                              ///< whether held-out samples are judged
  bool names_data = false;                             ///< whether samples are named, of which a run may need none
  bool has_class_set = true, has_trigger_word = true;  ///< as far as options say; of a cache its list says it
};

/// The share of a run that one of several things has which it learns: the run has its datasets once for each of them.
struct Share {
  double loss_weight = 1;   ///< factor on the loss of its samples
  double num_repeats = 1;   ///< visits of each of its samples, for one of a thing that has 1
  std::string prompt = {};  ///< the caption of its samples where a run goes without pictures
};

/// The way in which pictures are to be drawn with what an objective trained, where that is not the model's own.
struct DrawnBy {
  std::string sampler = "default";  ///< diffusion::SamplerOptions::name
  std::vector<double> times = {};   ///< where each step begins and the last one ends; none: the model's own
};

/// The functions of an objective that says nothing else: it reads no further inputs of a sample, learns one thing, from pictures, agrees to
/// every run, has no options that a fingerprint would name and no further models, and pictures are drawn as the model has it.
namespace plain {
std::vector<Input> inputs(const models::OptionValues& own);
bool needs_pictures(const models::OptionValues& own);
std::vector<Share> shares(const models::OptionValues& own);
void check(const RunForObjective& run);
std::string fingerprint(const models::OptionValues& own);
std::vector<Companion> companions(const models::OptionValues& own, bool trains_whole);
DrawnBy drawn_by(const models::OptionValues& own);
}  // namespace plain

/// An objective as options speak of it, defined in the file of the objective.
struct ObjectiveKind {
  std::string word;                        ///< the word that the task names before its stage
  bool is_named = true;                    ///< whether fingerprints name it by its word; the first objective's had none
  std::vector<std::string> columns = {};   ///< metadata columns beside picture and caption, in the words of --help
  std::vector<std::string> pictures = {};  ///< the columns that name a further picture of the sample; units read it by the column's name
  std::vector<Drawn> drawn = {};
  bool draws_times = false;      ///< whether it draws each sample a time of its own
  bool draws_itself = false;     ///< whether it learns from pictures that the run draws (Objective::rounds)
  bool counts_masks = false;     ///< whether its loss counts elements by a sample's mask
  bool takes_strengths = false;  ///< whether datasets may be seen at strengths of what is learned other than 1 (slider_strength)
  /// Makes the further inputs that its units read of a sample (train/samples/inputs.h), from values of options.
  std::vector<Input> (*inputs)(const models::OptionValues& own) = plain::inputs;
  /// Tells whether samples are pictures; where not, a run goes without any, at the sizes that are asked for.
  bool (*needs_pictures)(const models::OptionValues& own) = plain::needs_pictures;
  /// Returns how the things that are learned share the samples, in the order in which each dataset stands for them.
  std::vector<Share> (*shares)(const models::OptionValues& own) = plain::shares;
  bool imports_diffsynth = false;  ///< whether a cache of DiffSynth-Studio holds the values that it reads
  /// The objective's own options. An option of several objectives is equal in each.
  std::vector<models::Option> options = {};
  std::vector<std::string> files = {};        ///< those of its options that name files
  std::vector<std::string> commands = {};     ///< those that name commands, which a file of settings may only do where it is trusted
  std::vector<OwnCondition> conditions = {};  ///< what single ones of them belong to
  /// Refuses options that mean nothing to it, or that contradict it.
  void (*check)(const RunForObjective& run) = plain::check;
  /// Names its own options that decide what is learned, in words that follow its word.
  std::string (*fingerprint)(const models::OptionValues& own) = plain::fingerprint;
  /// Names the models that it has beside the denoiser, which trains whole or under adapters.
  std::vector<Companion> (*companions)(const models::OptionValues& own, bool trains_whole) = plain::companions;
  /// Returns the way in which pictures are drawn with what it trained.
  DrawnBy (*drawn_by)(const models::OptionValues& own) = plain::drawn_by;
  std::unique_ptr<Objective> (*make)(const ObjectiveSettings& settings, const Subject& subject);
};

const ObjectiveKind& sft();
const ObjectiveKind& direct_distill();
const ObjectiveKind& dpo();
const ObjectiveKind& trajectory_imitation();
const ObjectiveKind& slider();
const ObjectiveKind& erase();
const ObjectiveKind& dmd2();
const ObjectiveKind& nft();

/// The objectives of this program, in the order of --help.
inline constexpr std::array kObjectives{sft, direct_distill, dpo, trajectory_imitation, dmd2, nft, slider, erase};

/// Return the options of all objectives, each once, and their values when none is given.
std::vector<models::Option> objective_options();
models::OptionValues default_objective_options();
/// Returns the words of the objectives that have an option of this name; none where it is no objective's own.
std::vector<std::string> objectives_with(const std::string& option);

/// Names the values that are not what these options have when none is given, as "name value".
std::string given_options(const std::vector<models::Option>& options, const models::OptionValues& own);

/// Returns the words of all objectives.
std::vector<std::string> objective_words();
/// Returns the columns that models read beside picture and caption, references first.
std::vector<std::string> columns_of_models();
/// Lists the options that choose an objective, and the options of single objectives.
void objective_fields(config::Fields& f, std::string& task, std::string& extra_inputs, models::OptionValues& own);

/// Makes the table of what units may read of a sample: inputs of every run, columns that families read, and what objectives with these
/// options read.
InputTable input_table(const models::OptionValues& own = default_objective_options());

}  // namespace burnish::train
