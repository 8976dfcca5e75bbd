#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "diffusion/process.h"
#include "models/model/components.h"
#include "models/model/latent_space.h"
#include "models/model/names.h"
#include "pipeline/unit.h"

namespace burnish::models {

inline const std::string kLossMap = "loss_map";

/// The units of a family, grouped by what a run puts together. Values that they share have one name in every family:
/// prompt (text), image [B,3,H,W] in [-1,1], latents, noise and latent_noise [B,C,h,w], of clips [B,C,F,h,w], the process's time [B] fp32
/// by its name (sigma or timestep), noisy, target and prediction of the latents' shape, and size_conditioning [B,6]
/// fp32: height and width of the picture before it was cut, top and left of the cut, height and width of what is trained or drawn;
/// and reference_images, lists of pictures [3,H,W] in [-1,1]. loss_map, of the prediction's shape or with sides of 1, is how much each
/// element of it counts, from 0 to 1: objectives compare prediction and target and take a sample's loss by it
/// (train/objectives/sample_loss.h). Values of further columns (Names::extra_inputs) have the columns' names.
struct UnitGroups {
  pipeline::Units encode_prompt;      ///< prompt (and further inputs) -> values that the denoiser reads
  pipeline::Units encode_image;       ///< image (and latent_noise) -> latents: latent_units()
  pipeline::Units encode_references;  ///< reference_images and extra inputs -> values that the denoiser reads; none where it reads none
  pipeline::Units encode_size;        ///< size_conditioning -> values that the denoiser reads; none where it reads nothing of it
  pipeline::Units add_noise;          ///< latents, noise, time -> noisy, target
  pipeline::Units denoise;            ///< noisy, time, prompt values (and kExpert) -> prediction
  pipeline::Units weigh;              ///< what is known of a sample -> loss_map; none where all of a prediction counts
  pipeline::Units draw;               ///< units in place of denoise, for pictures that are drawn to be looked at; none where denoise serves
  /// Units that predict what guidance leads away from when pictures are drawn to be looked at; none where drawing() does, of a negative
  /// prompt.
  pipeline::Units draw_away;
  pipeline::Units decode;  ///< latents -> image

  const pipeline::Units& drawing() const { return draw.empty() ? denoise : draw; }
};

/// A model whose files were opened and whose sizes are known: the units that it computes, its components and its tables of names.
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelFiles& files() const { return files_; }
  const Names& names() const { return names_; }
  Components& components() { return components_; }
  const Components& components() const { return components_; }
  /// Returns the device on which it computes.
  c10::Device device() const { return options_.device; }
  /// Returns the process by which latents become noise and noise becomes latents.
  const diffusion::Process& process() const { return *process_; }
  /// Returns the space of latents, which says which latents a clip has.
  const LatentSpace& latent_space() const { return latent_space_; }

  /// Returns the units of the model with one of its experts as the denoiser.
  virtual UnitGroups units_of(const Expert& expert) = 0;
  /// Returns the units with several experts: `denoise` and `draw` read kExpert, run that expert, and declare the models of all.
  UnitGroups units_of(const std::vector<Expert>& experts);
  /// Returns the units with all experts.
  UnitGroups units() { return units_of(names_.experts); }
  /// Returns the experts whose files are there; all where none is.
  std::vector<Expert> experts_there() const;
  /// Tells whether its units scale reference pictures themselves, and are to be given them whole; others take them as a run cuts pictures.
  virtual bool scales_references() const { return false; }
  /// Returns the extent at which the denoiser sees a reference picture that units are given at this extent.
  virtual Extent seen_reference(const Extent& given) const { return given; }
  /// Splits off, as a part of its own, the blocks of the denoiser that run before the first of which a parameter trains, by its path. To be
  /// called before `units`, which run the new parts from then on ("dit.first_blocks.body"). Returns the name of the split-off part
  /// ("dit.first_blocks"); "" where the first block trains, or the family cannot do it.
  virtual std::string split_first_blocks(const Trains& /*trains*/) { return ""; }
  /// Returns how two predictions become one under classifier-free guidance.
  virtual diffusion::Guide guide() const { return diffusion::guide; }
  /// Returns the scale of guidance at a step of a walk of which `scale` is asked for.
  virtual double guidance_at(double scale, int64_t /*step*/, int64_t /*num_steps*/) const { return scale; }

 protected:
  friend void add_beside(Model& model, const Recipe& recipe);
  /// The family adds components with their names, and fills in the other names, the process and the latent space.
  Model(ModelFiles files, ModelOptions options) : files_(std::move(files)), options_(std::move(options)), components_(files_, options_) {}

  void add(const Recipe& recipe, const ComponentNames& names);
  template <class T>
  T& loaded(const std::string& name) {
    return static_cast<T&>(components_.module(name));
  }

  const ModelFiles files_;
  const ModelOptions options_;
  Names names_;
  Components components_;
  std::unique_ptr<diffusion::Process> process_;
  LatentSpace latent_space_;
};

/// Adds a component that no family has: a copy of one, or what an objective trains beside the denoiser.
void add_beside(Model& model, const Recipe& recipe);

}  // namespace burnish::models
