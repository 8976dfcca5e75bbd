#pragma once
#include "tests/integration/parity.h"
#include "tests/integration/wan/wan_original.h"

// Small models of Wan of every kind, made of those of the golden files.
namespace burnish::test {

inline const fs::path kWanImage = golden_path("wan_image");
inline constexpr const char* kTransformerFile = "diffusion_pytorch_model.safetensors";

/// A small model in place of a published one: a transformer, and what is changed of it.
struct SmallWan {
  fs::path transformer;     ///< "original": kWan's in Wan's own names
  int64_t in_channels = 0;  ///< 0: as they are
  bool has_clip = false, has_places = false, has_reference = false, has_camera = false, has_motion = false, has_sound = false;
  fs::path vae = "original";
  const char* vae_file = "Wan2.1_VAE.pth";  ///< as the small one is called
};

inline at::Tensor made(at::IntArrayRef shape) { return at::arange(c10::multiply_integers(shape), at::kFloat).sin().mul_(0.1).view(shape); }

/// The tensors of a transformer, with what is changed of it.
inline io::NamedTensors transformer_of(const SmallWan& small, const fs::path& folder, nlohmann::json& config) {
  auto source = io::TensorSource::open({folder / kTransformerFile});
  io::NamedTensors all;
  for (const auto& name : source.names()) {
    auto tensor = source.tensor(name).clone();
    if (name == "patch_embedding.weight" && small.in_channels > 0)
      tensor = tensor.repeat({1, small.in_channels, 1, 1, 1}).narrow(1, 0, small.in_channels).contiguous();
    all.emplace_back(name, tensor);
  }
  const int64_t width = source.tensor("patch_embedding.weight").size(0), latents = 16, rays = 24 * 64;
  auto add = [&](const std::string& layer, at::IntArrayRef shape) {
    all.emplace_back(layer + ".weight", made(shape));
    all.emplace_back(layer + ".bias", made({shape[0]}));
  };
  if (small.in_channels > 0) config["in_channels"] = small.in_channels;
  if (small.has_reference) add("ref_conv", {width, latents, 2, 2});
  if (small.has_camera) {
    add("control_adapter.conv", {width, rays, 2, 2});
    for (const char* name : {"control_adapter.residual_blocks.0.conv1", "control_adapter.residual_blocks.0.conv2"})
      add(name, {width, width, 3, 3});
  }
  if (small.has_sound) {
    for (const auto& [name, frames] : {std::pair("proj", 1), {"proj_2x", 2}, {"proj_4x", 4}})
      add(std::string("frame_packer.") + name, {width, latents, frames, 2 * frames, 2 * frames});
  }
  if (small.has_places) {
    auto places = expected_in(kWanImage).tensor("places").clone();
    config["pos_embed_seq_len"] = places.size(1);
    all.emplace_back("condition_embedder.image_embedder.pos_embed", places);
  }
  return all;
}

/// A motion controller for width 24.
inline void write_motion_controller(const fs::path& path) {
  io::NamedTensors tensors;
  for (const auto& [name, out, in] : {std::tuple("linear.0", 24, 256), {"linear.2", 24, 24}, {"linear.4", 144, 24}}) {
    tensors.emplace_back(std::string(name) + ".weight", made({out, in}));
    tensors.emplace_back(std::string(name) + ".bias", at::zeros({out}));
  }
  fs::create_directories(path.parent_path());
  io::save_safetensors(path, tensors);
}

}  // namespace burnish::test
