#pragma once
#include <ATen/ATen.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "kernels/rotate/rotate.h"
#include "kernels/unpack/unpack.h"
#include "models/files/coded_weights.h"

// Files whose weights are codes, made of plain ones.
namespace burnish::test {

using IsCoded = std::function<bool(const std::string& name, const at::Tensor& weight)>;

inline at::Tensor text_tensor(const std::string& text) {
  auto bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

/// In NF4 as bitsandbytes stores it, with a scale for 32 numbers.
inline io::NamedTensors in_nf4(const io::NamedTensors& tensors, const IsCoded& is_coded) {
  const auto& list = kernels::nf4_values();
  auto values = at::tensor(at::ArrayRef<float>(list.data(), list.size()));
  io::NamedTensors all;
  for (const auto& [name, tensor] : tensors) {
    if (!is_coded(name, tensor)) {
      all.emplace_back(name, tensor);
      continue;
    }
    auto blocks = tensor.to(at::kFloat).reshape({-1, 32});
    auto scales = blocks.abs().amax(1);
    auto codes = (blocks / scales.unsqueeze(1)).unsqueeze(2).sub(values).abs().argmin(2).flatten().to(at::kByte).view({-1, 2});
    all.emplace_back(name, codes.select(1, 0).mul(16).add(codes.select(1, 1)).unsqueeze(1).contiguous());
    all.emplace_back(name + ".absmax", scales);
    all.emplace_back(name + ".quant_map", values);
    nlohmann::json state{{"quant_type", "nf4"}, {"blocksize", 32}, {"dtype", "bfloat16"}, {"shape", tensor.sizes().vec()}};
    all.emplace_back(name + ".quant_state.bitsandbytes__nf4", text_tensor(state.dump()));
  }
  return all;
}

/// As ComfyUI has int8_convrot: rotated by four, a scale for each row.
inline io::NamedTensors in_int8_convrot(const io::NamedTensors& tensors, const IsCoded& is_coded) {
  io::NamedTensors all;
  for (const auto& [name, tensor] : tensors) {
    if (!is_coded(name, tensor)) {
      all.emplace_back(name, tensor);
      continue;
    }
    constexpr int64_t kGroup = 4;
    const auto rotated = tensor.to(at::kFloat).clone();
    kernels::rotate_(rotated, kGroup);
    const auto scales = rotated.abs().amax(1, true) / 127;
    const auto layer = name.substr(0, name.size() - std::string("weight").size());
    all.emplace_back(name, (rotated / scales).round().to(at::kChar));
    all.emplace_back(layer + "weight_scale", scales);
    all.emplace_back(layer + "comfy_quant", text_tensor(R"({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 4})"));
  }
  return all;
}

/// As ComfyUI has fp8_scaled: E4M3, a scale for each layer.
inline io::NamedTensors in_scaled_fp8(const io::NamedTensors& tensors, const IsCoded& is_coded) {
  io::NamedTensors all{{"scaled_fp8", at::zeros({2}).to(at::kFloat8_e4m3fn)}};
  for (const auto& [name, tensor] : tensors) {
    if (!is_coded(name, tensor)) {
      all.emplace_back(name, tensor);
      continue;
    }
    const auto wide = tensor.to(at::kFloat), scale = wide.abs().amax() / 448;
    all.emplace_back(name, (wide / scale).to(at::kFloat8_e4m3fn));
    all.emplace_back(name.substr(0, name.size() - std::string("weight").size()) + "scale_weight", scale);
  }
  return all;
}

/// Writes a GGUF file of fp32 numbers and Q8_0.
inline void save_gguf(const std::filesystem::path& path, const io::NamedTensors& tensors, const IsCoded& is_coded) {
  std::string header, data;
  auto add = [](std::string& to, auto value) { to.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  auto add_text = [&](std::string& to, const std::string& text) {
    add(to, static_cast<uint64_t>(text.size()));
    to += text;
  };
  header = "GGUF";
  add(header, uint32_t{3});
  add(header, static_cast<uint64_t>(tensors.size()));
  add(header, uint64_t{1});
  add_text(header, "general.quantization_version");
  add(header, uint32_t{4});
  add(header, uint32_t{2});
  for (const auto& [name, tensor] : tensors) {
    auto plain = tensor.to(at::kFloat).contiguous();
    const bool coded = is_coded(name, tensor);
    add_text(header, name);
    add(header, static_cast<uint32_t>(plain.dim()));
    for (int64_t d = plain.dim(); d-- > 0;) add(header, static_cast<uint64_t>(plain.size(d)));
    add(header, uint32_t{coded ? 8u : 0u});
    data.resize((data.size() + 31) / 32 * 32);
    add(header, static_cast<uint64_t>(data.size()));
    if (coded) {
      auto blocks = plain.reshape({-1, 32});
      auto scales = (blocks.abs().amax(1, true) / 127).to(at::kHalf);
      auto codes = (blocks / scales.to(at::kFloat)).round().clamp(-127, 127).to(at::kChar).view(at::kByte);
      plain = at::cat({scales.view(at::kByte), codes}, 1).contiguous();
    }
    data.append(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
  }
  header.resize((header.size() + 31) / 32 * 32);
  std::ofstream(path, std::ios::binary) << header << data;
}

/// The numbers that a file's weights are, read by the program's own readers.
inline io::NamedTensors numbers_in(const std::filesystem::path& file) {
  auto shown = models::show_weights(io::TensorSource::open({file}));
  io::NamedTensors all;
  for (const auto& name : shown.names()) all.emplace_back(name, shown.tensor(name));
  return all;
}

}  // namespace burnish::test
