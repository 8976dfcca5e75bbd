#pragma once
#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <filesystem>

#include "io/safetensors.h"

namespace burnish::test {

/// Writes tensors in the form of torch.save, a dictionary of them by name.
inline void save_pth(const std::filesystem::path& path, const io::NamedTensors& tensors) {
  c10::Dict<std::string, at::Tensor> table;
  for (const auto& [name, tensor] : tensors) table.insert(name, tensor.clone());
  std::string bytes;
  torch::jit::Pickler pickler([&](const char* part, size_t size) { bytes.append(part, size); }, nullptr, nullptr, nullptr, nullptr,
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(table);
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  writer.writeRecord("data.pkl", bytes.data(), bytes.size());
  for (size_t i = 0; const auto& tensor : pickler.tensorData()) {
    writer.writeRecord("data/" + std::to_string(i++), tensor.const_data_ptr(), tensor.nbytes());
  }
  writer.writeEndOfFile();
}

}  // namespace burnish::test
