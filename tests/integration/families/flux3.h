#pragma once
#include "io/json.h"
#include "tests/golden.h"
#include "tests/integration/program.h"

// The small models of tests/golden/make_flux3.py, whose tokenizer lies beside the text encoder.
namespace burnish::test {

inline const fs::path kFlux3 = golden_path("flux3_pipeline");

inline std::string flux3_model(const fs::path& model = kFlux3 / "model") { return "--model '" + model.string() + "' --dtype fp32 "; }

/// Makes the distilled model at `to`: the other one with further layers.
inline fs::path make_distilled(const fs::path& to) {
  fs::copy(kFlux3 / "model", to, fs::copy_options::recursive);
  const auto weights = to / "transformer/diffusion_pytorch_model.safetensors", config = to / "transformer/config.json";
  io::NamedTensors all;
  for (const auto& file : {kFlux3 / "model/transformer/diffusion_pytorch_model.safetensors", kFlux3 / "flow_map.safetensors"}) {
    auto source = io::TensorSource::open({file.string()});
    for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
  }
  fs::remove(weights);
  io::save_safetensors(weights, all);
  auto json = io::read_json(config);
  json["flow_map"] = true;
  std::ofstream(config) << json.dump(2);
  return to;
}

}  // namespace burnish::test
