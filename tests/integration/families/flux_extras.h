#pragma once
#include <ATen/Functions.h>

#include "io/safetensors.h"
#include "tests/integration/program.h"
#include "tests/places.h"

namespace burnish::test {

/// What tests/golden/make_flux_extras.py made.
inline const fs::path kExtras = fs::path(test::kCheckout) / "tests/golden/flux_extras";

/// What make_infinite_you.py and make_step1x.py made.
inline const fs::path kFaces = fs::path(test::kCheckout) / "tests/golden/infinite_you";
inline const fs::path kStep1x = fs::path(test::kCheckout) / "tests/golden/step1x";

/// Gives a file of a transformer, and the config.json beside it where there is one, the x_embedder with further channels of a file of
/// kExtras.
inline void widen_transformer_file(const fs::path& file, const std::string& channels) {
  auto weight = io::SafetensorsFile::open(kExtras / channels)->tensor("x_embedder.weight").clone();
  io::NamedTensors tensors;
  {
    auto opened = io::SafetensorsFile::open(file);
    for (const auto& [name, info] : opened->tensors())
      tensors.emplace_back(name, name == "x_embedder.weight" ? weight : opened->tensor(name).clone());
  }
  io::save_safetensors(file, tensors);
  auto config = file.parent_path() / "config.json";
  if (!fs::exists(config)) return;
  auto json = nlohmann::json::parse(read_file(config));
  json["in_channels"] = weight.size(1);
  json["out_channels"] = 64;
  std::ofstream(config) << json.dump();
}

/// Writes the weights of InfiniteYou's ControlNet, which are those of kExtras' without its kinds of control.
inline void write_face_control_net(const fs::path& file) {
  auto all = io::SafetensorsFile::open(kExtras / "controlnet/diffusion_pytorch_model.safetensors");
  io::NamedTensors tensors;
  for (const auto& [name, info] : all->tensors()) {
    if (!name.starts_with("controlnet_mode")) tensors.emplace_back(name, all->tensor(name).clone());
  }
  io::save_safetensors(file, tensors);
}

/// That ControlNet in `folder`, as diffusers saves it.
inline void copy_face_control_net(const fs::path& folder) {
  fs::copy(kFaces / "controlnet", folder);
  write_face_control_net(folder / "diffusion_pytorch_model.safetensors");
}

/// The model of tests/golden/make_pipeline.py in `folder`, its transformer widened.
inline void widen_transformer(const fs::path& folder, const std::string& channels) {
  fs::copy(kGolden / "model", folder, fs::copy_options::recursive);
  widen_transformer_file(folder / "transformer/diffusion_pytorch_model.safetensors", channels);
}

}  // namespace burnish::test
