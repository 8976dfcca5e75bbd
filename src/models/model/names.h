#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/column.h"
#include "diffusion/process.h"
#include "io/key_map.h"
#include "pipeline/unit.h"

namespace burnish::models {

/// Layer names of another program, each with our layers behind it; a fused layer has several, stacked in this order.
using LayerTable = std::map<std::string, std::vector<std::string>>;

/// The names that a file gives the tensors of a component.
struct FileNames {
  std::string prefix;
  io::KeyMap keys;
};

/// The spellings that files have for the layers of a component, before our paths in it.
struct LayerNames {
  std::string weights;    ///< prefix in the component's own file: "text_model." for CLIP in transformers; "" mostly
  std::string diffusers;  ///< before that in adapter files of diffusers and peft: "transformer.", "unet.", "text_encoder."
  std::string kohya;      ///< before that, dots written as underscores, in kohya's adapter files: "lora_unet_", "lora_te1_"
  std::vector<std::string> others =
      {};                       ///< before our path, in adapter files of further programs; those with "_" at the end before underscores
  bool diffusers_alpha = true;  ///< whether diffusers' loader of this family takes files with `.alpha` under its own names
  bool comfyui_alpha = true;    ///< whether programs that read ComfyUI's names of this family take `.alpha` there
  std::string onetrainer = {};  ///< as kohya in OneTrainer's files; "": kohya's prefix is theirs
  std::string comfyui = {};     ///< before `weights` and our path in ComfyUI's adapter files; "" where a table says its names, or none
  std::optional<std::string> diffsynth = {};  ///< prefix there in DiffSynth-Studio's files; none where a table says its names, or none are

  const std::string& before_onetrainer() const { return onetrainer.empty() ? kohya : onetrainer; }
};

/// The names of a component's layers, and the layers that are meant when the user names none.
struct ComponentNames {
  LayerNames layers;
  /// Adapter targets when the user names none (see adapters::match_targets).
  std::string lora_targets = "all-linear";
  /// Regular expressions for the paths of linear layers that stay parameters when a component's weights are stored as codes: layers that
  /// embed, modulate, and come first and last. (Norms, biases and tables are no linear weights and always stay.)
  std::vector<std::string> high_precision = {};
  /// Paths below which parameters get no gradient, however the component trains: layers that training does not run, and layers behind the
  /// one whose states are read.
  std::vector<std::string> without_gradient = {};
  /// Our layers behind another program's layer name that is not `layers` and our path; a fused layer has several, stacked in this order.
  LayerTable foreign_layers = {};
  /// The layers of `foreign_layers` whose rows stand the second half first.
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

  /// Returns an entry of `foreign_layers`; none when the name means nothing in this component.
  std::vector<std::string> foreign_layer(const std::string& name) const;
  /// Returns what `aliases` says of a path; none without it.
  std::vector<std::string> target_names(const std::string& path) const;
};

/// Makes the names of a component whose layers have our paths below its name in every file.
ComponentNames plain_names(const std::string& component);

/// Says where the caches that DiffSynth-Studio writes have a value.
struct DiffsynthValue {
  /// What a sample holds under a name: a tensor, or those of a list of tensors; nothing where it has neither.
  using Find = std::function<std::vector<at::Tensor>(const std::string& name)>;

  std::string name = {};  ///< the name of the one tensor that the value is, or is made of; "" where those caches do not have it
  /// Makes the value of a sample that has `name`; null where the value is that tensor. Throws a data Error where what is found does not
  /// fit.
  std::function<pipeline::Value(const Find& find)> make = nullptr;
  /// Tells whether the value is a list of what reference pictures became; a sample without them has no `name`, and an empty list.
  bool of_references = false;
};

/// Facts of a value beside what the units that write and read it know.
struct ValueNames {
  std::vector<int64_t> shape = {};  ///< sizes that the denoiser takes, -1 where any will do; none: not checked
  DiffsynthValue diffsynth = {};
  bool of_prompt = false;  ///< whether a negative prompt replaces it under classifier-free guidance
  bool padded = false;     ///< whether samples of a batch differ in its length: see pipeline::join
};

/// A component that predicts, and where on the way from noise to pictures it does.
struct Expert {
  std::string component;
  std::string name = {};  ///< its name for users and in files: "high_noise"; "" where a model has one alone
  diffusion::Stretch stretch = {};
};

/// The name of a value that units of models with several experts read, without dimensions: the number of the expert that a batch is for,
/// among those of the model.
inline const std::string kExpert = "expert";

/// The names of values that units of models which give frames at a share of visits read, without dimensions: 1 at a visit that has first
/// frames, last ones, or those within a clip, and 0 at one that has none.
inline const std::string kGivesFirst = "gives_first_frames", kGivesLast = "gives_last_frames", kGivesWithin = "gives_frames_within";

/// The tokens that blocks of a denoiser give, of pictures and texts.
struct TokenNames {
  int64_t width = 0;              ///< numbers of a token
  bool picture_is_first = false;  ///< whether a picture's tokens stand before those of its text, where a block gives both in one tensor
  size_t output = 0;              ///< which of a block's results has the picture's tokens, where it gives several
};

/// Holds what there is to say of reference pictures, and of frames that are given.
struct ReferenceNames {
  std::string column = {};     ///< metadata column of pictures that units read as reference_images; "" where none is
  std::string expected = {};   ///< the column of those that the model was trained with; "" for others
  bool are_needed = false;     ///< whether nothing can be drawn without one
  bool are_as_target = false;  ///< whether they are scaled and cut as the target is, since their latents stand beside its own
  int64_t most = 0;            ///< how many of a sample the model sees at most; 0: any number
  int64_t sound_rate = 0;      ///< of references that may be clips and sounds too, samples a second of the latter; 0: pictures alone
  std::map<std::string, double> given_shares = {};  ///< shares of visits, by those of kGivesFirst and the like that units read
};

/// What metadata of files calls a model, for programs that sort files by it. Words are those of sd-scripts and musubi-tuner
/// (sai_model_spec.py) and ai-toolkit, which write them.
struct FileWords {
  std::string architecture = {};    ///< modelspec.architecture of a whole model, "flux-1-dev"; "" where no program has one: the variant
  std::string implementation = {};  ///< where the code is that the model was made with; "" for diffusers
  std::string base_version = {};    ///< kohya's ss_base_model_version, "flux1"; "" where nobody writes one
  std::map<std::string, std::string> prediction = {};  ///< what says how it predicts, where that is not as usual: keys and values
  std::map<std::string, std::string> settings = {};    ///< what readers of a file with all parts look for beside its tensors
};

/// Holds what a model itself is called.
struct ModelTitles {
  std::string family;         ///< the folder's name
  std::string variant;        ///< "FLUX.1-dev" and the like, for people and for file metadata
  FileWords file_words = {};  ///< what metadata of files calls it beside that
};

/// Every table of names of a model: plain data that its family fills in when the model is opened.
struct Names : ModelTitles {
  std::vector<Expert> experts;  ///< the experts in the order in which a walk from noise comes by them; their stretches cover the way
  /// What predicts on the whole way what guidance leads away from, and trains by itself; none where guidance takes the experts for it.
  std::optional<Expert> away = {};
  std::map<std::string, ComponentNames> components;  ///< names of every component that the units may run
  std::map<std::string, ValueNames> values;          ///< facts of values of which there is something to say
  Columns extra_inputs = {};                         ///< further columns of metadata that its units read
  std::optional<TokenNames> tokens = {};             ///< tokens that the denoiser's blocks give; none where they give no tokens
  ReferenceNames references = {};                    ///< what there is to say of reference pictures
  std::vector<std::string> marks;                    ///< names of tensors by which single files say how the model predicts
  bool zeros_for_no_prompt = false;  ///< whether prompt values of an empty negative prompt are zeros, and not values of the empty text

  /// Says what is wrong with so many reference pictures; "" where nothing is.
  std::string why_too_many(int64_t num_references) const;
  bool is_denoiser(const std::string& component) const { return expert_of(component) != nullptr; }
  /// Returns the expert that is this component, `away` among them; null for others.
  const Expert* expert_of(const std::string& component) const;
  /// Returns the components that predict on a walk.
  std::vector<std::string> denoisers() const;
  /// Returns the number of the expert that predicts at a share of the way from no noise (0) to noise alone (1).
  size_t expert_at(double share) const;
  /// Tells whether a parameter gets no gradient in any run, by its name "component.path".
  bool is_without_gradient(const std::string& parameter) const;
  /// Returns the names of a component or of one of its parts; std::logic_error when the family declares no such component.
  const ComponentNames& of(const std::string& component) const;

  // These return columns of `values`, without the values of which a column says nothing.

  std::map<std::string, std::vector<int64_t>> shapes() const;
  std::map<std::string, DiffsynthValue> diffsynth_values() const;
  std::vector<std::string> prompt_values() const;
  std::set<std::string> padded_values() const;
};

}  // namespace burnish::models
