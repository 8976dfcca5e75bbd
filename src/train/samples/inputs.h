#pragma once
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "models/model/latent_space.h"
#include "models/model/names.h"
#include "pipeline/labels.h"
#include "train/samples/samples.h"

namespace burnish::train {

/// The column of a further picture or clip that an objective reads, cut as the sample's own.
Column further_picture(const std::string& name);
/// Adds the column of masks that options mean: gray pictures that `column` names ("column"), the target's opacity ("alpha"), or none.
void add_masks(Columns& columns, const std::string& from, const std::string& column);

/// A value that every sample gives to units: they may read it, no unit writes it and nobody draws it.
struct Input {
  std::string name;
  bool in_list = false;  ///< whether a cache's list of samples has it too; the others need the picture
  /// Names the content: what is made of equal contents is computed once. "" when the pick has no such value. The hashes of the row's files
  /// are needed where in_list is false.
  std::function<std::string(const Samples&, const Pick&, const data::RowHashes&)> content;
  /// Loads the value, with a leading dimension of 1; pictures as bytes (train/samples/pixels.h). For a sample without its picture it gives
  /// a value of the right shape.
  std::function<pipeline::Value(const Samples&, const Pick&)> load;
  bool follows_caption = false;  ///< whether it is another where another caption is drawn
  std::string option = {};       ///< the option of a run that it is made of as well; "": none is
};

/// The values that units may read of a sample, and those that come with a visit. The table is made once, of what every run has, what
/// families read and what objectives read.
class InputTable {
 public:
  /// `columns` are those that families read as they are, `pictures` those that name a further picture, cut as the sample's own. `further`
  /// is what else objectives read of a sample, and `drawn` what they draw for a visit beside kDrawn.
  InputTable(const Columns& columns, const std::vector<std::string>& pictures, std::vector<Input> further, std::set<std::string> drawn);

  std::span<const Input> rows() const { return rows_; }
  /// Returns the input of that name, or null.
  const Input* find(const std::string& name) const;
  /// Returns the labels of all that units may read and no unit writes: inputs and draws. Where captions vary, a prompt is another at each
  /// visit, and like noise it is known before the visit.
  std::map<std::string, pipeline::Labels> labels(bool captions_vary = false) const;

 private:
  std::vector<Input> rows_;
  std::set<std::string> drawn_;
};

/// The name, among the draws of every batch, of the factor on the loss of each of its samples [B]: the sample's own factor times what the
/// objective makes of its draws.
inline const char* const kLossWeight = "loss_weight";
/// The name, among the draws of a batch, of what says which of its samples are of a class set [B]: 1, and 0 for others.
inline const char* const kOfClassSet = "of_class_set";

/// The name, among the draws of a batch, of the strength of what is learned at which its samples are seen: a number without dimensions.
inline const char* const kSliderStrength = "slider_strength";

/// The name, among the draws of a batch, of what says of which kind its step is, where an objective takes steps of several: a number
/// without dimensions.
inline const char* const kPhase = "phase";

/// The names of values that come with a visit of every objective: noise and what draws it, the time by the names that processes give it,
/// the expert that predicts at that time, which frames are given, and what says how the visit counts.
inline const std::set<std::string> kDrawn{"noise",
                                          "sigma",
                                          "timestep",
                                          "latent_noise",
                                          models::kExpert,
                                          models::kGivesFirst,
                                          models::kGivesLast,
                                          models::kGivesWithin,
                                          kLossWeight,
                                          kOfClassSet,
                                          kSliderStrength,
                                          kPhase};
/// The names of draws that every stream of latents has for itself.
inline const std::set<std::string> kDrawnByStream{"noise", "start_noise", "matching_noise", "step_noise"};
/// The names of draws that every stream has for itself and that depend on what trains: a picture that the run drew, and what the policy
/// that drew it predicts of it under noise.
inline const std::set<std::string> kLearnedByStream{"drawn_picture", "old_prediction"};

}  // namespace burnish::train
