// Wrong options and wrong files, through the program: one line that says what was wrong and what to try, the right exit code, nothing
// half-written. (Runs that go wrong later: bad_run_test.cpp.)
#include <unistd.h>

#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

using BadOption = BadInput;
using BadModel = BadInput;
using BadData = BadInput;
using BadLora = BadInput;

TEST_F(BadOption, UnknownNamesComeWithTheNearest) {
  refused(2, train("--lora_rnk 4"), {"'lora_rnk' is not known", "did you mean 'lora_rank'?"});
  refused(2, "trian --max_steps 1", {"'trian' is not a verb", "did you mean 'train'?"});
  refused(2, train("--optimizer adamv"), {"optimizer", "did you mean \"adamw\"?"});
  refused(2, train("--lr_scheduler cosin"), {"lr_scheduler", "did you mean \"cosine\"?"});
  refused(2, train("--timestep_sampling flux_shft"), {"timestep_sampling", "flux_shift"});
  refused(2, train("--timestep_sampling beta"), {"noising_weight", "noising_bias", "above 0"});
  refused(2, train("--min_t 0.5"), {"timestep_sampling default is a grid", "min_timestep_boundary"});
  refused(2, train("--loss_weighting unifrom"), {"loss_weighting", "uniform"});
  refused(2, train("--dtype fp8"), {"dtype 'fp8' is not known", "bf16"});
  refused(2, train("--save_dtype int4"), {"dtype 'int4' is not known"});
  refused(2, train("--device gpu"), {"device 'gpu' is not known", "cuda"});
}

TEST_F(BadOption, NamesAndNumbersAreRefusedBeforeAnyFileIsOpened) {
  auto nowhere = [&](const std::string& more) { return train_with("--model /no/such/model --dataset_metadata_path /no/such.csv", more); };
  for (const char* name : {"discrete_flow_shift", "lora_alpha", "max_grad_norm", "weight_decay", "learning_rate", "lr_warmup_steps"}) {
    refused(2, nowhere(std::string("--") + name + " -1"), {name, "-1"});
  }
  for (const char* name : {"learning_rate", "lora_alpha", "logit_mean", "mode_scale", "embedded_guidance"}) {
    refused(2, nowhere(std::string("--") + name + " nan"), {name, "finite"});
    refused(2, nowhere(std::string("--") + name + " inf"), {name, "finite"});
  }
  refused(2, nowhere("--lr_warmup_steps 3"), {"warm-up of 3", "lower lr_warmup_steps"});
  refused(2, nowhere("--optimizer sgd"), {"optimizer", "adamw"});
  refused(2, nowhere("--optimizer lion --optimizer_args beta=0.9"), {"lion has no 'beta'", "beta1"});
  refused(2, nowhere("--optimizer adamw_schedulefree --lr_scheduler cosine"), {"adamw_schedulefree", "constant"});
  refused(2, nowhere("--optimizer adamw_schedulefree --ema_decay 0.9"), {"ema_decay", "take"});
  refused(2, nowhere("--lr_groups dit"), {"lr_groups", "name=number"});
  refused(2, nowhere("--device tpu"), {"device", "cpu"});
  refused(2, "sample --model /no/such/model --prompt cat --height 0", {"height", "0"});
  refused(2, "sample --model /no/such/model --prompt cat --width -16", {"width", "-16"});
  refused(2, "sample --model /no/such/model --prompt cat --num_inference_steps 0", {"num_inference_steps"});
  refused(2, "sample --model /no/such/model --prompt cat --cfg_scale inf", {"cfg_scale", "finite"});
  refused(2, "sample --model /no/such/model", {"nothing to draw", "--prompt"});
}

TEST_F(BadOption, Contradictions) {
  refused(2, train("--trainable_models dit --lora_checkpoint x.safetensors"), {"trainable_models", "lora_checkpoint", "one of them"});
  refused(2, train("--width 0"), {"both height and width"});
  refused(2, train("--height 50"), {"multiples of 16", "50"});
  refused(2, train("--batch_size 2 --replay " + quoted(kGolden / "replay.safetensors")), {"replay", "batch_size to 1"});
  refused(2, train("--init random"), {"init random needs trainable_models dit"});
  refused(2, train("--max_steps 0 --num_epochs 0"), {"nothing to do"});
  refused(2, train("--lora_rank four"), {"lora_rank", "four"});
  refused(2, train("--lora_target_modules to_k,nothing --lora_target_modules nothing,at_all"),
          {"'nothing,at_all' matches none of the", "for example"});
  refused(2, train("--lora_target_modules to_q,to_kk"),
          {"lora_target_modules names 'to_kk'", "no layer is called so", "did you mean 'to_k'?"});
  refused(2, train("--lora_target_modules attn.to_q,attn.to_kk"), {"'attn.to_kk'", "did you mean 'attn.to_k'?"});
  refused(2, train("--lora_base_model dit,text_encoder --lora_target_modules to_q,q_proj,nosuch_thing"), {"'nosuch_thing'"});
  refused(2, train("--fp8_models dit --high_precision_layers nosuch"), {"high_precision_layers: 'nosuch' fits the whole name of no layer"});
  refused(2, train("--high_precision_layers x_embeder,proj_out"), {"'x_embeder'", "did you mean 'x_embedder'?"});
}

TEST_F(BadOption, OfDiffSynthStudio) {
  refused(2, train("--quant_options dit:torchao_int8_w8a8"), {"dit:torchao_int8_w8a8 has no counterpart here", "--weight_format int8"});
  refused(2, train("--extra_inputs nexus_gen_reference_image"),
          {"extra_inputs 'nexus_gen_reference_image' is for models that edit a picture"});
  refused(2, train("--task direct_destill"), {"task 'direct_destill' is not known", "choose one of sft, direct_distill"});
  auto accepted =
      run_burnish(train("--remove_prefix_in_ckpt pipe.dit. --align_to_opensource_format --dataset_num_workers 8 "
                        "--find_unused_parameters --use_gradient_checkpointing --use_gradient_checkpointing_offload "
                        "--max_steps 1"));
  EXPECT_EQ(accepted.exit_code, 0) << accepted.output;
  EXPECT_NE(accepted.output.find("without effect here: remove_prefix_in_ckpt, align_to_opensource_format, find_unused_parameters"),
            std::string::npos)
      << accepted.output;
}

TEST_F(BadOption, InAConfigFile) {
  auto config = [&](const std::string& text) { return train("--config " + quoted(write("run.toml", text))); };
  refused(2, config("learning_rate = \"fast\"\n"), {"'learning_rate' must be a number"});
  refused(2, config("seed = 4.5\n"), {"'seed' must be a whole number"});
  refused(2, config("lora_rnk = 4\n"), {"'lora_rnk' is not known", "lora_rank"});
  refused(3, config("seed = = 4\n"), {"run.toml line 1"});
  refused(3, train("--config " + quoted(at("none.toml"))), {"none.toml", "no such file"});
}

TEST_F(BadModel, NotThere) {
  refused(3, train_with("--model " + quoted(at("nowhere")) + " " + golden_data(), ""), {"nowhere' does not exist", "looked for at"});
  refused(2, train_with(golden_data(), ""), {"no model given", "--model"});
  refused(2, train_with("--model_paths not-json " + golden_data(), ""), {"model_paths must be a JSON list"});
  auto of_a_hub = train_with("--model_id_with_origin_paths author/model:*.safetensors " + golden_data(), "");
  expect_one_error(run_burnish(of_a_hub, "BURNISH_LOG=error DIFFSYNTH_SKIP_DOWNLOAD=true"), 3,
                   {"author/model", "nothing matches", "DIFFSYNTH_MODEL_BASE_PATH"});
  refused(3, "inspect " + quoted(at("nowhere")), {"nowhere", "does not exist"});
  refused(2, "inspect --first -1 " + quoted(at("nowhere")), {"--first", "0 or more"});
}

TEST_F(BadModel, EncodersOfAnotherModel) {
  auto with = [&](const char* component, const fs::path& other) {
    std::string arguments;
    for (const char* part : {"transformer", "text_encoder", "text_encoder_2", "vae"})
      arguments += "--model " + (std::string(part) == component ? quoted(other) : quoted(kGolden / "model" / part)) + " ";
    auto tokenizer = [](const char* name) { return "--" + std::string(name) + "_path " + quoted(kAssets / name) + " "; };
    return train_with(arguments + tokenizer("tokenizer") + tokenizer("tokenizer_2") + golden_data(), "");
  };
  refused(3, with("text_encoder", kGolden.parent_path() / "sdxl_pipeline/model/text_encoder"),
          {"pooled embeddings of width", "different models"});
  refused(3, with("text_encoder_2", kAssets / "text_encoder_2"), {"texts of width", "different models"});
}

/// A copy of the small model that a test can damage.
class DamagedModel : public BadInput {
 protected:
  DamagedModel() { fs::copy(kGolden / "model", model(), fs::copy_options::recursive); }
  fs::path model() const { return at("model"); }
  fs::path transformer() const { return model() / "transformer/diffusion_pytorch_model.safetensors"; }
  std::string run(const std::string& more = "") const {
    return train_with("--model " + quoted(model()) + " " + tokenizers() + golden_data(), more);
  }
  /// Rewrites a weight file with `change` applied to its tensors.
  void rewrite(const fs::path& file, const std::function<void(std::string&, at::Tensor&)>& change) const {
    io::NamedTensors tensors;
    {
      auto source = io::SafetensorsFile::open(file);
      for (const auto& [name, info] : source->tensors()) tensors.emplace_back(name, source->tensor(name).clone());
    }
    for (auto& [name, tensor] : tensors) change(name, tensor);
    io::save_safetensors(file, tensors);
  }
};

TEST_F(DamagedModel, Truncated) {
  fs::resize_file(transformer(), fs::file_size(transformer()) / 2);
  refused(3, run(), {"transformer/diffusion_pytorch_model.safetensors"});
  fs::resize_file(transformer(), 100);
  refused(3, run(), {"claims a header of", "truncated"});
  fs::resize_file(transformer(), 0);
  refused(3, run(), {"too short for a safetensors file"});
}

TEST_F(DamagedModel, ATokenizerOfMoreWordsThanTheEncoderKnows) {
  auto vocabularies = fs::path(test::kCheckout) / "tests/golden/tokenizers";
  refused(3, run("--tokenizer_path " + quoted(vocabularies / "clip")),
          {"has 49408 tokens and the CLIP text encoder knows", "different models"});
  refused(3, run("--tokenizer_2_path " + quoted(vocabularies / "t5")), {"has 32000 tokens and the T5 encoder knows", "different models"});
}

TEST_F(DamagedModel, WithoutPartsThatNothingRuns) {
  auto index = nlohmann::json::parse(read_file(model() / "model_index.json"));
  for (const char* name : {"safety_checker", "feature_extractor", "image_encoder"}) index[name] = {"transformers", "Nobody"};
  write("model/model_index.json", index.dump());
  auto outcome = run_burnish(run("--max_steps 1"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

/// Bits of permission do not bind root, under whom the program then runs as nobody.
TEST_F(DamagedModel, PartsThatMayNotBeReadAreNamed) {
  std::string as_nobody = geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  for (const auto& folder : {at(""), model()}) fs::permissions(folder, fs::perms(0755));
  auto command = as_nobody + quoted(test::kProgram) + " --version >/dev/null 2>&1";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "nobody may not run the program here, or there is no setpriv";
  fs::create_directory(at("work"));
  fs::permissions(at("work"), fs::perms(0777));
  auto of_model = "--model " + quoted(model()) + " " + tokenizers() + "--dtype fp32 ";
  const std::vector<std::string> commands{
      "train " + of_model + golden_data() + "--max_steps 1 --output_path " + quoted(at("work/run")),
      "plan " + of_model + golden_data() + "--max_steps 1",
      "sample " + of_model + "--prompt cat --height 32 --width 32 --num_inference_steps 1 --output_path " + quoted(at("work/drawn")),
      "inspect " + quoted(model()), "convert " + quoted(model()) + " " + quoted(at("work/converted.safetensors"))};
  for (const std::string part : {"transformer", "transformer/config.json", "vae/diffusion_pytorch_model.safetensors"}) {
    const auto path = model() / part;
    const auto before = fs::status(path).permissions();
    fs::permissions(path, fs::perms::none);
    for (const auto& arguments : commands) {
      SCOPED_TRACE(part + ": " + arguments);
      auto outcome = run_burnish(arguments, "BURNISH_LOG=error HOME=" + quoted(at("work")) + " " + as_nobody);
      expect_one_error(outcome, 3, {part, "Permission denied"});
    }
    fs::permissions(path, before);
  }
  fs::permissions(model() / "scheduler", fs::perms(0444));  // a folder that may be listed, and not be entered
  for (size_t i : {size_t{0}, size_t{2}}) {
    auto outcome = run_burnish(commands[i], "BURNISH_LOG=error HOME=" + quoted(at("work")) + " " + as_nobody);
    expect_one_error(outcome, 3, {"scheduler/scheduler_config.json", "Permission denied"});
  }
  fs::permissions(model() / "scheduler", fs::perms(0755));
}

TEST_F(DamagedModel, AShardIsMissing) {
  fs::rename(transformer(), model() / "transformer/diffusion_pytorch_model-00001-of-00002.safetensors");
  write("model/transformer/diffusion_pytorch_model.safetensors.index.json",
        R"({"weight_map": {"context_embedder.bias": "diffusion_pytorch_model-00001-of-00002.safetensors",
                           "x_embedder.bias": "diffusion_pytorch_model-00002-of-00002.safetensors"}})");
  refused(3, run(), {"index.json", "diffusion_pytorch_model-00002-of-00002.safetensors", "not there"});
}

TEST_F(DamagedModel, APartIsMissing) {
  auto with = [&](const std::string& parts) {
    std::string models;
    for (const auto& part : {"transformer", "text_encoder", "text_encoder_2", "vae"}) {
      if (parts.find(std::string(part) + " ") != std::string::npos) models += "--model " + quoted(model() / part) + " ";
    }
    return train_with(models + golden_data(), parts.find("tokenizers") != std::string::npos ? tokenizers() : "");
  };
  refused(3, with("transformer text_encoder text_encoder_2 tokenizers"), {"needs a KL autoencoder", "--model"});
  refused(3, with("transformer text_encoder_2 vae tokenizers"), {"needs a CLIP text encoder", "--model"});
  refused(3, with("transformer vae text_encoder tokenizers"), {"needs a T5 encoder", "--model"});
  refused(3, with("text_encoder text_encoder_2 vae tokenizers"), {"needs a transformer", "--model"});
  refused(3, with("transformer text_encoder text_encoder_2 vae "), {"no CLIP tokenizer", "--tokenizer_path"});
  fs::remove_all(model() / "vae");
  refused(3, run(), {"lists the component 'vae'"});
}

TEST_F(DamagedModel, TensorsOfAnotherShapeOrName) {
  auto vae = model() / "vae/diffusion_pytorch_model.safetensors";
  rewrite(vae, [](std::string& name, at::Tensor& tensor) {
    if (name == "decoder.conv_out.bias") tensor = tensor.narrow(0, 0, 2).clone();
    if (name == "encoder.conv_in.bias") name = "encoder.conv_in.bais";
  });
  refused(3, run(), {"missing (encoder.conv_in.bias)", "encoder.conv_in.bais", "of another shape", "decoder.conv_out.bias"});
}

TEST_F(DamagedModel, WeightsThatAreNotNumbers) {
  auto spoil = [](const std::string& which) {
    return [which](std::string& name, at::Tensor& tensor) {
      if (name == which) tensor.flatten()[0] = NAN;
    };
  };
  rewrite(transformer(), spoil("transformer_blocks.0.attn.to_q.weight"));
  auto outcome = run_burnish(run(), "BURNISH_LOG=error");
  expect_one_error(outcome, 3, {"'transformer_blocks.0.attn.to_q.weight'", "is not finite", "get it again"});
  EXPECT_FALSE(fs::exists(out() / "state") || fs::exists(out() / "step-1.safetensors"));
  auto picture = "sample --model " + quoted(model()) + " " + tokenizers() +
                 "--dtype fp32 --height 48 --width 64 --num_inference_steps 1 --prompt cat --output_path " + quoted(at("pictures"));
  expect_one_error(run_burnish(picture, "BURNISH_LOG=error"), 3, {"'transformer_blocks.0.attn.to_q.weight'", "not finite"});
  EXPECT_EQ(files_below(at("pictures")), std::vector<std::string>{});

  fs::remove_all(out());
  rewrite(model() / "vae/diffusion_pytorch_model.safetensors", spoil("encoder.conv_in.weight"));
  refused(3, run(), {"'encoder.conv_in.weight'", "is not finite"});
}

TEST_F(BadLora, ForAnotherModel) {
  auto other = at("other.safetensors");
  auto key = std::string("transformer.transformer_blocks.7.attn.to_q.");
  io::save_safetensors(other, {{key + "lora_A.weight", at::zeros({4, 32})}, {key + "lora_B.weight", at::zeros({32, 4})}});
  refused(3, train("--lora_checkpoint " + quoted(other)), {"another model", "transformer_blocks.7.attn.to_q"});
  refused(3, sample("--lora " + quoted(other)), {"another model", "transformer_blocks.7.attn.to_q"});
  key = "transformer.transformer_blocks.0.attn.to_q.";
  io::save_safetensors(other, {{key + "lora_A.weight", at::zeros({4, 99})}, {key + "lora_B.weight", at::zeros({32, 4})}});
  refused(3, train("--lora_checkpoint " + quoted(other)), {"another model", "99", "32"});
  refused(3, sample("--lora " + quoted(other) + ":0.5"), {"another model", "99"});
}

TEST_F(BadLora, NoLoraAtAll) {
  auto whole = kGolden / "model/transformer/diffusion_pytorch_model.safetensors";
  refused(3, train("--lora_checkpoint " + quoted(whole)), {"is not a key of a LoRA", "whole model"});
  refused(3, train("--lora_checkpoint " + quoted(at("none.safetensors"))), {"none.safetensors", "No such file"});
  refused(3, sample("--lora " + quoted(at("none.safetensors"))), {"none.safetensors", "No such file"});
  refused(2, sample("--lora " + quoted(at("none.safetensors")) + ":nan"), {"strength", "finite"});
}

/// Metadata and pictures of a test's own.
class BadPictures : public BadInput {
 protected:
  std::string run(const std::string& metadata_name, const std::string& more = "") const {
    return train_with(golden_model() + "--dataset_metadata_path " + quoted(at(metadata_name)), more);
  }
  void picture(const std::string& name, double share_of_bytes = 1) const {
    auto bytes = read_file(kGolden / "pictures/0.png");
    write(name, bytes.substr(0, static_cast<size_t>(share_of_bytes * static_cast<double>(bytes.size()))));
  }
};

TEST_F(BadPictures, Metadata) {
  picture("good.png");
  refused(3, run("none.csv"), {"none.csv", "No such file"});
  write("a.csv", "image,prompt\ngood.png,cat\nmissing.png,dog\n");
  refused(3, run("a.csv"), {"1 of 2 samples", "row 1", "missing.png does not exist", "--on_bad_sample skip"});
  write("blank.csv", "image,prompt\n,cat\ngood.png,dog\n");
  refused(3, run("blank.csv"), {"row 0", "column 'image' names no file"});
  write("cells.csv", "image,prompt\ngood.png,a cat, asleep\n");
  refused(3, run("cells.csv"), {"line 2", "3 cells under 2 columns", "quote"});
  write("columns.csv", "image,words\ngood.png,cat\n");
  refused(3, run("columns.csv"), {"no column named prompt", "words"});
  write("empty.csv", "image,prompt\n");
  refused(3, run("empty.csv"), {"no rows"});
  write("lines.jsonl", "{\"image\": \"good.png\", \"prompt\": \"cat\"}\n{\"image\": \"good.png\", \n");
  refused(3, run("lines.jsonl"), {"line 2", "JSON"});
  write("list.json", "{\"image\": \"good.png\"}");
  refused(3, run("list.json"), {"list of objects"});
  refused(3, train("--validation_metadata_path " + quoted(at("held_out.csv"))), {"held_out.csv", "No such file"});
  refused(3, train("--validation_metadata_path " + quoted(at("blank.csv"))), {"blank.csv", "1 of 2 samples", "row 0"});
  refused(3, sample("--prompts " + quoted(at("prompts.txt"))), {"prompts.txt", "No such file"});
  write("a.txt", "good.png cat\n");
  refused(3, run("a.txt"), {".csv, .json, .jsonl or .parquet"});
}

TEST_F(BadPictures, UnreadableOnesStopTheRunOrAreLeftOut) {
  picture("good.png");
  picture("half.png", 0.5);
  write("nothing.png", "");
  write("text.png", "no picture");
  write("a.csv", "image,prompt\nhalf.png,a\ngood.png,b\nnothing.png,c\ntext.png,d\n");
  refused(3, run("a.csv"), {"3 of 4 samples", "row 0", "half.png", "--on_bad_sample skip"});
  auto outcome = run_burnish(run("a.csv", "--on_bad_sample skip"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* words : {"3 of the samples cannot be used", "row 0: ", "row 2: ", "row 3: ", "1 sample, 1 batch"})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << words << " is not in: " << outcome.output;
  EXPECT_EQ(read_log(out()).size(), 2u);
  fs::remove_all(out());
  write("bad.csv", "image,prompt\nhalf.png,a\n");
  refused(3, run("bad.csv", "--on_bad_sample skip"), {"none of the 1 samples can be used", "row 0"});
}

TEST_F(BadPictures, TooSmall) {
  picture("good.png");
  write("a.csv", "image,prompt\ngood.png,a\n");
  refused(3, run("a.csv", "--max_pixels 200"), {"good.png", "16 pixels"});
}
