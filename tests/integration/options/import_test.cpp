// Settings of other programs, imported and trained with.
#include <gmock/gmock.h>

#include "foreign/program.h"
#include "tests/integration/families/chroma.h"
#include "tests/integration/families/ernie_image.h"
#include "tests/integration/families/flux2.h"
#include "tests/integration/families/flux2_dev.h"
#include "tests/integration/families/ideogram4.h"
#include "tests/integration/families/krea2.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/qwen_layered.h"
#include "tests/integration/families/zimage.h"
#include "tests/integration/options/import_verb.h"
#include "tests/places.h"
#include "train/options/fields.h"
#include "train/options/train_options.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ImportVerb, EveryRowNamesAnOption) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  std::set<std::string> names;
  for (const auto& field : fields.list()) names.insert(field.name);
  for (const auto& program : foreign::programs()) {
    for (const auto& row : program.table().rows) {
      if (!row.ours.empty()) {
        EXPECT_TRUE(names.contains(row.ours)) << program.word << ": " << row.theirs << " -> " << row.ours;
      }
    }
  }
}

TEST_F(ImportVerb, KohyasCommandLineWithItsDatasetFile) {
  write("data.toml",
        "[general]\ncaption_extension = '.txt'\nshuffle_caption = true\n\n[[datasets]]\nresolution = [64, 48]\nbatch_size = 2\n\n"
        "  [[datasets.subsets]]\n  image_dir = '" +
            pictures() + "'\n  num_repeats = 3\n  flip_aug = true\n");
  auto said = import_file(
      "train.sh", "accelerate launch --num_cpu_threads_per_process 1 flux_train_network.py \\\n  --pretrained_model_name_or_path=" +
                      in_model("transformer") + " --clip_l " + in_model("text_encoder") + " --t5xxl " + in_model("text_encoder_2") +
                      " --ae \"" + in_model("vae") +
                      "\" \\\n --dataset_config=data.toml --network_module=networks.lora_flux --network_dim=4 "
                      "--learning_rate=1e-4 --optimizer_type AdamW8bit --max_train_epochs=10 --blocks_to_swap=2 --guidance_scale=1.0 "
                      "--timestep_sampling flux_shift --model_prediction_type raw --cache_latents --network_train_unet_only "
                      "--gradient_checkpointing --max_data_loader_n_workers 3 --output_dir=\"" +
                      out().string() + "\" --output_name x\n");
  for (const char* words : {"different here: blocks_to_swap = 2: a number of blocks",
                            "nothing to set here: cache_latents, launch.num_cpu_threads_per_process\n"})
    EXPECT_THAT(said, HasSubstr(words));
  for (const char* line : {"output_name = \"x\"  # output_name\n",
                           "lora_rank = 4  # network_dim\n",
                           "lora_alpha = 1.0  # network_alpha (its default)\n",
                           "optimizer = \"adamw8bit\"",
                           "num_epochs = 10",
                           "timestep_sampling = \"flux_shift\"",
                           "loss_weighting = \"uniform\"",
                           "dataset_repeat = 3",
                           "batch_size = 2",
                           "resolution = [\"64,48\"]",
                           "caption_extension = \".txt\"",
                           "shuffle_caption = true",
                           "random_flip = true",
                           "max_grad_norm = 1.0",
                           "lora_base_model = \"dit\"",
                           "lora_format = \"kohya\"",
                           "embedded_guidance = 1.0",
                           "use_gradient_checkpointing = true",
                           "blocks_to_swap = 3",
                           "dtype = \"fp32\"",
                           "dataset_num_workers = 3"})
    EXPECT_THAT(toml(), HasSubstr(line));
  EXPECT_THAT(toml(), Not(HasSubstr("max_steps")));
  EXPECT_THAT(toml(), Not(HasSubstr("bucket")));
  starts();
}

TEST_F(ImportVerb, SaysAsJsonWhatBecameOfEveryName) {
  const auto file = write("kohya.toml",
                          "pretrained_model_name_or_path = \"flux1-dev.safetensors\"\nnetwork_module = \"networks.lora_flux\"\n"
                          "network_dim = 7\nno_such_name = 3\n");
  auto outcome = run_burnish("import " + quoted(file) + " --json", "BURNISH_LOG=error");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto said = nlohmann::json::parse(outcome.output);
  EXPECT_THAT(said["settings"].get<std::string>(), HasSubstr("lora_rank = 7"));
  EXPECT_THAT(said["program"].get<std::string>(), HasSubstr("kohya"));
  EXPECT_THAT(said["not_carried"].dump(), HasSubstr("no_such_name"));
  EXPECT_GT(said["num_carried"], 0);
  EXPECT_NE(said["before_it_trains"], "") << "no model is named";
}

TEST_F(ImportVerb, KohyasTrainingOfAllOfFluxFitsIn80GBWithRoom) {
  auto said =
      import_file("train.sh",
                  "accelerate launch --mixed_precision bf16 flux_train.py --pretrained_model_name_or_path flux1-dev.safetensors --clip_l "
                  "clip_l.safetensors --t5xxl t5xxl.safetensors --ae ae.safetensors --train_data_dir /pictures --resolution 1024,1024 "
                  "--optimizer_type adamw8bit --learning_rate 1e-5 --max_train_steps 1000 --mixed_precision bf16 --full_bf16 "
                  "--gradient_checkpointing --mem_eff_attn --cache_latents_to_disk --cache_text_encoder_outputs_to_disk");
  EXPECT_THAT(said, HasSubstr("fused_backward_pass (its default) = false: gradients are freed one by one"));
  auto recipe = read_file(fs::path(test::kCheckout) / "recipes/flux_full_80gb.toml");
  for (const char* line : {"trainable_models = \"dit\"", "dtype = \"bf16\"", "optimizer = \"adamw8bit\"", "learning_rate = 1e-",
                           "fused_backward_pass = true", "use_gradient_checkpointing = true"})
    for (const auto& text : {toml(), recipe}) EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(toml(), HasSubstr("/cache\"  # cache_latents_to_disk, cache_text_encoder_outputs_to_disk"));
  auto plan = run_burnish("plan --config " + quoted(at("run.toml")) +
                              " --model flux-dev --dataset_metadata_path '' --device cuda --device_memory 80GB --host_memory 64GiB --json",
                          "BURNISH_LOG=error");
  auto json = nlohmann::json::parse(plan.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << plan.output;
  EXPECT_TRUE(json["fits"].get<bool>());
  EXPECT_LT(json["bytes"].get<double>(), 56e9);
}

TEST_F(ImportVerb, KohyasGradientsStayTogetherWhereTheyAreNeededTogether) {
  const std::string command = "accelerate launch flux_train.py --pretrained_model_name_or_path f.safetensors --mixed_precision bf16 ";
  for (const char* more : {"--gradient_accumulation_steps 2", "--optimizer_type prodigy", "--network_module networks.lora_flux"}) {
    import_file("train.sh", command + more, "--overwrite");
    EXPECT_THAT(toml(), Not(HasSubstr("fused_backward_pass"))) << more;
  }
}

TEST_F(ImportVerb, KohyasConfigFileWithAlgorithmAndTextEncoder) {
  import_file("kohya.toml",
              "[model]\npretrained_model_name_or_path = 'x.safetensors'\n[network]\nnetwork_module = 'lycoris.kohya'\n"
              "network_args = ['algo=locon', 'dora_wd=True', 'conv_dim=4']\ntext_encoder_lr = [1e-5]\nunet_lr = 2e-4\n[train]\n"
              "learning_rate = 1e-4\noptimizer_type = 'Prodigy'\noptimizer_args = ['d_coef=2', 'betas=(0.9, 0.99)']\n"
              "max_train_steps = 200\nlr_warmup_steps = 0.1\nmin_timestep = 200\nmax_timestep = 900\n"
              "[data]\nresolution = 512\nenable_bucket = true\nbucket_reso_steps = 32\ncaption_extension = 'cap'\nkeep_tokens = 2\n");
  for (const char* line :
       {"lora_type = \"dora\"", "lora_format = \"lycoris\"", "learning_rate = 0.0002  # unet_lr",
        "text_encoder_lr = \"text_encoder=1e-05\"", "lora_base_model = \"unet,text_encoder\"",
        "optimizer_args = \"betas=0.9,0.99,d_coef=2\"", "weight_decay = 0.0", "lr_warmup_steps = 20", "min_timestep_boundary = 0.1",
        "max_timestep_boundary = 0.8", "max_steps = 200", "resolution = [\"512,512\"]", "enable_bucket = true",
        "bucket_no_upscale = false  # bucket_no_upscale (its default)\n", "bucket_reso_steps = 32", "caption_extension = \".cap\"",
        "#   keep_tokens: keep_tokens belongs to shuffle_caption", "#   network_args.conv_dim = 4: name the layers"})
    EXPECT_THAT(toml(), HasSubstr(line));
}

TEST_F(ImportVerb, SettingsThatTheWindowOverKohyasScriptsSaves) {
  auto sd15 = golden_path("sd15_pipeline/model");
  import_file("preset.json", R"({"LoRA_type": "LyCORIS/LoKr", "LyCORIS_preset": "full", "pretrained_model_name_or_path": ")" + sd15 +
                                 R"(", "train_data_dir": ")" + pictures() + R"(", "max_resolution": "64,64", "enable_bucket": true,
      "min_bucket_reso": 64, "max_bucket_reso": 128, "bucket_reso_steps": "8", "bucket_no_upscale": true, "network_dim": 4, "network_alpha": 2,
      "factor": 6, "conv_dim": 8, "epoch": 7, "max_train_epochs": "", "max_train_steps": "", "lr_warmup": 10, "learning_rate": "0.0002",
      "unet_lr": 0.0002, "text_encoder_lr": 0, "optimizer": "AdamW8bit", "optimizer_args": "\"weight_decay=0.1\" \"betas=0.9,0.98\"",
      "lr_scheduler": "cosine", "train_batch_size": "2", "mixed_precision": "no", "save_precision": "fp16", "noise_offset_type": "Original",
      "noise_offset": "0.05", "multires_noise_iterations": 8, "min_snr_gamma": 5, "seed": "1234", "shuffle_caption": true, "keep_tokens": "1",
      "sdxl": false, "timestep_sampling": "sigma", "guidance_scale": 3.5, "logit_mean": 0, "cache_latents": true, "xformers": "xformers",
      "additional_parameters": "--lr_scheduler_num_cycles 2", "num_cpu_threads_per_process": 2, "caption_extension": ".txt", "weights": ""})");
  for (const char* line : {"lora_type = \"lokr\"", "lokr_factor = 6", "lora_rank = 4", "lora_alpha = 2.0", "lora_base_model = \"unet\"",
                           "resolution = [\"64,64\"]", "num_epochs = 7", "learning_rate = 0.0002", "optimizer = \"adamw8bit\"",
                           "optimizer_args = \"betas=0.9,0.98\"", "weight_decay = 0.1", "batch_size = 2", "noise_offset = 0.05",
                           "min_snr_gamma = 5.0", "seed = 1234", "save_dtype = \"fp16\"", "bucket_reso_steps = 8", "keep_tokens = 1"})
    EXPECT_THAT(toml(), HasSubstr(line));
  EXPECT_THAT(toml(), AllOf(Not(HasSubstr("timestep_sampling")), Not(HasSubstr("embedded_guidance")))) << "they are of other models";
  starts("", "--tokenizer_path " + quoted(kAssets / "tokenizer") + " ");
  auto said = import_file("flux.json", R"({"LoRA_type": "Flux1", "flux1_checkbox": true, "max_resolution": "512,512", "epoch": 4,
      "timestep_sampling": "sigmoid", "discrete_flow_shift": 3, "guidance_scale": 1, "ae": "ae.safetensors", "network_dim": 2,
      "network_alpha": 16, "unet_lr": 0.0004, "text_encoder_lr": 0, "optimizer": "AdamW8bit", "fp8_base": true})",
                          "--overwrite");
  for (const char* line :
       {"timestep_sampling = \"sigmoid\"", "embedded_guidance = 1.0", "lora_base_model = \"dit\"", "fp8_models = \"dit\""})
    EXPECT_THAT(toml(), HasSubstr(line));
  said = import_file("whole.json", R"({"max_resolution": "512,512", "epoch": 1, "mixed_precision": "fp16", "optimizer": "Prodigy",
      "optimizer_args": "decouple=True d_coef=0.8", "learning_rate": 1})",
                     "--overwrite");
  EXPECT_THAT(toml(),
              AllOf(HasSubstr("dtype = \"bf16\""), HasSubstr("trainable_models = \"unet"), HasSubstr("optimizer_args = \"d_coef=0.8\"")));
  EXPECT_THAT(said, HasSubstr("different here: mixed_precision = fp16: "));
  EXPECT_THAT(
      import_file("sd3.json", R"({"LoRA_type": "SD3", "sd3_checkbox": true, "max_resolution": "512,512", "epoch": 1})", "--overwrite"),
      Not(HasSubstr("this kind is not trained here")));
  EXPECT_THAT(toml(), HasSubstr("lora_base_model = \"dit,text_encoder,text_encoder_2\""));
}

TEST_F(ImportVerb, OneTrainersJson) {
  auto said =
      import_file("preset.json", R"({"training_method": "LORA", "model_type": "FLUX_DEV_1", "base_model_name": ")" + in_model("") + R"(",
      "concepts": [{"path": ")" + pictures() +
                                     R"(", "type": "STANDARD", "balancing": 2.0, "loss_weight": 1.0}], "resolution": "64",
      "batch_size": 2, "epochs": 3, "learning_rate": 0.0003, "lora_rank": 4, "lora_decompose": true, "train_dtype": "FLOAT_32",
      "transformer": {"train": true, "weight_dtype": "FLOAT_8", "guidance_scale": 1.0}, "text_encoder": {"train": false},
      "text_encoder_2": {"train": false}, "timestep_distribution": "LOGIT_NORMAL", "noising_weight": 0.5, "noising_bias": 0.25,
      "optimizer": {"optimizer": "ADAFACTOR", "relative_step": false, "fused_back_pass": true}, "layer_filter": "attn,ff.net",
      "layer_filter_preset": "custom", "output_model_destination": "models/cat.safetensors", "output_model_format": "KOHYA_LORA",
      "ema": "GPU", "save_every": 2, "save_every_unit": "HOUR", "dataloader_threads": 4})");
  EXPECT_THAT(toml(), HasSubstr("fused_backward_pass = true"));
  EXPECT_THAT(said, HasSubstr("different here: output_model_destination = models/cat.safetensors: a folder here"));
  for (const char* line : {"lora_type = \"dora\"",
                           "dora_norm = \"input\"",
                           "lora_alpha = 1.0  # lora_alpha (its default)",
                           "logit_std = 1.5",
                           "logit_mean = -0.25",
                           "fp8_models = \"dit\"",
                           "weight_format = \"fp8_tensor\"",
                           "discrete_flow_shift = 1.0",
                           "lora_target_modules = \".*(attn|ff\\\\.net).*\"",
                           "optimizer_args = \"relative_step=false\"",
                           "ema_decay = 0.999",
                           "save_minutes = 120.0",
                           "lr_warmup_steps = 200",
                           "dataset_repeat = 2",
                           "resolution = [\"64\"]",
                           "enable_bucket = true",
                           "bucket_rule = \"onetrainer\"",
                           "bucket_no_upscale = false",
                           "use_gradient_checkpointing = true",
                           "dataset_num_workers = 4"})
    EXPECT_THAT(toml(), HasSubstr(line));
  starts("--lora_format auto");
}

TEST_F(ImportVerb, OneTrainersSizesAndCaptions) {
  auto said = import_file("preset.json", R"({"training_method": "LORA", "model_type": "FLUX_DEV_1", "base_model_name": "x", "train_dtype":
      "BFLOAT_16", "concepts": [{"path": "pictures", "type": "STANDARD", "text": {"prompt_source": "sample", "enable_tag_shuffling": true,
      "tag_delimiter": ";", "keep_tags_count": 2, "tag_dropout_enable": true, "tag_dropout_mode": "RANDOM", "tag_dropout_probability": 0.25}}],
      "resolution": "512,768", "aspect_ratio_bucketing": true, "dataloader_threads": 2, "no_such_name": 7, "no_such_list": []})");
  for (const char* line : {"resolution = [\"512\", \"768\"]", "multi_resolution = \"one\"", "enable_bucket = true",
                           "shuffle_caption = true", "caption_separator = \";\"", "keep_tokens = 2", "caption_tag_dropout_rate = 0.25"})
    EXPECT_THAT(toml(), HasSubstr(line));
  EXPECT_THAT(said, HasSubstr("not carried: no_such_name = 7: not known here"));
  EXPECT_THAT(said, HasSubstr("nothing to set here: concept.type\n"));
  import_file("exact.json", R"({"training_method": "LORA", "model_type": "FLUX_DEV_1", "base_model_name": "x", "resolution": "768x512"})",
              "--overwrite");
  EXPECT_THAT(toml(), AllOf(HasSubstr("resolution = [\"768,512\"]"), Not(HasSubstr("enable_bucket"))));
}

TEST_F(ImportVerb, AiToolkitsYaml) {
  auto said = import_file(
      "job.yaml",
      "job: extension\nconfig:\n  name: cat\n  process:\n    - type: sd_trainer\n      training_folder: runs\n"
      "      network: {type: lora, linear: 4, linear_alpha: 8}\n      save: {save_every: 250, max_step_saves_to_keep: 4}\n"
      "      datasets:\n        - folder_path: " +
          pictures() +
          "\n          caption_ext: txt\n"
          "          caption_dropout_rate: 0.05\n          resolution: [32, 64]\n          bucket_tolerance: 16\n          "
          "shuffle_tokens: true\n"
          "          trigger_word: p3rson\n"
          "      train:\n        steps: 2000\n        lr: 1e-4\n        optimizer: adamw8bit\n        dtype: fp32\n"
          "        noise_scheduler: flowmatch\n        ema_config: {use_ema: true, ema_decay: 0.99}\n"
          "      model: {name_or_path: " +
          in_model("") +
          ", is_flux: true, quantize: true}\n"
          "      sample: {prompts: [a cat, '[trigger] asleep'], sample_every: 250, seed: 42, walk: true, width: 64, height: 48, "
          "sample_steps: 2, guidance_scale: 1}\n      trigger_word: p3rson\n");
  EXPECT_EQ(read_file(at("run.prompts.txt")), "a cat --w 64 --h 48 --d 42 --s 2 --l 1\np3rson asleep --w 64 --h 48 --d 42 --s 2 --l 1\n");
  EXPECT_THAT(toml(), AllOf(HasSubstr("run.prompts.txt\"  # sample.prompts"), HasSubstr("preview_steps = 250")));
  EXPECT_THAT(said, HasSubstr("not carried: sample.walk = true: not known here"));
  for (const char* line :
       {"lora_rank = 4", "lora_alpha = 0.0", "save_steps = 250", "keep_last = 4", "resolution = [\"32\", \"64\"]", "enable_bucket = true",
        "seed = 42", "trigger_word = \"p3rson\"", "max_steps = 2000",
        "timestep_sampling = \"sigmoid\"  # train.timestep_type (its default)", "ema_decay = 0.99", "fp8_models = \"dit\"",
        "caption_dropout = 0.05", "shuffle_caption = true", "caption_extension = \".txt\"", "save_dtype = \"fp16\"", "/runs/cat\""})
    EXPECT_THAT(toml(), HasSubstr(line));
  starts();
}

TEST_F(ImportVerb, DiffusionPipesToml) {
  write("data.toml", "resolutions = [64]\nenable_ar_bucket = true\n[[directory]]\npath = '" + pictures() +
                         "'\nnum_repeats = 2\nmask_path = '" + pictures() + "'\ncaption_prefix = 'a photo of'\ncache_shuffle_num = 4\n");
  auto said = import_file("pipe.toml",
                          "output_dir = 'runs'\ndataset = 'data.toml'\nepochs = 9\nmicro_batch_size_per_gpu = 2\ngradient_clipping = 1.0\n"
                          "warmup_steps = 100\nblocks_to_swap = 2\nactivation_checkpointing = 'unsloth'\nsave_every_n_epochs = 2\n"
                          "[model]\ntype = 'flux'\ndiffusers_path = '" +
                              in_model("") +
                              "'\ndtype = 'float32'\ntransformer_dtype = 'float8'\n"
                              "flux_shift = true\n[adapter]\ntype = 'lora'\nrank = 4\n[optimizer]\ntype = 'adamw_optimi'\nlr = 2e-5\n"
                              "betas = [0.9, 0.99]\nweight_decay = 0.01\n");
  for (const char* line :
       {"lora_rank = 4", "mask_folder = ", "timestep_sampling = \"flux_shift\"", "optimizer_args = \"betas=0.9,0.99\"",
        "resolution = [\"64,64\"]", "enable_bucket = true", "bucket_rule = \"onetrainer\"", "caption_prefix = \"a photo of\"",
        "shuffle_caption = true", "dataset_repeat = 2", "learning_rate = 2e-05", "use_gradient_checkpointing = true",
        "use_gradient_checkpointing_offload = true", "blocks_to_swap = 2", "lora_format = \"diffusers\""})
    EXPECT_THAT(toml(), HasSubstr(line));
  starts();
}

TEST_F(ImportVerb, MusubisTomlAndItsDataset) {
  write("data.toml", "[general]\nresolution = [64, 48]\nbatch_size = 2\nenable_bucket = true\n[[datasets]]\nimage_directory = '" +
                         pictures() + "'\ncache_directory = 'c'\nnum_repeats = 2\n");
  import_file(
      "musubi.toml",
      "dit = '" + in_model("transformer") + "'\nvae = '" + in_model("vae") + "'\ntext_encoder1 = '" + in_model("text_encoder") +
          "'\ntext_encoder2 = '" + in_model("text_encoder_2") +
          "'\ndataset_config = 'data.toml'\nnetwork_module = 'networks.lora_flux'\n"
          "network_dim = 4\ntimestep_sampling = 'shift'\noptimizer_type = 'adamw8bit'\nlearning_rate = 1e-4\nmixed_precision = 'no'\n"
          "max_train_epochs = 16\nfp8_base = true\nfp8_scaled = true\nvae_tiling = true\n");
  for (const char* line :
       {"lora_rank = 4", "lora_alpha = 1.0", "discrete_flow_shift = 1.0  # discrete_flow_shift (its default)", "resolution = [\"64,48\"]",
        "enable_bucket = true", "bucket_no_upscale = false", "num_epochs = 16", "fp8_models = \"dit\"", "vae_tile_size = 256"})
    EXPECT_THAT(toml(), HasSubstr(line));
  starts();
}

TEST_F(ImportVerb, SettingsOfChroma) {
  const auto model = (kChroma / "model").string();
  auto carried = [&](const char* name, const std::string& text, const std::string& size) {
    EXPECT_THAT(import_file(name, text, "--overwrite"), Not(HasSubstr("this kind is not trained here"))) << name;
    starts("--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --dtype fp32 --overwrite " + size, "");
  };
  carried("onetrainer.json",
          R"({"training_method": "LORA", "model_type": "CHROMA_1", "base_model_name": ")" + model +
              R"(", "text_encoder": {"train": false}, "transformer": {"train": true}, "train_dtype": "BFLOAT_16"})",
          "--resolution 64");
  carried("job.yaml",
          "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
          "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n      model: {name_or_path: " +
              model + ", arch: chroma}\n",
          "--max_pixels 4096");
  carried("sd-scripts.toml",
          "network_module = \"networks.lora_flux\"\nmodel_type = \"chroma\"\nguidance_scale = 0.0\nmax_train_steps = 4\n"
          "pretrained_model_name_or_path = \"" +
              model + "\"\n",
          "--max_pixels 4096");
  carried("pipe.toml",
          "output_dir = 'runs'\nepochs = 1\n[model]\ntype = 'chroma'\ndiffusers_path = '" + model +
              "'\ndtype = 'bfloat16'\n[adapter]\ntype = 'lora'\nrank = 4\n[optimizer]\ntype = 'adamw'\n",
          "--resolution 64");
}

TEST_F(ImportVerb, SettingsOfErnieImage) {
  const auto model = (kErnieImage / "model").string();
  const std::string data =
      "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --resolution 64 --dtype fp32 --overwrite";
  import_file("onetrainer.json", R"({"training_method": "LORA", "model_type": "ERNIE", "base_model_name": ")" + model +
                                     R"(", "transformer": {"train": true}, "layer_filter": "self_attention,mlp"})");
  EXPECT_THAT(toml(), HasSubstr("lora_base_model = \"dit\"")) << "the text encoder does not train there";
  EXPECT_THAT(starts(data, ""), HasSubstr("on 21 layers")) << "seven of each of three";
  import_file("job.yaml",
              "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
              "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n"
              "      model: {name_or_path: " +
                  model + ", arch: ernie_image}\n",
              "--overwrite");
  starts("--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --max_pixels 4096 --dtype fp32 --overwrite", "");
}

TEST_F(ImportVerb, SettingsOfZImageAndQwenImage) {
  auto zimage = (kZImage / "model").string(), qwen = (kQwenImage / "model").string();
  auto of = [](const std::string& model, const char* part) { return model + "/" + part; };
  const std::string data =
      "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --resolution 64 --dtype fp32 --overwrite";
  import_file("onetrainer.json",
              R"({"training_method": "LORA", "model_type": "QWEN", "base_model_name": ")" + qwen +
                  R"(", "text_encoder": {"train": false, "weight_dtype": "FLOAT_8"}, "layer_filter": "attn,img_mlp,txt_mlp",
      "transformer": {"train": true, "weight_dtype": "FLOAT_8"}, "train_dtype": "BFLOAT_16", "timestep_distribution": "LOGIT_NORMAL"})");
  EXPECT_THAT(toml(), HasSubstr("lora_base_model = \"dit\"")) << "there is no second text encoder";
  starts(data, "");
  import_file("onetrainer.json",
              R"({"training_method": "LORA", "model_type": "Z_IMAGE", "base_model_name": ")" + zimage +
                  R"(", "text_encoder": {"train": false}, "transformer": {"train": true, "weight_dtype": "INT_W8A8"},
      "layer_filter": "^(?=.*attention)(?!.*refiner).*,^(?=.*feed_forward)(?!.*refiner).*", "layer_filter_regex": true})",
              "--overwrite");
  for (const char* line : {"lora_base_model = \"dit\"", "weight_format = \"int8\"", "int8_compute = true",
                           "lora_target_modules = \"(((?=.*attention)(?!.*refiner).*).*|((?=.*feed_forward)(?!.*refiner).*).*)\""})
    EXPECT_THAT(toml(), HasSubstr(line));
  EXPECT_THAT(starts(data, ""), HasSubstr("on 21 layers")) << "seven of each of three blocks, none of those that refine";
  import_file("job.yaml",
              "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
              "{folder_path: x, control_path: y}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n"
              "      model: {name_or_path: " +
                  zimage + ", arch: zimage}\n",
              "--overwrite");
  starts("--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --max_pixels 4096 --dtype fp32 --overwrite", "");
  import_file(
      "pipe.toml",
      "output_dir = 'runs'\nepochs = 1\n[model]\ntype = 'z_image'\ndiffusion_model = '" + of(zimage, "transformer") + "'\nvae = '" +
          of(zimage, "vae") + "'\ntext_encoders = [{path = '" + of(zimage, "text_encoder") + "', type = 'lumina2'}]\nmerge_adapters = ['" +
          (kZImage / "lora.safetensors").string() +
          "']\ndtype = 'bfloat16'\ndiffusion_model_dtype = 'float8'\n[adapter]\ntype = 'lora'\nrank = 4\n[optimizer]\ntype = 'adamw'\n",
      "--overwrite");
  EXPECT_THAT(toml(), AllOf(HasSubstr("fp8_models = \"dit\""), HasSubstr("preset_lora_path = [")));
  starts(data, "--tokenizer_path " + quoted(fs::path(zimage) / "tokenizer") + " ");
  for (const auto& [family, model, num_layers] :
       {std::tuple{"qwen_image", qwen, "on 36 layers"}, std::tuple{"zimage", zimage, "on 21 layers"}}) {
    import_file("train.sh",
                "accelerate launch --mixed_precision bf16 src/musubi_tuner/" + std::string(family) + "_train_network.py \\\n  --dit " +
                    of(model, "transformer") + " --vae " + of(model, "vae") + " --text_encoder " + of(model, "text_encoder") +
                    " \\\n  --dataset_config d.toml --timestep_sampling shift --discrete_flow_shift 2.0 --network_dim 4 "
                    "--network_module networks.lora_" +
                    family + "\n",
                "--overwrite");
    EXPECT_THAT(starts(data, "--tokenizer_path " + quoted(fs::path(model) / "tokenizer") + " "), HasSubstr(num_layers)) << family;
  }
}

TEST_F(ImportVerb, SettingsOfFlux2) {
  const auto model = (kFlux2 / "model").string();
  auto carried = [&](const char* name, const std::string& text, const std::string& more = "", const std::string& tokenizers = "") {
    EXPECT_THAT(import_file(name, text, "--overwrite"), Not(HasSubstr("is trained here"))) << name;
    return starts("--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --dtype fp32 --overwrite " + more, tokenizers);
  };
  carried("onetrainer.json",
          R"({"training_method": "LORA", "model_type": "FLUX_2", "base_model_name": ")" + model +
              R"(", "text_encoder": {"train": false}, "transformer": {"train": true, "weight_dtype": "INT_W8A8"},
      "layer_filter": "transformer_block", "train_dtype": "BFLOAT_16", "timestep_distribution": "LOGIT_NORMAL",
      "dynamic_timestep_shifting": true})",
          "--resolution 64");
  carried("job.yaml",
          "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
          "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n      model: {name_or_path: " +
              model + ", arch: flux2_klein_4b}\n",
          "--max_pixels 4096");
  carried("pipe.toml",
          "output_dir = 'runs'\nepochs = 1\n[model]\ntype = 'flux2'\ndiffusion_model = '" + model + "/transformer'\nvae = '" + model +
              "/vae'\ntext_encoders = [{path = '" + model +
              "/text_encoder', type = 'flux2'}]\ndtype = 'bfloat16'\ntimestep_sample_method = 'logit_normal'\nshift = 3\n"
              "[adapter]\ntype = 'lora'\nrank = 4\n[optimizer]\ntype = 'adamw'\n",
          "--resolution 64", "--tokenizer_path " + quoted(fs::path(model) / "tokenizer") + " ");
  const std::string musubi = "python src/musubi_tuner/flux_2_train_network.py --dit " + model + "/transformer --vae " + model +
                             "/vae --text_encoder " + model +
                             "/text_encoder --dataset_config d.toml --timestep_sampling flux2_shift --network_dim 4 "
                             "--network_module networks.lora_flux_2 ";
  carried("train.sh", musubi + "--model_version klein-base-4b\n", "--resolution 64",
          "--tokenizer_path " + quoted(fs::path(model) / "tokenizer") + " ");
  EXPECT_THAT(toml(), HasSubstr("timestep_sampling = \"flux_shift\""));
}

/// Their settings tell it from FLUX.2 klein, by a name or by none.
TEST_F(ImportVerb, SettingsOfFlux2Dev) {
  const auto model = (kFlux2Dev / "model").string();
  auto carried = [&](const char* name, const std::string& text, const std::string& more, const std::string& tokenizers = "") {
    EXPECT_THAT(import_file(name, text, "--overwrite"), Not(HasSubstr("is trained here"))) << name;
    return starts("--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --dtype fp32 --overwrite " + more, tokenizers);
  };
  const auto tokenizer = "--tokenizer_path " + quoted(fs::path(model) / "tokenizer") + " ";
  carried("onetrainer.json",
          R"({"training_method": "LORA", "model_type": "FLUX_2", "base_model_name": ")" + model +
              R"(", "text_encoder": {"train": false}, "transformer": {"train": true, "guidance_scale": 3.0},
      "layer_filter": "transformer_block", "train_dtype": "BFLOAT_16"})",
          "--resolution 64");
  EXPECT_THAT(toml(), HasSubstr("embedded_guidance = 3"));
  carried("job.yaml",
          "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
          "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n      model: {name_or_path: " +
              model + ", arch: flux2}\n",
          "--max_pixels 4096");
  carried("train.sh",
          "accelerate launch train_dreambooth_lora_flux2.py --pretrained_model_name_or_path " + model +
              " --instance_data_dir x --instance_prompt cat --rank 4 --guidance_scale 1 --max_train_steps 4 --resolution 64\n",
          "");
  EXPECT_THAT(toml(), Not(HasSubstr("embedded_guidance = 3.5")));
  const std::string musubi = "python src/musubi_tuner/flux_2_train_network.py --dit " + model + "/transformer --vae " + model +
                             "/vae --text_encoder " + model +
                             "/text_encoder --dataset_config d.toml --timestep_sampling flux2_shift --network_dim 4 "
                             "--network_module networks.lora_flux_2 ";
  for (const std::string version : {"", "--model_version dev "}) carried("train.sh", musubi + version + "\n", "--resolution 64", tokenizer);
}

TEST_F(ImportVerb, SettingsOfKrea2) {
  const auto model = (kKrea2 / "model").string(), data = "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv");
  auto carried = [&](const char* name, const std::string& text, const std::string& more) {
    EXPECT_THAT(import_file(name, text, "--overwrite"), Not(HasSubstr("is trained here"))) << name;
    return starts(data + " --dtype fp32 --overwrite " + more, "");
  };
  // Its text encoder does not train there, whatever the settings say.
  carried("onetrainer.json",
          R"({"training_method": "LORA", "model_type": "KREA_2", "base_model_name": ")" + model +
              R"(", "text_encoder": {"train": true}, "train_dtype": "BFLOAT_16", "dynamic_timestep_shifting": true})",
          "--resolution 64");
  EXPECT_THAT(toml(), HasSubstr("lora_base_model = \"dit\""));
  auto of_ai_toolkit = [&](const std::string& kwargs) {
    return "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
           "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n      model: {name_or_path: " +
           model + ", arch: krea2, model_kwargs: {max_text_length: 64, " + kwargs + "}}\n";
  };
  carried("job.yaml", of_ai_toolkit("edit: false"), "--max_pixels 4096");
  EXPECT_THAT(toml(), HasSubstr("max_sequence_length = 64"));
  const std::string edits = "edit: true, control_image_max_pixels: 65536, kv_cache: true, vae_path: other/vae, text_encoder_path: q";
  EXPECT_THAT(import_file("job.yaml", of_ai_toolkit(edits), "--overwrite"), HasSubstr("reference pictures see text and target, too"));
  EXPECT_THAT(toml(), AllOf(HasSubstr("other/vae"), HasSubstr("\"q\""), HasSubstr("extra_inputs = \"edit_image\""),
                            HasSubstr("reference_pixels = 65536")));
  const std::string musubi = "python krea2_train_network.py --dit " + model +
                             " --dataset_config d.toml --timestep_sampling krea2_shift --network_dim 4 "
                             "--network_module networks.lora_krea2 ";
  EXPECT_THAT(carried("train.sh", musubi + "\n", "--resolution 64"), HasSubstr("on 56 layers"));
  EXPECT_THAT(toml(), AllOf(HasSubstr("timestep_sampling = \"krea2_shift\""), Not(HasSubstr("is_distilled"))));
  EXPECT_THAT(import_file("train.sh", musubi + "--dit_variant turbo --turbo_dit turbo.safetensors\n", "--overwrite"),
              HasSubstr("previews are drawn with the model that trains"));
  EXPECT_THAT(toml(), HasSubstr("is_distilled = true"));
}

TEST_F(ImportVerb, SettingsOfIdeogram4) {
  const auto model = (kIdeogram4 / "model").string(), data = "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv");
  auto carried = [&](const char* name, const std::string& text, const std::string& more) {
    EXPECT_THAT(import_file(name, text, "--overwrite"), Not(HasSubstr("is trained here"))) << name;
    return starts(data + " --dtype fp32 --overwrite " + more, "");
  };
  carried("onetrainer.json",
          R"({"training_method": "LORA", "model_type": "IDEOGRAM_4", "base_model_name": ")" + model +
              R"(", "transformer": {"train": true}, "text_encoder": {"train": true}})",
          "--resolution 64");
  EXPECT_THAT(toml(), HasSubstr("lora_base_model = \"dit\"")) << "the text encoder does not train there";
  carried("job.yaml",
          "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
          "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4}\n      model: {name_or_path: " +
              model + ", arch: ideogram4, model_kwargs: {max_text_length: 64}}\n",
          "--max_pixels 4096");
  EXPECT_THAT(toml(), HasSubstr("max_sequence_length = 64"));
  const std::string musubi = "python ideogram4_train_network.py --dit " + model +
                             " --dataset_config d.toml --network_dim 4 --network_module networks.lora_ideogram4 ";
  EXPECT_THAT(carried("train.sh", musubi + "\n", "--resolution 64"), HasSubstr("on 21 layers"));
  EXPECT_THAT(toml(), HasSubstr("timestep_sampling = \"ideogram4_shift\""));
  import_file("train.sh", musubi + "--timestep_sampling sigma --unconditional_dit other/uncond.safetensors\n", "--overwrite");
  EXPECT_THAT(toml(), AllOf(HasSubstr("timestep_sampling = \"sigma\""), HasSubstr("other/uncond.safetensors")));
}

TEST_F(ImportVerb, SettingsOfLtx2) {
  const auto model = (kLtx2 / "model").string();
  const auto clips = "--dataset_metadata_path " + quoted(fs::path(golden_path("ltx2_clips")) / "metadata.csv");
  auto carried = [&](const char* name, const std::string& text) {
    EXPECT_THAT(import_file(name, text, "--overwrite"), Not(HasSubstr("is trained here"))) << name;
    return starts(clips + " --dtype fp32 --overwrite --num_frames 9 " + kLtx2Size, "");
  };
  EXPECT_THAT(carried("pipe.toml", "output_dir = 'o'\n[model]\ntype = 'ltx2'\ndiffusion_model = '" + model +
                                       "'\nshift = 1\n[adapter]\ntype = 'lora'\nrank = 4\n[optimizer]\ntype = 'adamw_optimi'\nlr = 1e-4\n"),
              HasSubstr("on 36 layers"))
      << "those of frames alone";
  EXPECT_THAT(carried("config.json", R"({"model_family": "ltxvideo2", "model_type": "lora", "lora_type": "standard",
      "pretrained_model_name_or_path": ")" +
                                         model + R"(", "max_train_steps": 4, "optimizer": "adamw_bf16", "learning_rate": 1e-4})"),
              HasSubstr("on 72 layers"));
}

TEST_F(ImportVerb, SettingsOfModelsThatEditPictures) {
  for (const char* arch : {"qwen_image_edit", "qwen_image_edit_plus", "flux_kontext"}) {
    auto said = import_file("job.yaml",
                            "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n"
                            "        - {folder_path: x, control_path: [y, z]}\n      train: {noise_scheduler: flowmatch, dtype: bf16}\n"
                            "      model: {name_or_path: m, arch: " +
                                std::string(arch) + "}\n",
                            "--overwrite");
    EXPECT_THAT(said, AllOf(Not(HasSubstr("this kind is not trained here")), HasSubstr("name the pictures that the model sees"))) << arch;
  }
  auto said = import_file("train.sh",
                          "python qwen_image_train_network.py --dit x --dataset_config d.toml --network_module networks.lora_qwen_image "
                          "--edit_plus --model_version edit-2511 --fused_backward_pass\n",
                          "--overwrite");
  EXPECT_THAT(said, Not(HasSubstr("this kind is not trained here")));
  EXPECT_THAT(toml(), HasSubstr("fused_backward_pass = true"));
}

TEST_F(ImportVerb, SettingsOfPicturesThatComeApart) {
  const auto model = (kQwenLayered / "model").string();
  const auto prompts = write("prompts.txt", "a poster --w 64 --h 48 --f 2 --ci " + (kQwenLayered / "layers/0.png").string() + "\n");
  auto of_musubi = [&](const std::string& datasets, const std::string& more) {
    return import_file("train.sh",
                       "python src/musubi_tuner/qwen_image_train_network.py --dit " + model + "/transformer --vae " + model +
                           "/vae --text_encoder " + model + "/text_encoder --dataset_config " + write("layers.toml", datasets).string() +
                           " --model_version layered --network_dim 4 --network_module networks.lora_qwen_image --max_train_steps 2 " +
                           more + "\n",
                       "--overwrite");
  };
  auto said = of_musubi("[[datasets]]\nimage_directory = '" + (kQwenLayered / "layers").string() +
                            "'\ncaption_extension = '.txt'\nmultiple_target = true\nresolution = [64, 48]\n",
                        "--sample_prompts " + prompts.string() + " --sample_every_n_steps 2");
  EXPECT_THAT(said, AllOf(Not(HasSubstr("is not trained here")), Not(HasSubstr("multiple_target"))));
  EXPECT_THAT(toml(), AllOf(HasSubstr("extra_inputs = \"layer_input_image\""), HasSubstr("qwen_layered_pipeline/layers")));
  starts("--dtype fp32 --overwrite", "--tokenizer_path " + quoted(fs::path(model) / "tokenizer") + " ");
  said = of_musubi("[[datasets]]\nimage_jsonl_file = 'layers.jsonl'\nmultiple_target = true\n", "--remove_first_image_from_target");
  EXPECT_THAT(said, Not(HasSubstr("not carried: remove_first_image_from_target")));
  EXPECT_THAT(toml(), HasSubstr("without_whole = true"));
  EXPECT_THAT(toml(), AllOf(HasSubstr("layers.jsonl\"  # image_jsonl_file"), HasSubstr("data_file_keys = \"image_path\"")));
  said = of_musubi("[[datasets]]\nimage_jsonl_file = 'pictures.jsonl'\n", "");
  EXPECT_THAT(said, HasSubstr("not carried: image_jsonl_file = pictures.jsonl: its columns are called otherwise"));
}

TEST_F(ImportVerb, TextualInversionOfDiffusers) {
  const auto said = import_file("a.sh",
                                "accelerate launch textual_inversion.py --pretrained_model_name_or_path x --train_data_dir pictures "
                                "--placeholder_token '<cat>' --initializer_token toy --num_vectors 4 --learnable_property style "
                                "--scale_lr --gradient_accumulation_steps 4 --train_batch_size 2 --learning_rate 1e-4\n");
  EXPECT_THAT(said, HasSubstr("one of the captions that are drawn there"));
  EXPECT_THAT(toml(),
              AllOf(HasSubstr("embedding_token = \"<cat>\""), HasSubstr("embedding_init = \"toy\""), HasSubstr("embedding_length = 4"),
                    HasSubstr("embedding_format = \"diffusers\""), HasSubstr("learning_rate = 0.0008"), HasSubstr("max_steps = 5000"),
                    HasSubstr("class_tokens = \"a painting in the style of <cat>\""), HasSubstr("random_flip = true"),
                    Not(HasSubstr("trainable_models")), Not(HasSubstr("lora_base_model")), Not(HasSubstr("max_grad_norm"))));
}

TEST_F(ImportVerb, KindsThatAreNotTrainedAreSaid) {
  const std::string reason = ": this kind is not trained here, and what is carried would train another";
  EXPECT_THAT(import_file("a.json", R"({"training_method": "LORA", "model_type": "HI_DREAM_FULL", "base_model_name": "x"})"),
              HasSubstr("not carried: model_type = HI_DREAM_FULL" + reason));
  auto embedding = import_file("a.json", R"({"training_method": "EMBEDDING", "model_type": "STABLE_DIFFUSION_15", "base_model_name": "x",
      "embedding": {"model_name": "", "placeholder": "<embedding>", "token_count": 2, "is_output_embedding": false}})",
                               "--overwrite");
  EXPECT_THAT(embedding, Not(HasSubstr("not carried: training_method")));
  EXPECT_THAT(toml(), AllOf(Not(HasSubstr("trainable_models")), HasSubstr("embedding_token = \"<embedding>\""),
                            HasSubstr("embedding_length = 2"), HasSubstr("embedding_format = \"onetrainer\"")));
  EXPECT_THAT(import_file("a.yaml", "config: {process: [{type: sd_trainer, model: {name_or_path: x, arch: hidream}}]}\n", "--overwrite"),
              HasSubstr("not carried: model.arch = hidream" + reason));
  EXPECT_THAT(
      import_file("a.toml", "[model]\ntype = 'hunyuan-video'\n[adapter]\ntype = 'lora'\n[optimizer]\ntype = 'adamw'\n", "--overwrite"),
      HasSubstr("not carried: model.type = hunyuan-video" + reason));
  EXPECT_THAT(
      import_file("a.sh", "python hv_train_network.py --dit x --dataset_config d.toml --network_module networks.lora\n", "--overwrite"),
      HasSubstr("not carried: script = hv_train_network.py" + reason));
  EXPECT_THAT(
      import_file("b.sh", "python lumina_train_network.py --pretrained_model_name_or_path x --network_module networks.lora_lumina\n",
                  "--overwrite"),
      HasSubstr("not carried: script = lumina_train_network.py" + reason));
}

TEST_F(ImportVerb, AcceleratesYaml) {
  auto said = import_file(
      "accelerate.yaml",
      "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: 'no'\nnum_processes: 8\n"
      "deepspeed_config:\n  gradient_accumulation_steps: 2\n  zero_stage: 3\n  offload_optimizer_device: cpu\n  offload_param_device: cpu\n"
      "use_cpu: true\n");
  EXPECT_THAT(said, AllOf(HasSubstr("not carried: num_processes = 8: who starts the processes says how many: burnish launch -n 8 -- train"),
                          HasSubstr("not carried: deepspeed_config.offload_param_device = cpu: frozen blocks wait")));
  EXPECT_THAT(said, HasSubstr("before it trains: no data given"));
  for (const char* line :
       {"dtype = \"fp32\"", "gradient_accumulation_steps = 2", "device = \"cpu\"", "zero_stage = 3", "enable_optimizer_cpu_offload = true"})
    EXPECT_THAT(toml(), HasSubstr(line));
  starts("--model " + quoted(kGolden / "model") + " " + golden_data());
}

TEST_F(ImportVerb, SeveralDatasetsAreAFileBesideIt) {
  const std::string run =
      "accelerate launch flux_train_network.py --pretrained_model_name_or_path=" + in_model("transformer") + " --clip_l " +
      in_model("text_encoder") + " --t5xxl " + in_model("text_encoder_2") + " --ae " + in_model("vae") +
      " --dataset_config=data.toml --network_module=networks.lora_flux --network_dim=4 --max_train_steps=10 --network_train_unet_only\n";
  write("data.toml", "[general]\ncaption_extension = '.txt'\n[[datasets]]\nresolution = 64\n  [[datasets.subsets]]\n  image_dir = '" +
                         pictures() + "'\n  num_repeats = 3\n  [[datasets.subsets]]\n  image_dir = '" + pictures() +
                         "'\n  shuffle_caption = true\n  class_tokens = 'a thing'\n");
  auto said = import_file("train.sh", run);
  EXPECT_THAT(said, Not(HasSubstr("subsets[1]")));
  auto datasets = read_file(at("datasets.toml"));
  for (const char* line : {"num_repeats = 3", "shuffle_caption = true", "class_tokens = \"a thing\"", "caption_extension = \".txt\"",
                           "resolution = [\"64,64\"]"})
    EXPECT_THAT(datasets, HasSubstr(line));
  EXPECT_THAT(toml(), AllOf(HasSubstr("datasets.toml\"  # datasets[0].subsets[0].image_dir, datasets[0].subsets[1].image_dir"),
                            Not(HasSubstr("dataset_metadata_path")), Not(HasSubstr("dataset_repeat"))));
  refused(2, "import " + quoted(at("train.sh")) + " --output " + quoted(at("other.toml")), {"datasets.toml is there already"});
  starts("--overwrite");
}

TEST_F(ImportVerb, PicturesAndClipsKeepFramesOfTheirOwn) {
  write("data.toml", "[general]\ncaption_extension = '.txt'\n[[datasets]]\nresolution = [640, 640]\nimage_directory = '" + pictures() +
                         "'\ncache_directory = 'c1'\n[[datasets]]\nresolution = [304, 304]\nvideo_directory = '" + pictures() +
                         "'\ncache_directory = 'c2'\nframe_extraction = 'uniform'\nframe_sample = 2\ntarget_frames = [57]\n" +
                         "source_fps = 16.0\n");
  auto said = import_file("musubi.toml",
                          "dataset_config = 'data.toml'\n[optimizer]\nlearning_rate = 3e-4\n[network]\n"
                          "network_module = 'networks.lora_wan'\nnetwork_dim = 16\n",
                          "--from musubi");
  EXPECT_THAT(said, Not(HasSubstr("all datasets of a run share one")));
  EXPECT_THAT(toml(), AllOf(Not(HasSubstr("num_frames")), Not(HasSubstr("frame_extraction"))));
  auto datasets = read_file(at("datasets.toml"));
  const auto clips = datasets.find("[[datasets]]", datasets.find("[[datasets]]") + 1);
  ASSERT_NE(clips, datasets.npos) << datasets;
  EXPECT_THAT(datasets.substr(0, clips), Not(HasSubstr("frame_extraction")));
  for (const char* line : {"num_frames = 57", "frame_extraction = \"uniform\"", "frame_sample = 2"})
    EXPECT_THAT(datasets.substr(clips), HasSubstr(line));
}

TEST_F(ImportVerb, SimpleTunersJsonAndItsDatasets) {
  write(
      "multidatabackend.json",
      R"([{"id": "cats", "type": "local", "instance_data_dir": ")" + pictures() +
          R"(", "caption_strategy": "textfile", "resolution": 64, "resolution_type": "pixel", "crop": true, "crop_style": "center", "repeats": 1},
                {"id": "texts", "dataset_type": "text_embeds", "default": true, "type": "local", "cache_dir": "cache/text"}])");
  auto said =
      import_file("config.json", R"({"model_family": "flux", "model_flavour": "dev", "model_type": "lora", "lora_rank": 4, "lora_alpha": 4,
    "pretrained_model_name_or_path": ")" +
                                     (kGolden / "model").string() +
                                     R"(", "data_backend_config": "multidatabackend.json", "optimizer": "adamw_bf16", "learning_rate": 1e-4,
    "lr_scheduler": "constant_with_warmup", "lr_warmup_steps": 2, "max_train_steps": 20, "train_batch_size": 1, "num_train_epochs": 0, "mixed_precision": "bf16",
    "base_model_precision": "int8-quanto", "quantize_via": "cpu", "flow_schedule_shift": 3, "validation_prompt": "a cat", "validation_resolution": "64x64",
    "validation_num_inference_steps": 1, "push_to_hub": false, "hub_model_id": "x", "report_to": "none", "seed": 42})");
  EXPECT_THAT(said, Not(HasSubstr("not known here")));
  for (const char* line : {"weight_format = \"int8\"", "fp8_models = \"dit\"", "dataset_repeat = 2  # dataset.repeats", "width = 64",
                           "lora_rank = 4", "discrete_flow_shift = 3.0", "seed = 42"})
    EXPECT_THAT(toml(), HasSubstr(line));
  starts();
}

TEST_F(ImportVerb, FilesOfOtherProgramsAreRefusedByName) {
  auto with = [&](const std::string& name, const std::string& text) { return "import " + quoted(write(name, text)); };
  refused(3, with("a.sh", "python train_controlnet_flux.py --pretrained_model_name_or_path x --output_dir y\n"),
          {"is of the script train_controlnet_flux.py, whose settings are not read"});
  EXPECT_THAT(import_file("b.sh",
                          "accelerate launch train_dreambooth_lora_flux.py --pretrained_model_name_or_path x --instance_data_dir y "
                          "--instance_prompt 'a dog' --rank 8\n"),
              Not(HasSubstr("not known here")));
  EXPECT_THAT(toml(), AllOf(HasSubstr("lora_rank = 8"), HasSubstr("lora_base_model = \"dit\""), Not(HasSubstr("trainable_models"))));
  EXPECT_THAT(toml(), HasSubstr("class_tokens = \"a dog\"  # instance_prompt"));
}

TEST_F(ImportVerb, DatasetsAndPromptsLieBesideTheOutputAndTrain) {
  fs::copy(kGolden / "pictures", at("cats"), fs::copy_options::recursive);
  write("data.toml", "[general]\ncaption_extension = '.txt'\nresolution = [64, 48]\n[[datasets]]\n[[datasets.subsets]]\nimage_dir = '" +
                         pictures() + "'\n[[datasets.subsets]]\nimage_dir = 'cats'\nnum_repeats = 2\n");
  write("prompts.txt", "a cat --w 64 --h 48 --s 1 --l 1 --d 3\n");
  const std::string command = "accelerate launch flux_train_network.py --pretrained_model_name_or_path " + in_model("transformer") +
                              " --clip_l " + in_model("text_encoder") + " --t5xxl " + in_model("text_encoder_2") + " --ae " +
                              in_model("vae") +
                              " --dataset_config data.toml --network_module networks.lora_flux --network_dim 2 --network_train_unet_only "
                              "--sample_prompts prompts.txt --sample_every_n_steps 1 --max_train_steps 1\n";
  auto imports = [&](const std::string& more = "") {
    return run_burnish("import train.sh --output run.toml " + more, "cd " + quoted(folder_ / "") + " &&");
  };
  write("train.sh", command);
  auto outcome = imports();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("datasets.toml is beside it"), HasSubstr("run.prompts.txt is beside it")));
  EXPECT_THAT(outcome.output, HasSubstr("before it trains: no CLIP tokenizer beside the model; name its folder with --tokenizer_path"));
  starts();
  EXPECT_TRUE(fs::exists(out() / "samples")) << toml();

  // What stands there is nobody else's to lose.
  EXPECT_EQ(imports("--overwrite").exit_code, 0);
  fs::remove(at("run.toml"));
  outcome = imports();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("is there already; move it away, or add --overwrite"));
  write("datasets.toml", "# mine\n[[datasets]]\nimage_dir = 'a'\n");
  outcome = imports("--overwrite");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("datasets.toml is there already and was not written for this output"));
  EXPECT_EQ(read_file(at("datasets.toml")), "# mine\n[[datasets]]\nimage_dir = 'a'\n");
  EXPECT_FALSE(fs::exists(at("run.toml")));
  // A link is followed, and a device gets the settings alone.
  fs::remove(at("datasets.toml"));
  fs::rename(at("run.prompts.txt"), at("elsewhere.txt"));
  fs::create_symlink("elsewhere.txt", at("run.prompts.txt"));
  EXPECT_EQ(imports("--overwrite").exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(at("run.prompts.txt")));
  EXPECT_THAT(read_file(at("elsewhere.txt")), HasSubstr("a cat"));
  fs::remove(at("datasets.toml"));
  outcome = run_burnish("import train.sh --overwrite --output /dev/stdout", "cd " + quoted(folder_ / "") + " && BURNISH_LOG=error");
  EXPECT_THAT(outcome.output, HasSubstr("lora_rank = 2"));
  EXPECT_FALSE(fs::exists(at("datasets.toml")));
  EXPECT_FALSE(fs::exists("/dev/datasets.toml"));
}

TEST_F(ImportVerb, ScriptsThatSetVariables) {
  const std::string options = "--network_module networks.lora --network_dim ";
  import_file("train.sh",
              "MODEL=/models/sd15.safetensors\nDIM=12\naccelerate launch train_network.py \\\n  "
              "--pretrained_model_name_or_path \"$MODEL\" " +
                  options + "${DIM}\n");
  EXPECT_THAT(toml(), AllOf(HasSubstr("model = [\"/models/sd15.safetensors\"]"), HasSubstr("lora_rank = 12")));
  import_file("train.bat",
              "@echo off\r\nset DIM=24\r\nset MODEL=/models/sd15.safetensors\r\naccelerate launch train_network.py ^\r\n  "
              "--pretrained_model_name_or_path \"%MODEL%\" ^\r\n  " +
                  options + "%dim%\r\n",
              "--overwrite");
  EXPECT_THAT(toml(), AllOf(HasSubstr("model = [\"/models/sd15.safetensors\"]"), HasSubstr("lora_rank = 24")));
}

TEST_F(ImportVerb, WarmUpsInPercentFollowTheRunsSteps) {
  import_file("preset.json", R"({"LoRA_type": "Flux1", "flux1_checkbox": true, "pretrained_model_name_or_path": ")" +
                                 in_model("transformer") + R"(", "clip_l": ")" + in_model("text_encoder") + R"(", "t5xxl": ")" +
                                 in_model("text_encoder_2") + R"(", "ae": ")" + in_model("vae") + R"(", "train_data_dir": ")" + pictures() +
                                 R"(", "caption_extension": ".txt", "max_resolution": "64,48", "network_dim": 2, "unet_lr": 0.001,
      "text_encoder_lr": 0, "optimizer": "AdamW", "epoch": 2, "lr_warmup": 50, "lr_scheduler": "constant_with_warmup"})");
  EXPECT_THAT(toml(), HasSubstr("lr_warmup_ratio = 0.5  # lr_warmup_steps"));
  auto outcome = run_burnish("train --config " + quoted(at("run.toml")) + " " + tokenizers() +
                             "--device cpu --num_threads 1 --output_path " + quoted(out()));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output << toml();
  auto log = read_log(out());
  const auto num_warm = log.size() / 2;
  for (size_t i = 0; i < log.size(); ++i) {
    auto share = i < num_warm ? static_cast<double>(i + 1) / static_cast<double>(num_warm) : 1.0;
    EXPECT_NEAR(log[i]["lr"].get<double>(), 0.001 * share, 1e-12) << i;
  }
}

TEST_F(ImportVerb, PrintsWithoutAFileToWrite) {
  auto outcome = run_burnish("import " + quoted(write("a.yaml", "compute_environment: X\ndistributed_type: 'NO'\nmixed_precision: bf16\n")),
                             "BURNISH_LOG=error");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("dtype = \"bf16\"  # mixed_precision\n"));
}

TEST_F(ImportVerb, RefusesWhatItCannotRead) {
  auto with = [&](const std::string& name, const std::string& text) { return "import " + quoted(write(name, text)); };
  refused(3, with("a.toml", "a = 1\n"), {"is of no program that is known", "--from"});
  refused(3, with("b.json", "[1"), {"b.json is not valid JSON"});
  refused(3, with("c.json", R"({"model_type": 1, "training_method": [], "concepts": [{"type": 3}]})"),
          {"value of another kind than OneTrainer"});
  refused(2, with("d.toml", "a = 1\n") + " --from kohya_ss", {"from must be one of", "kohya"});
  refused(2, "import", {"expected one settings file, found 0"});
}
