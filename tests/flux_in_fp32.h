#pragma once
#include <filesystem>
#include <string>

#include "tests/golden.h"

namespace burnish::test {

/// Copies the model of tests/golden/make_pipeline.py to `folder`, its transformer in fp32: blocks_on_disk takes a file as the run holds it.
inline void copy_flux_in_fp32(const std::filesystem::path& folder) {
  std::filesystem::copy(golden_path("pipeline/model"), folder, std::filesystem::copy_options::recursive);
  const std::string file = "transformer/diffusion_pytorch_model.safetensors";
  io::NamedTensors tensors;
  auto source = golden("pipeline/model/" + file);
  for (const auto& name : source.names()) tensors.emplace_back(name, source.tensor(name).to(at::kFloat));
  io::save_safetensors(folder / file, tensors);
}

}  // namespace burnish::test
