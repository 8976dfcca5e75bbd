#pragma once
#include <fstream>
#include <map>
#include <sstream>

#include "io/safetensors.h"
#include "tests/golden.h"
#include "tests/scratch.h"

namespace burnish::test {

/// The path of sdxl_pipeline's or sd15_pipeline's weights in one file, as tests/golden/make_stable_diffusion.py describes it; it lasts as
/// long as the test program.
inline std::string single_file(const std::string& pipeline) {
  static const Scratch folder;
  auto path = (folder / (pipeline + ".safetensors")).string();
  if (fs::exists(path)) return path;
  auto rest = golden(pipeline + "/single_rest.safetensors");
  io::NamedTensors tensors;
  for (const auto& name : rest.names()) tensors.emplace_back(name, rest.tensor(name));
  std::map<std::string, io::TensorSource> sources;
  std::ifstream table(golden_path(pipeline + "/single.tsv"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string name, component, pieces, way;
    std::getline(fields, name, '\t');
    std::getline(fields, component, '\t');
    std::getline(fields, pieces, '\t');
    std::getline(fields, way);
    auto source = sources.find(component);
    if (source == sources.end()) {
      auto folder = golden_path(pipeline + "/model/" + component);
      source = sources.emplace(component, io::TensorSource::open_folder(folder, {"diffusion_pytorch_model", "model"})).first;
    }
    std::vector<at::Tensor> joined;
    std::istringstream keys(pieces);
    for (std::string key; keys >> key;) joined.push_back(source->second.tensor(key));
    auto tensor = joined.size() == 1 ? joined[0] : at::cat(joined);
    if (way == "T") tensor = tensor.t().contiguous();
    if (way == "1x1") tensor = tensor.unsqueeze(-1).unsqueeze(-1);
    tensors.emplace_back(name, tensor);
  }
  io::save_safetensors(path, tensors);
  return path;
}

}  // namespace burnish::test
