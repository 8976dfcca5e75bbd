#pragma once
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "data/dataset.h"
#include "models/model/latent_space.h"
#include "models/model/names.h"
#include "pipeline/labels.h"

namespace burnish::train {

/// A sample of a training run, as far as the run needs to know it.
struct SampleInfo {
  int64_t row = 0;
  Extent extent;
  std::string prompt = {};                                ///< the caption where none is drawn
  data::Captions captions = {};                           ///< the captions from which one is drawn
  nlohmann::json columns = nlohmann::json::object();      ///< further columns of the metadata, by name
  std::string file = {};                                  ///< the picture that the sample was made from; "" when that is not known
  std::map<std::string, std::string> further_files = {};  ///< further pictures of the sample, by the column that names them
  std::vector<int64_t> latent_shape = {};                 ///< shape of the latents without the batch: [C, h, w]
  double loss_weight = 1;                                 ///< the sample's own factor on its loss
  size_t set = 0;                                         ///< number of the run's dataset that the sample belongs to
  /// The extents at which the denoiser sees pictures that have sizes of their own, by column.
  std::map<std::string, std::vector<Extent>> picture_extents = {};
  /// The shapes of further streams' latents, by stream; of a stream that the sample lacks they are without elements (LatentSpace::Stream).
  std::map<std::string, std::vector<int64_t>> further_latents = {};
  std::string trigger_word = {};  ///< the word in its captions for what is learned; "": none
};

/// Returns the shape of a stream's latents of a sample, without the batch.
const std::vector<int64_t>& shape_of(const SampleInfo& sample, const std::string& stream);
/// Tells whether a sample's row has something in a further column: a picture, or a cell that is not empty.
bool has_column(const SampleInfo& sample, const std::string& column);

/// The column of a further picture or clip that an objective reads, cut as the sample's own.
Column further_picture(const std::string& name);

/// The variant and the caption that a visit takes of a sample.
struct Pick {
  int64_t row = 0;
  int64_t variant = 0;                      ///< number of the way in which the picture is cut
  bool empty_caption = false;               ///< whether the empty caption stands in place of the sample's
  std::optional<std::string> caption = {};  ///< the caption that was drawn, where captions vary
};

/// A sample in one of its ways, as units are to see it. Without a sample it is the empty caption alone.
struct View {
  const SampleInfo* sample = nullptr;
  const data::Dataset* pictures = nullptr;  ///< null when the sample comes from a cache
  int64_t variant = 0;
  bool empty_caption = false;
  std::string picture_hash = {};                           ///< hash of the picture's file; needed for `Input::content` alone
  std::map<std::string, std::string> further_hashes = {};  ///< hashes of the files beside it, by column
  std::optional<std::string> caption = {};                 ///< the caption that is drawn for a visit
  const Columns* columns = nullptr;                        ///< columns that its run reads, of a sample without its picture
};

/// A value that every sample gives to units: they may read it, no unit writes it and nobody draws it.
struct Input {
  std::string name;
  bool in_list = false;  ///< whether a cache's list of samples has it too; the others need the picture
  /// Names the content: what is made of equal contents is computed once. "" when the view has no such value.
  std::function<std::string(const View&)> content;
  /// Loads the value, with a leading dimension of 1; pictures as bytes (train/samples/pixels.h). For a sample without its picture it gives
  /// a value of the right shape.
  std::function<pipeline::Value(const View&)> load;
  bool follows_caption = false;  ///< whether it is another where another caption is drawn
  std::string option = {};       ///< the option of a run that it is made of as well; "": none is
};

/// Returns the caption that a view has, whether or not the empty one takes its place.
const std::string& caption_of(const View& view);

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
/// the expert that predicts at that time, and what says how the visit counts.
inline const std::set<std::string> kDrawn{"noise",     "sigma",     "timestep",      "latent_noise", models::kExpert,
                                          kLossWeight, kOfClassSet, kSliderStrength, kPhase};
/// The names of draws that every stream of latents has for itself.
inline const std::set<std::string> kDrawnByStream{"noise", "start_noise"};

}  // namespace burnish::train
