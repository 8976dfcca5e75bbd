// Parity of CLIP's tower of pictures with transformers' CLIPVisionModel on a small random model (tests/golden/make_wan_image.py), and the
// names that files give its tensors.
#include "models/parts/clip_vision.h"

#include <ATen/core/grad_mode.h>

#include "models/files/open_files.h"
#include "tests/models/load.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::Scratch;
using test::tolerance;

namespace {

const std::string kFile = "wan_image/image_encoder/model.safetensors";

struct ClipVisionParity : testing::Test {
  at::NoGradGuard no_grad;
  io::TensorSource file = test::golden(kFile), expected = test::golden("wan_image/expected.safetensors");
  ClipVisionConfig config = clip_vision_config(io::read_json(test::golden_path("wan_image/image_encoder/config.json")), file.shapes());

  ModelFiles files_of(const std::filesystem::path& path) const { return open_files({{path.string()}, "", ""}, {}); }

  /// Every tensor of the golden file by the name that a layout gives it.
  io::NamedTensors all() const {
    io::NamedTensors tensors;
    for (const auto& name : file.names()) tensors.emplace_back(name, file.tensor(name).clone());
    return tensors;
  }
  at::Tensor states(const Source& source) const {
    ClipVision model(config, at::TensorOptions());
    test::load(model, *source.tensors, source.keys);
    return model.states_before_last(on_device(expected.tensor("clip.pixels")));
  }
};

}  // namespace

TEST_F(ClipVisionParity, StatesBeforeTheLastLayer) {
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.image_size(), 28);
  ClipVision model(config, at::TensorOptions());
  test::load(model, file);
  EXPECT_LE(relative_error(model.states_before_last(on_device(expected.tensor("clip.pixels"))), expected.tensor("clip.states")),
            tolerance(2e-6));
}

TEST_F(ClipVisionParity, IsReadInTheNamesOfTransformersComfyUiAndWan) {
  Scratch folder;
  io::NamedTensors comfy{{"visual_projection.weight", at::zeros({4, 16})}, {"vision_model.embeddings.position_ids", at::arange(5)}};
  for (const auto& [name, tensor] : all()) comfy.emplace_back("vision_model." + name, tensor);
  io::save_safetensors(folder / "clip_vision_h.safetensors", comfy);

  ModelEntry named{
      "original", {}, "", nullptr, io::TensorSource::of_shapes("original", {{"visual.cls_embedding", {1, 1, 16}}}, at::kFloat)};
  const auto original_keys = find_clip_vision({{named}, {}}).keys;
  io::NamedTensors original{
      {"visual.head", at::zeros({16, 4})}, {"textual.token_embedding.weight", at::zeros({9, 4})}, {"log_scale", at::zeros({1})}};
  for (const auto& [name, tensor] : original_keys.to_file(all())) {
    bool has_batch = name == "cls_embedding" || name == "pos_embedding";
    auto shaped = name == "cls_embedding" ? tensor.reshape({1, 1, -1}) : name == "pos_embedding" ? tensor.reshape({1, 5, 16}) : tensor;
    EXPECT_TRUE(has_batch || name.starts_with("transformer.") || name.starts_with("p")) << name;
    original.emplace_back("visual." + name, shaped.contiguous());
  }
  io::save_safetensors(folder / "original.safetensors", original);

  for (const char* name : {"clip_vision_h.safetensors", "original.safetensors"}) {
    const auto files = files_of(folder / name);
    const auto source = find_clip_vision(files);
    ASSERT_NE(source.entry, nullptr) << name;
    const auto read = clip_vision_config(nullptr, source.shapes());
    EXPECT_EQ(read.num_places, 5) << name;
    EXPECT_EQ(read.num_layers, 3) << name;
    EXPECT_LE(relative_error(states(source), expected.tensor("clip.states")), tolerance(2e-6)) << name;
  }
}
