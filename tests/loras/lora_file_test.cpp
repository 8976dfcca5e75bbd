// Which component and layer the names in an adapter file mean.
#include "loras/lora_file.h"

#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class LoraFiles : public testing::Test {
 protected:
  LoraFiles() { test::save_skeleton(folder / "model.safetensors", /*num_experts=*/1); }

  /// A file of rank 1 on layers, given by their names there and sides.
  struct Layer {
    std::string name;
    int64_t out, in;
  };
  std::string write(const std::vector<Layer>& layers, const char* down = ".lora_A.weight", const char* up = ".lora_B.weight") const {
    io::NamedTensors tensors;
    for (const auto& [name, out, in] : layers) {
      tensors.emplace_back(name + down, at::ones({1, in}));
      tensors.emplace_back(name + up, at::ones({out, 1}));
    }
    auto file = folder / "lora.safetensors";
    io::save_safetensors(file, tensors);
    return file.string();
  }
  /// "component/path" of all that a file adapts.
  std::vector<std::string> read(const std::string& file) const {
    std::vector<std::string> found;
    for (const auto& [component, weights] : loras::read(*model(), file)) {
      for (const auto& w : weights) found.push_back(component + "/" + w.path);
    }
    return found;
  }
  std::unique_ptr<models::Model> model() const { return test::open_skeleton(folder / "model.safetensors"); }

  test::Scratch folder;
};

const std::vector<std::string> kBoth{"dit/blocks.1.mlp.up", "text_encoder/projector.linear"};

}  // namespace

TEST_F(LoraFiles, OfPeftSayTheComponent) {
  EXPECT_EQ(read(write({{"dit.blocks.1.mlp.up", 32, 16}, {"text_encoder.projector.linear", 16, 24}})), kBoth);
}

TEST_F(LoraFiles, OfKohyaSayItInOneWord) {
  auto file =
      write({{"lora_dit_blocks_1_mlp_up", 32, 16}, {"lora_text_encoder_projector_linear", 16, 24}}, ".lora_down.weight", ".lora_up.weight");
  EXPECT_EQ(read(file), kBoth);
}

TEST_F(LoraFiles, WithoutAComponentAdaptTheDenoiser) {
  EXPECT_THAT(read(write({{"blocks.0.to_q", 16, 16}})), ElementsAre("dit/blocks.0.to_q"));
}

TEST_F(LoraFiles, OfAnotherModelAreRefused) {
  EXPECT_THAT(error_of([&] { read(write({{"dit.blocks.7.to_q", 16, 16}})); }), HasSubstr("blocks.7.to_q"));
  EXPECT_THAT(error_of([&] { read(write({{"dit.blocks.0.to_q", 16, 99}})); }), HasSubstr("99"));
}

TEST_F(LoraFiles, OfAComponentThatIsNotThereAreRefused) {
  auto file = write({{"text_encoder.projector.linear", 16, 24}});
  io::NamedTensors denoiser;
  {
    auto whole = io::SafetensorsFile::open(folder / "model.safetensors");
    for (const auto& [name, info] : whole->tensors()) {
      if (name.starts_with("dit.")) denoiser.emplace_back(name, whole->tensor(name).clone());
    }
  }
  io::save_safetensors(folder / "model.safetensors", denoiser);
  auto text = error_of([&] { read(file); });
  EXPECT_THAT(text, HasSubstr("adapts the text_encoder (and 1 layers of it), which is not among the files of this run"));
}

TEST_F(LoraFiles, AreWrittenUnderNamesThatAreReadAgain) {
  auto prefixes = loras::layer_prefixes(*model(), "text_encoder");
  EXPECT_EQ(prefixes.diffusers, "text_encoder.");
  EXPECT_EQ(prefixes.kohya, "lora_text_encoder_");
  EXPECT_EQ(prefixes.lycoris, "lora_text_encoder_");
  EXPECT_EQ(loras::layer_prefixes(*model(), "dit").lycoris, "lycoris_");
  EXPECT_THAT(read(write({{prefixes.diffusers + "projector.linear", 16, 24}})), ElementsAre("text_encoder/projector.linear"));
}
