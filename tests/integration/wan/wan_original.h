#pragma once
#include <fstream>

#include "tests/integration/wan/wan.h"
#include "tests/pth_writer.h"

// The small model of kWan in the files and names that Wan itself publishes (tests/golden/make_wan_files.py).
namespace burnish::test {

inline const fs::path kWanOriginal = golden_path("wan_original");

/// The weights of a part of kWan, in the original names that names.json lists, with `prefix` before them.
inline io::NamedTensors in_original_names(const std::string& part, const std::string& prefix = "") {
  const auto file = part == "text_encoder" ? "model.safetensors" : "diffusion_pytorch_model.safetensors";
  auto source = io::TensorSource::open({kWan / "model" / part / file});
  const nlohmann::json names = nlohmann::json::parse(read_file(kWanOriginal / "names.json")).at(part);
  io::NamedTensors all;
  for (const auto& [original, ours] : names.items()) all.emplace_back(prefix + original, source.tensor(ours.get<std::string>()).clone());
  return all;
}

/// Makes the folder, without the tokenizer.
inline void make_wan_original(const fs::path& folder) {
  fs::create_directories(folder);
  fs::copy_file(kWanOriginal / "config.json", folder / "config.json");
  save_pth(folder / "models_t5_umt5-xxl-enc-bf16.pth", in_original_names("text_encoder"));
  io::save_safetensors(folder / "diffusion_pytorch_model.safetensors", in_original_names("transformer"));
  save_pth(folder / "Wan2.1_VAE.pth", in_original_names("vae"));
}

}  // namespace burnish::test
