#include "family.h"

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "io/model_values.h"

namespace burnish::models::skeleton {

namespace {

constexpr double kBoundary = 0.5;  // of the noise, between the experts

const std::string kBody = "text_encoder.body", kProjector = "text_encoder.projector";

int64_t size_of(const io::Shapes& shapes, const std::string& name, size_t dim, int64_t otherwise) {
  auto it = shapes.find(name);
  return it == shapes.end() || it->second.size() <= dim ? otherwise : it->second[dim];
}

const ModelEntry* find_entry(const ModelFiles& files) {
  return files.find([](const ModelEntry& entry) {
    return entry.tensors && (entry.tensors->contains("dit.patch_in.weight") || entry.tensors->contains("text_encoder.body.bytes.weight"));
  });
}

/// The part of the file below a component's name.
Source find_component(const ModelEntry& entry, const std::string& name) {
  auto tensors = entry.tensors->below(name + ".");
  return tensors.names().empty() ? Source{} : Source{&entry, tensors, {}};
}

AutoencoderPart autoencoder(const Source& source, const Config& config) {
  AutoencoderPart part{
      .recipe = {.name = "vae",
                 .what = "autoencoder",
                 .source = source,
                 .build = [config](const std::string&, const at::TensorOptions& o) { return std::make_unique<Autoencoder>(config, o); },
                 .dtype = at::kFloat},
      .names = plain_names("vae"),
      .channels = config.latent_channels,
      .downsampling = config.patch,
      .encode =
          [](nn::Module& vae, const at::Tensor& image) {
            return Moments{static_cast<Autoencoder&>(vae).encode(image), {}};
          },
      .decode =
          [](nn::Module& vae, const at::Tensor& latents) {
            auto frames = static_cast<Autoencoder&>(vae).decode(latents);
            return frames.dim() == 5 ? pixels_of(frames) : frames;
          }};
  part.names.high_precision = {".*"};
  part.names.without_gradient = {"decoder"};
  return part;
}

}  // namespace

Config detect(const io::Shapes& shapes) {
  Config c;
  c.encoder_width = size_of(shapes, "text_encoder.body.bytes.weight", 1, c.encoder_width);
  c.text_length = size_of(shapes, "text_encoder.body.positions.weight", 0, c.text_length);
  c.width = size_of(shapes, "dit.patch_in.weight", 0, c.width);
  c.latent_channels = size_of(shapes, "dit.patch_in.weight", 1, c.latent_channels);
  if (shapes.contains("dit.patch_in.weight")) c.num_blocks = io::count_of(shapes, "dit.blocks.{}.to_q.weight");
  auto channels = size_of(shapes, "vae.encoder.weight", 0, c.latent_channels);
  if (channels != c.latent_channels)
    data_error("models", "the denoiser takes {} latent channels and the autoencoder makes {}; they belong to different models",
               c.latent_channels, channels);
  return c;
}

SkeletonModel::SkeletonModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto& entry = *find_entry(files_);
  config_ = detect(entry.tensors->shapes());

  auto names_of = [](const std::string& component) {
    auto names = plain_names(component);
    names.high_precision = {"patch_in", "time_in", "patch_out", "projector\\..*"};
    return names;
  };
  // One denoiser, or two experts of one architecture: the first predicts where there is much noise, the second where there is little.
  names_.experts = {{"dit"}};
  if (find_component(entry, "dit_2").tensors)
    names_.experts = {{"dit", "high_noise", {kBoundary, 1}}, {"dit_2", "low_noise", {0, kBoundary}}};
  for (const auto& dit : names_.denoisers()) {
    auto names = names_of(dit);
    names.layers = plain_names("dit").layers;  // files of adapters are told by their names and metadata
    names.lora_targets = "to_q,to_k,to_v,to_out,up,down";
    add({.name = dit,
         .what = "denoiser",
         .source = find_component(entry, dit),
         .build = [this](const std::string&, const at::TensorOptions& o) { return std::make_unique<Denoiser>(config_, o); }},
        names);
  }
  // Two parts: with the projector trained, the body still runs once for each caption.
  add({.name = "text_encoder",
       .what = "text encoder",
       .source = find_component(entry, "text_encoder"),
       .build = [this](const std::string& part,
                       const at::TensorOptions& o) { return std::make_unique<TextEncoder>(config_, o, part != kProjector, part != kBody); },
       .parts = {kBody, kProjector}},
      names_of("text_encoder"));
  autoencoder_ = autoencoder(find_component(entry, "vae"), config_);
  add(autoencoder_, /*patch=*/1);
  // Clips have 1 + 2k frames and 1 + k latents in time.
  latent_space_.frames_step = latent_space_.streams[0].temporal = 2;

  names_.family = "skeleton_family";
  names_.variant = "skeleton";
  names_.values["text_embedding"].of_prompt = true;
  if (hears()) names_.extra_inputs.push_back(kVoice);
  process_ = std::make_unique<diffusion::FlowProcess>(diffusion::FlowSamplerConfig{});
}

const Family kFamily{
    .name = "skeleton_family",
    .recognises = [](const ModelFiles& files) { return find_entry(files) != nullptr; },
    .open = open_as<SkeletonModel>,
    .describe = [](const ModelEntry& entry) -> std::string {
      return find_entry(ModelFiles{{entry}, {}}) ? "skeleton family" : "";
    },
    .extra_inputs = {kVoice},
};

}  // namespace burnish::models::skeleton
