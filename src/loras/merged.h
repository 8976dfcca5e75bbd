#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "loras/layer_strengths.h"
#include "models/registry.h"

namespace burnish::loras {

/// A LoRA file and the strength at which it is merged, with factors on it for some of its layers.
struct LoraFile {
  std::string path;
  double strength = 1;
  LayerStrengths layers = {};
};

/// Reads "file", "file:strength", "file:strength:layers" or "file:layers"; what follows the last colon of an existing file's name, or is
/// neither a number nor LayerStrengths, belongs to the name.
LoraFile parse_lora_file(const std::string& text);
/// Writes what parse_lora_file reads.
std::string text_of(const LoraFile& file);

/// Options of which adapters of files are merged.
struct MergeOptions {
  /// The components that are merged into; none takes all that the files adapt.
  std::vector<std::string> components = {};
  /// Tells whether a file may adapt components that are not among the model's files, as where only a part of the model takes part.
  bool may_lack_components = false;
};

/// The adapters of files, which are merged into the model's weights whenever they are read (models::Components::set_merge), one file after
/// the other, in fp32 (adapters::merge_into); a file at strength 0, or a layer at factor 0, is not merged. Of a pair of files for two
/// experts
/// ("x_high_noise.safetensors", "x_low_noise.safetensors") one may be named for both.
class Merged {
 public:
  /// Merges them at their own strengths. A data Error for a LoRA of another model, a config Error for a component that none of the files
  /// adapts; by headers alone. The model must outlive it, and keeps what is merged when this is gone.
  Merged(models::Model& model, const std::vector<LoraFile>& files, const MergeOptions& options = {});
  ~Merged();
  Merged(const Merged&) = delete;
  Merged& operator=(const Merged&) = delete;

  /// The strengths of the files that were named, in their order.
  const std::vector<double>& strengths() const { return strengths_; }
  /// Merges them at other strengths, one for each file that was named. Layers that are loaded are read anew, so that no bit of them depends
  /// on what was merged before.
  void set_strengths(const std::vector<double>& strengths);

 private:
  struct Read;
  void apply();

  models::Model& model_;
  std::vector<double> strengths_;
  std::vector<Read> read_;  ///< in the order in which they are merged
};

/// Merges files once and for all.
void merge(models::Model& model, const std::vector<LoraFile>& files, const MergeOptions& options = {});

/// Tells whether anything is merged into the model.
bool has_merged(models::Model& model);

/// Runs `fn` with all that was merged taken out of the model: what is loaded there is as its own files have it, but for weights that train.
/// For that the merged layers are read anew before and after, one at a time, so that no bit of them depends on it.
void without_merged(models::Model& model, const std::function<void()>& fn);

}  // namespace burnish::loras
