#pragma once
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diffusion/process.h"
#include "io/key_map.h"
#include "models/files.h"
#include "nn/block.h"
#include "nn/weight_source.h"
#include "pipeline/unit.h"

namespace burnish::models {

/// What a run asks of a model beyond its files.
struct ModelOptions {
  c10::ScalarType dtype = c10::ScalarType::BFloat16;  ///< of the denoiser and the text encoders; autoencoders stay fp32
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::string tokenizer_path, tokenizer_2_path;  ///< folders; "" takes those beside the model
  int64_t max_sequence_length = 0;               ///< of the long text encoder; 0 takes min(512, its tokenizer's limit)
  double embedded_guidance = 1.0;
  std::string prediction_type = "";  ///< of models with discrete timesteps: epsilon, v_prediction; "" as their files say
  bool zero_terminal_snr = false;    ///< the last timestep is noise alone, whatever their files say
  int64_t clip_skip = 0;             ///< layer, counted from the last (1), whose output is CLIP's embedding; 0 is the model's own
  int64_t max_token_length = 0;      ///< CLIP tokens of a prompt: a multiple of 75; 0 takes 75
  std::string latents = "mean";      ///< of the autoencoder's distribution, or "sample": drawn at every visit
  std::string init = "pretrained";   ///< "random" builds the denoiser from its config.json and a seed
  uint64_t seed = 0;
};

/// One loadable part of a model ("dit", "vae", "text_encoder").
struct Component {
  std::string name;
  std::string origin;  ///< the files it comes from, for messages
  int64_t num_bytes;   ///< of its weights as they will be held
  /// Linear layers whose weights will be held as codes, and as parameters; of what is held as codes, the share of all numbers.
  int64_t num_stored = 0, num_kept = 0;
  double stored_share = 0;
};

/// Everything beside its inputs that decides what a component computes.
struct Provenance {
  std::vector<std::filesystem::path> files;  ///< weights and vocabularies
  std::string settings;                      ///< config.json, dtype, and options that reach the result
};

/// How files spell the layers of a component, before our paths in it.
struct LayerNames {
  std::string weights;          ///< in the component's own file: "text_model." for CLIP in transformers; "" mostly
  std::string diffusers;        ///< before that in adapter files of diffusers and peft: "transformer.", "unet.", "text_encoder."
  std::string kohya;            ///< before that, dots written as underscores, in kohya's adapter files: "lora_unet_", "lora_te1_"
  bool diffusers_alpha = true;  ///< whether diffusers' loader of this family takes files with `.alpha` under its own names
};

/// The component that a part belongs to: what stands before the first dot.
using pipeline::component_of;

/// The units of a family, grouped by what a run puts together. Values they share are named the same in every family:
/// prompt (text), image [B,3,H,W] in [-1,1], latents, noise and latent_noise [B,C,h,w], the process's time [B] fp32 by its name (sigma or
/// timestep), noisy, target, prediction, loss [B] (one unweighted loss a sample, fp32), and size_conditioning [B,6] fp32: height and width
/// of the picture before it was cut, top and left of the cut, height and width of what is trained or drawn.
struct UnitGroups {
  pipeline::Units encode_prompt;  ///< prompt -> what the denoiser reads of it
  pipeline::Units encode_image;   ///< image (and latent_noise) -> latents: latent_units()
  pipeline::Units encode_size;    ///< size_conditioning -> what the denoiser reads of it; none where it reads nothing
  pipeline::Units add_noise;      ///< latents, noise, time -> noisy, target
  pipeline::Units denoise;        ///< noisy, time, prompt values -> prediction
  pipeline::Units loss;           ///< prediction, target -> loss
  pipeline::Units decode;         ///< latents -> image
};

/// A model whose files were opened and whose sizes are known. Components are loaded and dropped one by one, so that a run
/// holds only what its current stage computes with.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::string_view family() const = 0;
  virtual std::string variant() const = 0;  ///< "FLUX.1-dev" and the like, for people and for file metadata
  virtual std::vector<Component> components() const = 0;
  /// What of a component can be loaded apart, by the names that units give it ("dit.modulation" and "dit.body" of "dit"), or the component
  /// itself when it is always whole. Wherever a component is named below, one of its parts may be; several are loaded as what their names
  /// have in common, up to a dot.
  virtual std::vector<std::string> parts(const std::string& component) const { return {component}; }
  /// Splits off, as a part of its own, the blocks of the denoiser that run before the first of which a parameter trains, by its path. To be
  /// called before `parts` and `units`, which speak of the new parts from then on ("dit.first_blocks.body"). The name of what was split off
  /// ("dit.first_blocks"); "" where the first block trains, or the family cannot do it.
  virtual std::string split_first_blocks(const std::function<bool(const std::string& path)>& /*trains*/) { return ""; }
  /// Bytes of a component or of a part, as its weights will be held; 0 when the files hold no such component.
  virtual int64_t num_bytes(const std::string& component) const;

  /// Empty when the files hold no such component.
  virtual Provenance provenance(const std::string& component) const = 0;

  /// Refuses by file headers alone what `load` would refuse: a data Error when the files lack the component, one of its tensors, or its
  /// tokenizer.
  virtual void check(const std::string& component) = 0;
  /// The component's parameter tree on the meta device: names and shapes, no weights.
  virtual std::unique_ptr<nn::Module> skeleton(const std::string& component) const = 0;
  /// Regular expressions for the paths of linear layers that stay parameters when a component's weights are stored as codes: those
  /// that embed, modulate, and come first and last. (Norms, biases and tables are no linear weights and always stay.)
  virtual std::vector<std::string> high_precision(const std::string& component) const = 0;
  /// How the linear weights of a component are held from its next load on; null: as parameters, FP8 numbers in its file turned into them.
  void set_store(const std::string& component, std::shared_ptr<nn::WeightStore> store) {
    stores_[component_of(component)] = std::move(store);
  }
  /// Streams the weights of one component from its files. Loading what is loaded does nothing.
  virtual void load(const std::string& component) = 0;
  virtual void unload(const std::string& component) = 0;
  /// The loaded component's parameter tree: of a component, what is loaded of it; of a part, the whole component where that is loaded.
  /// std::logic_error when it is not loaded.
  virtual nn::Module& module(const std::string& component) = 0;

  /// The component that a run trains unless told otherwise.
  virtual std::string denoiser() const = 0;
  /// The blocks of a loaded component in order of execution: its tree's, unless the family says otherwise.
  virtual std::vector<nn::Block*> blocks(const std::string& component) { return nn::blocks_below(module(component)); }

  virtual UnitGroups units() = 0;
  /// Channels, rows and columns of the latents of a picture; a config Error when the size does not divide.
  virtual std::vector<int64_t> latent_shape(int64_t height, int64_t width) const = 0;
  /// Image tokens the denoiser sees for latents of this shape.
  virtual int64_t num_tokens(at::IntArrayRef latent_shape) const = 0;
  /// Pixels that a side must be a multiple of.
  virtual int64_t size_division() const = 0;
  /// How latents become noise and the way back.
  virtual const diffusion::Process& process() const = 0;
  /// The sizes that values must have for the denoiser, -1 where any will do; for those read from a cache that others may have made.
  virtual std::map<std::string, std::vector<int64_t>> value_shapes() const { return {}; }
  /// By our name, what DiffSynth-Studio calls a value in the caches it writes.
  virtual std::map<std::string, std::string> foreign_values() const { return {}; }
  /// Value names that a negative prompt replaces under classifier-free guidance.
  virtual std::vector<std::string> prompt_values() const = 0;
  /// Whether the prompt values of an empty negative prompt are zeros, and not those of the empty text.
  virtual bool zeros_for_no_prompt() const { return false; }

  // Any component can be trained, whole or by adapters; what follows is asked of each.

  virtual LayerNames layer_names(const std::string& component) const = 0;
  /// Adapter targets when the user names none (see adapters::match_targets).
  virtual std::string default_lora_targets(const std::string& component) const = 0;
  /// The names by which adapter targets know a layer (see adapters::AliasesOf); none means its path alone.
  virtual std::vector<std::string> target_names(const std::string& /*component*/, const std::string& /*path*/) const { return {}; }
  /// Our layers behind a layer name of another program that is not `layer_names` and our path (fused layers have several, stacked in this
  /// order); none when the name means nothing in this component.
  virtual std::vector<std::string> foreign_layer(const std::string& /*component*/, const std::string& /*name*/) const { return {}; }

 protected:
  nn::WeightStore* store_of(const std::string& component) const {
    auto it = stores_.find(component_of(component));
    return it == stores_.end() ? nullptr : it->second.get();
  }

 private:
  std::map<std::string, std::shared_ptr<nn::WeightStore>> stores_;
};

/// Everything the rest of the program may know about a model family.
struct Family {
  std::string_view name;  ///< folder name
  bool (*recognises)(const ModelFiles&);
  std::unique_ptr<Model> (*open)(const ModelFiles&, const ModelOptions&);
  /// What a single weight set is, in a few words ("FLUX.1-dev transformer, BFL names"), or "".
  std::string (*describe)(const ModelEntry&);
  /// Options of ModelOptions that not every family has and this one does, by their names on the command line; "fp16" stands for the dtype.
  std::vector<std::string_view> own_options = {};
};

/// The families of this program, those that were added first.
std::vector<const Family*> all_families();
/// Makes a family known that is not in registry.cpp, as a program beside burnish may; before any model is opened.
void add_family(const Family& family);

/// Opens the model behind `files` with the family that recognises it; a data Error lists the families when none does. A config Error for
/// an option that the family does not have.
std::unique_ptr<Model> open_model(const ModelFiles& files, const ModelOptions& options);

}  // namespace burnish::models
