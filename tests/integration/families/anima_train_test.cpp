// What of Anima other families have not: a conditioner between two vocabularies, which is a component of its own in some files and a part
// of the transformer's in others.
#include <gmock/gmock.h>

#include <cmath>

#include "io/json.h"
#include "models/families/anima/keys.h"
#include "tests/integration/families/anima.h"
#include "tests/integration/model_run.h"

namespace burnish::anima_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLong = "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";
const std::string kBoth = quoted(kAnima / "both.safetensors") + " ";
const std::string kSmall = "--lora_rank 4 ", kOnBoth = kSmall + "--lora_base_model dit,text_conditioner ";

class AnimaRun : public ModelRun {
 protected:
  AnimaRun() : ModelRun(anima_model()) {}

  /// Writes the transformer and the conditioner into one file, in the names of ComfyUI behind a prefix.
  fs::path write_original(const std::string& name, const std::string& prefix, bool with_conditioner = true) {
    auto of = [](const char* folder) { return io::TensorSource::open_folder(kAnima / "model" / folder, {"diffusion_pytorch_model"}); };
    auto transformer = of("transformer"), conditioner = of("text_conditioner");
    io::NamedTensors ours, all;
    for (const auto& path : transformer.names()) ours.emplace_back(path, transformer.tensor(path));
    for (auto& [path, tensor] : models::anima::original_keys().to_file(ours)) all.emplace_back(prefix + path, tensor);
    all.emplace_back(prefix + "pos_embedder.dim_spatial_range", at::ones({4}));  // that no code runs
    for (const auto& path : conditioner.names()) {
      if (with_conditioner) all.emplace_back(prefix + "llm_adapter." + path, conditioner.tensor(path));
    }
    io::save_safetensors(at(name), all);
    return at(name);
  }
};

}  // namespace

TEST_F(AnimaRun, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "cat") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " ";
  // With the conditioner trained, and with its results kept; with a caption that is empty.
  for (const auto& options : {kOnBoth, kSmall, kSmall + "--caption_dropout 0.5 "}) {
    train("together", data + options + "--overwrite --batch_size 4");
    train("apart", data + options + "--overwrite --gradient_accumulation_steps 4");
    auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
    ASSERT_EQ(together.size(), 3u);
    for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
  }
}

TEST_F(AnimaRun, PairsOfABatchHaveTextsOfUnequalLengthBesideTheModelBeforeTraining) {
  const auto data = write("pairs.csv", "image,rejected_image,prompt\n0.png,1.png,cat\n2.png,3.png," + kLong + "\n");
  auto pairs = "--task dpo --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(data) + " ";
  train("together", pairs + kSmall + "--batch_size 2");
  EXPECT_NEAR(of_log("together", "loss").front(), std::log(2.0), 1e-6) << "nothing is trained yet";
}

TEST_F(AnimaRun, PartsThatDoNotTrainLeaveMemory) {
  const auto cached = "--cache_path " + quoted(at("cache")) + " ";
  train("live", kSmall + cached + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", kSmall + cached + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
  // Whatever of the conditioner trains, its vocabulary does not.
  auto said = train("conditioner", kOnBoth + cached + "--precompute_timesteps on");
  EXPECT_THAT(said, HasSubstr("in memory while training: text_conditioner.body, "));
  EXPECT_THAT(said, HasSubstr("read_tokens: 4 of 4 results to compute"));
}

TEST_F(AnimaRun, BlocksBeforeTheFirstThatTrainsAreComputedAhead) {
  const auto cached = "--lora_rank 4 --overwrite --cache_path " + quoted(at("cache")) + " ";
  auto same = [&](const std::string& layers, const std::string& in_memory) {
    const auto options = cached + "--lora_target_modules '" + layers + "' ";
    train("live", options + "--precompute_timesteps off");
    EXPECT_THAT(train("ahead", options + "--precompute_timesteps blocks"), HasSubstr("in memory while training: " + in_memory)) << layers;
    expect_same("live", "ahead");
  };
  same("transformer_blocks\\.1\\..*attn.*", "dit.last_blocks.body, ");
  same("proj_out", "dit.last_blocks.body, ");
  // The modulation of the later blocks trains beside them.
  same("transformer_blocks\\.2\\..*", "dit.last_blocks.modulation, dit.last_blocks.body, ");
  auto refused = [&](const std::string& options, const std::string& words) {
    auto outcome = run_burnish(train_command("none", cached + "--precompute_timesteps blocks " + options));
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_THAT(outcome.output, HasSubstr(words)) << options;
  };
  refused("--lora_target_modules 'transformer_blocks\\.0\\.norm1\\.linear_2'", "finds no frozen blocks to compute ahead");
  refused("--lora_target_modules 'time_embed.*'", "finds no frozen blocks to compute ahead");
  refused("--lora_target_modules 'transformer_blocks\\.2\\..*' --lora_base_model dit --trainable_models text_conditioner",
          "is not known before training");
}

TEST_F(AnimaRun, AttentionAndMlpTrainUnlessOtherwiseAsked) {
  EXPECT_THAT(train("body", kSmall), HasSubstr("on 30 layers"));
  EXPECT_THAT(train("both", kOnBoth), HasSubstr("on 20 layers"));
  const auto of_diffsynth = "self_attn.q_proj,self_attn.output_proj,mlp.layer2,adaln_modulation_mlp.2,final_layer.linear";
  EXPECT_THAT(train("diffsynth", kSmall + "--lora_target_modules " + of_diffsynth), HasSubstr("on 13 layers"));
}

TEST_F(AnimaRun, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(anima_model(), "--lora " + kBoth);
  EXPECT_GT(relative_error(latents(anima_model(), ""), expected), 1e-3);
  struct Case {
    std::string format, of_body, of_conditioner;
  };
  for (const auto& [format, of_body, of_conditioner] :
       {Case{"kohya", "lora_unet_blocks_1_self_attn_q_proj.lora_down.weight",
             "lora_unet_llm_adapter_blocks_0_cross_attn_k_proj.lora_down.weight"},
        Case{"comfyui", "diffusion_model.blocks.2.mlp.layer2.lora_A.weight", "diffusion_model.llm_adapter.blocks.1.mlp.0.lora_B.weight"},
        Case{"diffsynth", "blocks.2.cross_attn.output_proj.lora_A.default.weight", "llm_adapter.out_proj.lora_A.default.weight"},
        Case{"diffusers", "transformer.transformer_blocks.0.attn1.to_q.lora_A.weight", "text_conditioner.blocks.0.mlp.2.lora_A.weight"},
        Case{"onetrainer", "lora_transformer_transformer_blocks_0_attn1_to_q.lora_down.weight",
             "lora_unet_llm_adapter_blocks_0_mlp_2.lora_down.weight"}}) {
    auto file = at(format + ".safetensors");
    run_ok("convert " + kBoth + quoted(file) + " --lora_format " + format + " --model " + quoted(kAnima / "model"));
    auto source = io::TensorSource::open({file.string()});
    EXPECT_TRUE(source.contains(of_body)) << format;
    EXPECT_TRUE(source.contains(of_conditioner)) << format;
    for (const auto& name : source.names()) {
      bool is_refused = (format == "diffusers" || format == "comfyui") && name.ends_with(".alpha");
      EXPECT_FALSE(is_refused) << name << " is refused by diffusers' loader";
    }
    EXPECT_LE(relative_error(latents(anima_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
  // ai-toolkit has our paths behind ComfyUI's prefix.
  io::NamedTensors renamed;
  auto source = io::TensorSource::open({(kAnima / "both.safetensors").string()});
  for (const auto& name : source.names()) {
    const std::string prefix = "transformer.";
    auto path = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    renamed.emplace_back("diffusion_model." + path, source.tensor(name));
  }
  io::save_safetensors(at("ai.safetensors"), renamed);
  EXPECT_LE(relative_error(latents(anima_model(), "--lora " + quoted(at("ai.safetensors"))), expected), tolerance(1e-5));
}

TEST_F(AnimaRun, FilesOfEveryLayoutAreTheSameModel) {
  // Where no config.json says it, a text has as many rows as of the published model.
  fs::copy(kAnima / "model", at("published"), fs::copy_options::recursive);
  auto config = io::read_json(kAnima / "model/text_conditioner/config.json");
  config.erase("min_sequence_length");
  write("published/text_conditioner/config.json", config.dump());
  const auto expected = latents(anima_model(at("published")), "");
  EXPECT_GT(relative_error(latents(anima_model(), ""), expected), 1e-3);
  auto tokenizers =
      "--tokenizer_path " + quoted(kAnima / "model/tokenizer") + " --tokenizer_2_path " + quoted(kAnima / "model/t5_tokenizer");
  // As it is published, the transformer and the conditioner in one file.
  for (const std::string prefix : {"net.", "", "model.diffusion_model."}) {
    auto file = write_original("split.safetensors", prefix);
    auto mixed = "--model " + quoted(file) + " --model " + quoted(kAnima / "model") + " --dtype fp32 ";
    EXPECT_LE(relative_error(latents(mixed, ""), expected), tolerance(1e-5)) << prefix;
  }
  EXPECT_THAT(run_ok("inspect " + quoted(at("split.safetensors"))),
              HasSubstr("Anima transformer (3 layers, width 24, original names) + Anima text conditioner"));
  std::string apart;
  for (const char* part : {"transformer", "text_conditioner", "text_encoder", "vae"})
    apart += "--model " + quoted(kAnima / "model" / part) + " ";
  EXPECT_LE(relative_error(latents(apart + "--dtype fp32 ", tokenizers), latents(anima_model(), "")), tolerance(1e-5));
}

TEST_F(AnimaRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kAnima / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Anima"));
  auto source = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name : {"net.blocks.0.self_attn.q_proj.weight", "net.llm_adapter.embed.weight", "net.llm_adapter.blocks.1.mlp.0.bias"})
    EXPECT_TRUE(source.contains(name)) << name;
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(io::is_there(at("back") / "modular_model_index.json"));
  EXPECT_TRUE(at::equal(latents(anima_model(at("back")), ""), latents(anima_model(), "")));
}

TEST_F(AnimaRun, CosmosItselfIsRefusedByItsName) {
  auto file = write_original("cosmos.safetensors", "net.", /*with_conditioner=*/false);
  EXPECT_THAT(run_ok("inspect " + quoted(file)), HasSubstr("Cosmos-Predict2 transformer (3 layers, width 24, original names)"));
  auto outcome = run_burnish("sample --model " + quoted(file) + " --prompt cat --output_path " + quoted(at("none")));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("Cosmos-Predict2, which is not supported without the text conditioner"));
}

TEST_F(AnimaRun, TheWholeConditionerIsWrittenUnderDiffusersNames) {
  train("whole", "--trainable_models text_conditioner");
  auto source = io::TensorSource::open_folder(kAnima / "model/text_conditioner", {"diffusion_pytorch_model"});
  auto written = io::TensorSource::open({(at("whole") / "step-3.text_conditioner.safetensors").string()});
  for (const auto& name : source.names()) {
    ASSERT_TRUE(written.contains(name)) << name;
    EXPECT_FALSE(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat))) << name;
  }
}

TEST_F(AnimaRun, AMissingVocabularyIsNamedByItsOption) {
  fs::create_directories(at("elsewhere"));
  std::string moved;
  for (const char* part : {"transformer", "text_conditioner", "text_encoder", "vae"}) {
    fs::copy(kAnima / "model" / part, at("elsewhere") / part, fs::copy_options::recursive);
    moved += "--model " + quoted(at("elsewhere") / part) + " ";
  }
  auto outcome = run_burnish("sample " + moved + "--tokenizer_path " + quoted(kAnima / "model/tokenizer") + " --prompt cat --output_path " +
                             quoted(at("none")));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("no T5 tokenizer beside the model; name its folder with --tokenizer_2_path"));
}

}  // namespace burnish::anima_train_test
