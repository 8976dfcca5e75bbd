#pragma once
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "io/json.h"
#include "io/key_map.h"
#include "nn/module.h"
#include "tests/golden.h"

namespace burnish::test {

/// Fills a module that was built on the meta device with the tensors of a file, in fp32.
inline void load(nn::Module& module, const io::TensorSource& source, const io::KeyMap& keys = {}) {
  auto slots = module.parameters();
  io::Shapes wanted;
  for (auto& [path, slot] : slots) wanted[path] = slot->sizes().vec();
  io::load_named(
      source, keys, wanted,
      [&](const std::string& path, const io::InFile& read) { *slots.at(path) = read.numbers.to(device(), at::kFloat, false, true); },
      "model");
}

/// A transformer out of a golden folder of diffusers' (config.json and weights in our names), in fp32 and all of it trained. `detect` reads
/// its config.
template <class Transformer, class Detect, class Part>
std::unique_ptr<Transformer> load_trained(const std::string& folder, const Detect& detect, const Part& part) {
  auto json = io::read_json(golden_path(folder + "config.json"));
  auto file = golden(folder + "diffusion_pytorch_model.safetensors");
  auto model = std::make_unique<Transformer>(detect(&json, file.shapes()), at::TensorOptions().device(at::kMeta), part);
  for (auto& [path, slot] : model->parameters()) *slot = file.tensor(path).to(device(), at::kFloat).set_requires_grad(true);
  return model;
}

/// The gradients of all parameters are those of a golden file, which has their digests.
inline void expect_digests(nn::Module& model, const io::TensorSource& expected) {
  auto slots = model.parameters();
  EXPECT_EQ(slots.size(), expected.names().size());
  for (auto& [path, slot] : slots) {
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
  }
}

/// The two captions [T, ...] of a golden batch, the shorter one filled up with zeros.
struct Captions {
  explicit Captions(const io::TensorSource& file) {
    at::Tensor captions[] = {file.tensor("in.caption.0"), file.tensor("in.caption.1")};
    auto longest = std::max(captions[0].size(0), captions[1].size(0));
    auto sizes = captions[0].sizes().vec();
    sizes[0] = longest;
    sizes.insert(sizes.begin(), 2);
    text_BTE = at::zeros(sizes, device());
    mask_BT = at::zeros({2, longest}, device());
    for (int64_t b = 0; b < 2; ++b) {
      text_BTE[b].narrow(0, 0, captions[b].size(0)).copy_(captions[b]);
      mask_BT[b].narrow(0, 0, captions[b].size(0)).fill_(1);
    }
  }
  at::Tensor text_BTE, mask_BT;
};

/// A golden batch of two samples under captions of different lengths, the shorter one filled up with zeros; or one of its samples alone.
struct CaptionedBatch {
  explicit CaptionedBatch(const std::string& name) : file(golden(name)) {
    Captions captions(file);
    text_BTE = captions.text_BTE;
    mask_BT = captions.mask_BT;
    for (int i = 0; file.contains("in.reference." + std::to_string(i)); ++i)
      references_BCHW.push_back(on_device(file.tensor("in.reference." + std::to_string(i))));
  }
  /// One of its samples, without anything behind its caption.
  CaptionedBatch one(int64_t b) const {
    auto sample = *this;
    const auto length = mask_BT[b].sum().item<int64_t>();
    for (auto* tensor : {&sample.text_BTE, &sample.mask_BT}) *tensor = tensor->narrow(0, b, 1).narrow(1, 0, length);
    for (auto* tensor : {&sample.noisy_BCHW, &sample.sigma_B}) *tensor = tensor->narrow(0, b, 1);
    for (auto& reference : sample.references_BCHW) reference = reference.narrow(0, b, 1);
    return sample;
  }
  /// The same with other numbers behind a caption's own tokens.
  CaptionedBatch filled_otherwise() const {
    auto other = *this;
    auto filling = 1 - mask_BT;
    while (filling.dim() < text_BTE.dim()) filling = filling.unsqueeze(-1);
    other.text_BTE = text_BTE + filling * 100;
    return other;
  }

  io::TensorSource file;
  at::Tensor text_BTE, mask_BT;
  at::Tensor noisy_BCHW = on_device(file.tensor("in.noisy")), sigma_B = on_device(file.tensor("in.sigma"));
  std::vector<at::Tensor> references_BCHW;
};

}  // namespace burnish::test
