#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diffusion/process.h"
#include "io/key_map.h"
#include "models/extra_input.h"

namespace burnish::models {

/// Layer names of another program, each with our layers behind it; a fused layer has several, stacked in this order.
using LayerTable = std::map<std::string, std::vector<std::string>>;

/// What a file calls the tensors of a component.
struct FileNames {
  std::string prefix;
  io::KeyMap keys;
};

/// How files spell the layers of a component, before our paths in it.
struct LayerNames {
  std::string weights;    ///< in the component's own file: "text_model." for CLIP in transformers; "" mostly
  std::string diffusers;  ///< before that in adapter files of diffusers and peft: "transformer.", "unet.", "text_encoder."
  std::string kohya;      ///< before that, dots written as underscores, in kohya's adapter files: "lora_unet_", "lora_te1_"
  std::vector<std::string> others =
      {};                       ///< before our path, in adapter files of further programs; those with "_" at the end before underscores
  bool diffusers_alpha = true;  ///< whether diffusers' loader of this family takes files with `.alpha` under its own names
  bool comfyui_alpha = true;    ///< whether those who read ComfyUI's names of this family take `.alpha` there
  std::string comfyui = {};     ///< before `weights` and our path in ComfyUI's adapter files; "" where a table says its names, or none
  std::optional<std::string> diffsynth = {};  ///< the same in DiffSynth-Studio's; none where a table says its names, or none
};

/// What the layers of a component are called, and which are meant when the user names none.
struct ComponentNames {
  LayerNames layers;
  /// Adapter targets when the user names none (see adapters::match_targets).
  std::string lora_targets = "all-linear";
  /// Regular expressions for the paths of linear layers that stay parameters when a component's weights are stored as codes: those
  /// that embed, modulate, and come first and last. (Norms, biases and tables are no linear weights and always stay.)
  std::vector<std::string> high_precision = {};
  /// Paths below which parameters get no gradient, however the component trains: what training does not run, and layers behind the one
  /// whose states are read.
  std::vector<std::string> without_gradient = {};
  /// Our layers behind a layer name of another program that is not `layers` and our path; a fused layer has several, stacked in this order.
  LayerTable foreign_layers = {};
  /// Those of `foreign_layers` whose rows stand the second half first.
  std::set<std::string> swapped_halves = {};
  /// Names of `foreign_layers` with every layer of ours behind one of them, by the adapter format that is written in them: "kohya",
  /// "comfyui", "diffsynth". A format without a table is written in our paths behind `layers`.
  std::map<std::string, LayerTable> written = {};
  /// The component's tensors in its folder of a diffusers pipeline, and in a single file that holds the whole model.
  FileNames folder_file = {}, single_file = {};
  /// Layers, by our paths, that other programs' files may adapt, and that this model does not run.
  std::set<std::string> not_run = {};
  /// The names by which adapter targets know a layer (see adapters::AliasesOf); null for its path alone.
  std::vector<std::string> (*aliases)(const std::string& path) = nullptr;

  /// An entry of `foreign_layers`; none when the name means nothing in this component.
  std::vector<std::string> foreign_layer(const std::string& name) const;
  /// What `aliases` says of a path; none without it.
  std::vector<std::string> target_names(const std::string& path) const;
};

/// Names of a component whose layers have our paths below its name in every file.
ComponentNames plain_names(const std::string& component);

/// What others than the units that write and read a value have to know of it.
struct ValueNames {
  std::vector<int64_t> shape = {};  ///< sizes that the denoiser takes, -1 where any will do; none: not checked
  std::string diffsynth = {};       ///< what DiffSynth-Studio calls it in the caches it writes; "" where those have it not
  bool of_prompt = false;           ///< a negative prompt replaces it under classifier-free guidance
  bool padded = false;              ///< samples of a batch differ in its length: see pipeline::join
};

/// A component that predicts, and where on the way from noise to pictures it does.
struct Expert {
  std::string component;
  std::string name = {};  ///< what users and files call it: "high_noise"; "" of the only one of a model
  diffusion::Stretch stretch = {};
};

/// The number of the expert that a batch is for, among those of the model: a value that units of models with several read, without
/// dimensions.
inline const std::string kExpert = "expert";

/// Every table of names of a model: plain data that its family fills in when the model is opened.
struct Names {
  std::string family;           ///< the folder's name
  std::string variant;          ///< "FLUX.1-dev" and the like, for people and for file metadata
  std::vector<Expert> experts;  ///< in the order in which a walk from noise comes by them; their stretches cover the way
  std::map<std::string, ComponentNames> components;  ///< of every component that the units may run
  std::map<std::string, ValueNames> values;          ///< of those values of which there is something to say
  std::string reference_column = {};                 ///< of metadata, whose pictures units read as reference_images; "" where none does
  std::vector<ExtraInput> extra_inputs = {};         ///< further columns of metadata that its units read
  std::string expected_references = {};              ///< the same column of a model that was trained with such pictures; "" for others
  std::vector<std::string> marks;                    ///< names of tensors by which single files say how the model predicts
  bool zeros_for_no_prompt = false;  ///< whether the prompt values of an empty negative prompt are zeros, and not those of the empty text

  bool is_denoiser(const std::string& component) const { return expert_of(component) != nullptr; }
  /// The expert that is this component; null for others.
  const Expert* expert_of(const std::string& component) const;
  /// The components that predict.
  std::vector<std::string> denoisers() const;
  /// The number of the expert that predicts at a share of the way from no noise (0) to noise alone (1).
  size_t expert_at(double share) const;
  /// Whether a parameter gets no gradient in any run, by its name "component.path".
  bool is_without_gradient(const std::string& parameter) const;
  /// Of a component or one of its parts; std::logic_error when the family declares no such component.
  const ComponentNames& of(const std::string& component) const;

  // Columns of `values`, without the values of which they say nothing.

  std::map<std::string, std::vector<int64_t>> shapes() const;
  std::map<std::string, std::string> diffsynth_values() const;
  std::vector<std::string> prompt_values() const;
  std::set<std::string> padded_values() const;
};

}  // namespace burnish::models
