// LTX-2.5's texts in the whole program, in the published layout, beside transformers and diffusers (tests/golden/make_ltx2_texts.py): the
// text encoder's file has the projection and the tokenizer, the transformer's has the connectors.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/files.h"
#include "models/families/ltx2/keys.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"

namespace burnish::ltx2_texts_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class Ltx2Texts : public BadInput {
 protected:
  Ltx2Texts() {
    auto text = tensors_below(file_, "text.");
    const auto tokenizer = io::read_text(golden_path("tokenizers/gemma_json/tokenizer.json"));
    text.emplace_back("tokenizer_json", at::from_blob(const_cast<char*>(tokenizer.data()), {std::ssize(tokenizer)}, at::kByte).clone());
    text.emplace_back("vision_model.patch_embedding.weight", at::zeros({2, 2}));
    io::save_safetensors(at("text.safetensors"), text);
    auto transformer = models::ltx2::original_keys().to_file(tensors_below(golden("ltx2_pipeline/version_25.safetensors"), "w."));
    for (auto& [name, tensor] : transformer) name.insert(0, "model.diffusion_model.");
    for (auto& one : tensors_below(file_, "connector.")) transformer.push_back(one);
    io::save_safetensors(at("transformer.safetensors"), transformer);
  }

  static io::NamedTensors tensors_below(const io::TensorSource& file, const std::string& prefix) {
    const auto source = file.below(prefix);
    io::NamedTensors tensors;
    for (const auto& name : source.names()) tensors.emplace_back(name, source.tensor(name));
    return tensors;
  }
  /// How far the nearest of a cache's values of that name is from what is expected; the empty caption's is there as well.
  static double least_error(const fs::path& cache, const std::string& name, const at::Tensor& expected) {
    double least = 1;
    for (const auto& entry : fs::recursive_directory_iterator(cache)) {
      if (entry.path().extension() != ".safetensors") continue;
      const auto kept = io::TensorSource::open({entry.path()});
      for (const auto& one : kept.names()) {
        if (one.ends_with(name)) least = std::min(least, relative_error(digest(kept.tensor(one)), expected));
      }
    }
    return least;
  }
  std::string model() const {
    return "--model " + quoted(at("text.safetensors")) + " --model " + quoted(at("transformer.safetensors")) + " --model " +
           quoted(kLtx2 / "model/vae") + " --dtype fp32 ";
  }

  io::TensorSource file_ = golden("ltx2_texts_25.safetensors");
};

}  // namespace

TEST_F(Ltx2Texts, WhatStreamsReadIsWhatDiffusersMakes) {
  const auto captions = nlohmann::json::parse(file_.metadata().at("captions"));
  for (size_t i = 0; i < captions.size(); ++i) {
    const auto number = std::to_string(i), cache = "cache" + number;
    const auto caption = captions[i].get<std::string>();
    const auto rows = "image,prompt\n" + (kGolden / "pictures/0.png").string() + ",\"" + caption + "\"\n";
    run_ok("train " + model() + "--dataset_metadata_path " + quoted(write("data" + number + ".csv", rows)) + " " + kLtx2Size +
           "--lora_rank 4 --task sft:data_process --output_path " + quoted(at(cache)));
    EXPECT_LE(least_error(at(cache), ".text_tokens", file_.tensor(number + ".video")), tolerance(1e-5)) << caption;
    EXPECT_LE(least_error(at(cache), ".sound_text_tokens", file_.tensor(number + ".audio")), tolerance(1e-5)) << caption;
  }
}

TEST_F(Ltx2Texts, TheFilesSayWhatTheyAre) {
  EXPECT_THAT(run_ok("inspect " + quoted(at("text.safetensors"))), HasSubstr("Gemma text encoder + LTX-2 connectors of texts"));
  EXPECT_THAT(run_ok("inspect " + quoted(at("transformer.safetensors"))), HasSubstr("LTX-2.5 transformer"));
}

}  // namespace burnish::ltx2_texts_test
