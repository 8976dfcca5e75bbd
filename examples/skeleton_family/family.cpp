#include "family.h"

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "base/dtype.h"
#include "base/error.h"
#include "models/loading.h"
#include "pipeline/unit.h"

namespace burnish::models::skeleton {

namespace {

const std::string kBody = "text_encoder.body", kProjector = "text_encoder.projector";

int64_t size_of(const io::Shapes& shapes, const std::string& name, size_t dim, int64_t otherwise) {
  auto it = shapes.find(name);
  return it == shapes.end() || it->second.size() <= dim ? otherwise : it->second[dim];
}

io::Shapes shapes_of(nn::Module& module) {
  io::Shapes shapes;
  module.visit_parameters([&](const std::string& name, at::Tensor& p) { shapes[name] = p.sizes().vec(); });
  return shapes;
}

}  // namespace

Config detect(const io::Shapes& shapes) {
  Config c;
  c.encoder_width = size_of(shapes, "text_encoder.body.bytes.weight", 1, c.encoder_width);
  c.text_length = size_of(shapes, "text_encoder.body.positions.weight", 0, c.text_length);
  c.width = size_of(shapes, "dit.patch_in.weight", 0, c.width);
  c.latent_channels = size_of(shapes, "dit.patch_in.weight", 1, c.latent_channels);
  if (shapes.contains("dit.patch_in.weight")) c.num_blocks = 0;
  while (shapes.contains(fmt::format("dit.blocks.{}.to_q.weight", c.num_blocks))) ++c.num_blocks;
  auto channels = size_of(shapes, "vae.encoder.weight", 0, c.latent_channels);
  if (channels != c.latent_channels)
    data_error("models", "the denoiser takes {} latent channels and the autoencoder makes {}; they belong to different models",
               c.latent_channels, channels);
  return c;
}

SkeletonModel::SkeletonModel(const ModelEntry& entry, const ModelOptions& options)
    : entry_(entry), options_(options), config_(detect(entry.tensors->shapes())) {}

bool SkeletonModel::holds(const std::string& component) const {
  auto prefix = component + ".";
  for (const auto& name : entry_.tensors->names()) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::vector<Component> SkeletonModel::components() const {
  std::vector<Component> list;
  for (const char* name : {"dit", "text_encoder", "vae"}) {
    if (holds(name)) list.push_back({name, entry_.label, skeleton(name)->num_bytes()});
  }
  return list;
}

/// The text encoder is two parts: with the projector trained, the body still runs once for each caption.
std::vector<std::string> SkeletonModel::parts(const std::string& component) const {
  if (component == "text_encoder") return {kBody, kProjector};
  return {component};
}

Provenance SkeletonModel::provenance(const std::string& component) const {
  if (!holds(component)) return {};
  Provenance made;
  for (const auto& file : entry_.tensors->files()) made.files.push_back(file->path());
  made.settings = dtype_name(component == "vae" ? at::kFloat : options_.dtype);
  return made;
}

std::unique_ptr<nn::Module> SkeletonModel::skeleton(const std::string& component) const {
  auto options = at::TensorOptions().dtype(component == "vae" ? at::kFloat : options_.dtype).device(at::kMeta);
  if (component == "dit") return std::make_unique<Denoiser>(config_, options);
  if (component == "vae") return std::make_unique<Autoencoder>(config_, options);
  return std::make_unique<TextEncoder>(config_, options, component != kProjector, component != kBody);
}

/// The tensors of a component or part, under our paths in the component.
io::TensorSource SkeletonModel::tensors(const std::string& component) const {
  auto all = entry_.tensors->below(pipeline::component_of(component) + ".");
  if (component == kBody) return all.without({"projector."});
  if (component == kProjector) return all.without({"body."});
  return all;
}

void SkeletonModel::check(const std::string& component) {
  if (!holds(component)) data_error("models", "this run needs the {}, and there is none in {}", component, entry_.label);
  io::check_named(without_scales(tensors(component)), {}, shapes_of(*skeleton(component)), entry_.label);
}

std::vector<std::string> SkeletonModel::high_precision(const std::string& component) const {
  if (component == "vae") return {".*"};
  return {"patch_in", "time_in", "patch_out", "projector\\..*"};
}

void SkeletonModel::load(const std::string& component) {
  if (loaded_.contains(component)) return;
  check(component);
  auto built = skeleton(component);
  auto options = at::TensorOptions().dtype(component == "vae" ? at::kFloat : options_.dtype).device(options_.device);
  load_weights(*built, tensors(component), {}, options, store_of(pipeline::component_of(component)), entry_.label);
  loaded_[component] = std::move(built);
}

nn::Module& SkeletonModel::module(const std::string& component) {
  for (const auto& name : {component, pipeline::component_of(component)}) {
    if (auto it = loaded_.find(name); it != loaded_.end()) return *it->second;
  }
  for (const auto& part : parts(component)) {
    if (auto it = loaded_.find(part); it != loaded_.end()) return *it->second;
  }
  throw std::logic_error("component " + component + " is not loaded");
}

std::vector<int64_t> SkeletonModel::latent_shape(int64_t height, int64_t width) const {
  auto p = config_.patch;
  if (height < p || width < p || height % p || width % p)
    config_error("models", "height and width must be multiples of {} pixels for this model, not {} and {}", p, height, width);
  return {config_.latent_channels, height / p, width / p};
}

std::string SkeletonModel::default_lora_targets(const std::string& component) const {
  return component == "dit" ? "to_q,to_k,to_v,to_out,up,down" : "all-linear";
}

static const ModelEntry* find_entry(const ModelFiles& files) {
  return files.find([](const ModelEntry& entry) {
    return entry.tensors && (entry.tensors->contains("dit.patch_in.weight") || entry.tensors->contains("text_encoder.body.bytes.weight"));
  });
}

const Family kFamily{
    .name = "skeleton_family",
    .recognises = [](const ModelFiles& files) { return find_entry(files) != nullptr; },
    .open = [](const ModelFiles& files, const ModelOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<SkeletonModel>(*find_entry(files), options);
    },
    .describe = [](const ModelEntry& entry) -> std::string {
      return find_entry(ModelFiles{{entry}, {}}) ? "skeleton family" : "";
    },
};

}  // namespace burnish::models::skeleton
