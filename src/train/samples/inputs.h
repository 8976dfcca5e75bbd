#pragma once
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "data/dataset.h"
#include "models/extra_input.h"
#include "models/latent_space.h"
#include "models/names.h"
#include "pipeline/labels.h"

namespace burnish::train {

/// A sample of a training run, as far as the run needs to know it.
struct SampleInfo {
  int64_t row = 0;
  Extent extent;
  std::string prompt = {};                                ///< its caption where none is drawn
  data::Captions captions = {};                           ///< what its caption is drawn from
  nlohmann::json columns = nlohmann::json::object();      ///< further columns of the metadata, by name
  std::string file = {};                                  ///< the picture it was made from; "" when that is not known
  std::map<std::string, std::string> further_files = {};  ///< pictures beside it, by the column that names them
  std::vector<int64_t> latent_shape = {};                 ///< without the batch: [C, h, w]
  double loss_weight = 1;                                 ///< its own factor on its loss
  size_t set = 0;                                         ///< which of the run's datasets it is of
  /// The extents of its pictures of sizes of their own as the denoiser sees them, by column.
  std::map<std::string, std::vector<Extent>> picture_extents = {};
  /// The shapes of further streams' latents, by stream; without elements of one that it lacks (models::LatentSpace::Stream).
  std::map<std::string, std::vector<int64_t>> further_latents = {};
};

/// The shape of a stream's latents of a sample, without the batch.
const std::vector<int64_t>& shape_of(const SampleInfo& sample, const std::string& stream);
/// Whether a sample's row has something in a further column: a picture, or a cell that is not empty.
bool has_column(const SampleInfo& sample, const std::string& column);

/// What a visit takes of a sample.
struct Pick {
  int64_t row = 0;
  int64_t variant = 0;                      ///< which way of cutting the picture
  bool empty_caption = false;               ///< the empty caption in place of the sample's
  std::optional<std::string> caption = {};  ///< the one that was drawn for it, where captions vary
};

/// A sample in one of its ways, as units are to see it. Without a sample it is the empty caption alone.
struct View {
  const SampleInfo* sample = nullptr;
  const data::Dataset* pictures = nullptr;  ///< null when the sample comes from a cache
  int64_t variant = 0;
  bool empty_caption = false;
  std::string picture_hash = {};                           ///< of the picture's file; needed for `Input::content` alone
  std::map<std::string, std::string> further_hashes = {};  ///< likewise of the files beside it, by column
  std::optional<std::string> caption = {};                 ///< that is drawn for a visit
};

/// A value that every sample gives to units: what units may read that no unit writes and nobody draws.
struct Input {
  std::string name;
  bool in_list = false;  ///< a cache's list of samples has it too; the others need the picture
  /// Names the content: what is made of equal contents is computed once. "" when the view has no such value.
  std::function<std::string(const View&)> content;
  /// The value, with a leading dimension of 1; pictures as bytes (train/samples/pixels.h). Of a sample without its picture, one of the
  /// right shape.
  std::function<pipeline::Value(const View&)> load;
};

/// What units may read of a sample, and what comes with a visit: made once, of what every run has, what families read and what objectives
/// read.
class InputTable {
 public:
  /// `columns`: that families read as they are. `pictures`: columns that name a further picture, cut as the sample's own. `further`: what
  /// else objectives read of a sample, and `drawn` what they draw for a visit beside kDrawn.
  InputTable(const std::vector<models::ExtraInput>& columns, const std::vector<std::string>& pictures, std::vector<Input> further,
             std::set<std::string> drawn);

  std::span<const Input> rows() const { return rows_; }
  /// The input of that name, or null.
  const Input* find(const std::string& name) const;
  /// The labels of all that units may read and no unit writes: inputs and draws. Where captions vary, a prompt is another at each visit,
  /// and like noise known before it.
  std::map<std::string, pipeline::Labels> labels(bool captions_vary = false) const;

 private:
  std::vector<Input> rows_;
  std::set<std::string> drawn_;
};

/// Values that come with a visit of every objective: noise and what draws it, the time by the names that processes give it, and which
/// expert predicts at that time.
inline const std::set<std::string> kDrawn{"noise", "sigma", "timestep", "latent_noise", models::kExpert};
/// The names of draws that every stream of latents has for itself.
inline const std::set<std::string> kDrawnByStream{"noise", "start_noise"};

}  // namespace burnish::train
