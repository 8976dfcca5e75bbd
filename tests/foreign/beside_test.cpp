// Files that an import writes beside its output: prompts of previews, and several datasets.
#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "foreign/import.h"
#include "foreign/prompts.h"
#include "tests/foreign/run_options.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::RunOptions;
using test::Scratch;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace {

struct Done {
  RunOptions run;
  foreign::Import said;
  std::string prompts, datasets, words;  ///< of the files beside the output

  std::string value(const std::string& option) const {
    auto values = run.values();
    return values.at(option);
  }
};

class Beside : public testing::Test {
 protected:
  Done import(const std::string& name, const std::string& text, bool has_output = true) {
    Done done;
    auto output = has_output ? scratch_ / "run.toml" : std::filesystem::path();
    done.said = foreign::import_settings(scratch_.write(name, text), "", done.run.fields, output).second;
    for (const auto& [file, content] : done.said.beside) {
      EXPECT_EQ(file.parent_path(), std::filesystem::path(scratch_ / "run.toml").parent_path());
      if (file.filename() == "run.prompts.txt") done.prompts = content;
      else if (file.filename() == "datasets.toml") done.datasets = content;
      else if (file.filename() == "run.embeddings.toml") done.words = content;
      else ADD_FAILURE() << file;
    }
    return done;
  }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(scratch_ / name);
    return scratch_ / name;
  }
  /// The tables of a file of datasets, without its first line.
  static std::vector<std::string> tables(const std::string& text) {
    std::vector<std::string> all;
    const std::string head = "\n[[datasets]]";
    for (auto at = text.find(head); at != text.npos;) {
      auto next = text.find(head, at + 1);
      all.push_back(text.substr(at + head.size(), next == text.npos ? next : next - at - head.size()));
      at = next;
    }
    return all;
  }

  Scratch scratch_;
};

const std::string kKohya = "--pretrained_model_name_or_path sdxl.safetensors --network_module networks.lora --train_data_dir x ";

}  // namespace

TEST_F(Beside, SeveralWordsOfOneTrainer) {
  const std::string text = R"({"model_type": "STABLE_DIFFUSION_15", "training_method": "LORA", "base_model_name": "x",
      "additional_embeddings": [{"placeholder": "<a>"}, {"placeholder": "<b>", "token_count": 2}]})";
  const auto done = import("a.json", text), told = import("a.json", text, false);
  EXPECT_THAT(done.value("embedding_config"), HasSubstr("run.embeddings.toml"));
  EXPECT_THAT(done.words, HasSubstr("[[embeddings]]\nembedding_token = \"<b>\"\nembedding_length = 2\n"));
  EXPECT_THAT(told.said.not_carried, Contains(HasSubstr("additional_embeddings: with --output")));
  EXPECT_EQ(told.value("embedding_config"), "\"\"");
}

TEST_F(Beside, BothEndsOfAiToolkitsPairsAreDatasetsWithAStrength) {
  const std::string text = R"(config: {name: x, process: [{type: image_reference_slider_trainer, network: {type: lora}, slider: {datasets: [
      {pos_folder: )" + folder("long") +
                           ", neg_folder: " + folder("short") + R"(, network_weight: 2, neg_weight: -3, target_class: hair},
      {pair_folder: both}]}}]})";
  const auto done = import("a.yaml", text), told = import("a.yaml", text, false);
  const auto sets = tables(done.datasets);
  ASSERT_EQ(sets.size(), 2u);
  for (const char* line : {"/long\"", "slider_strength = 2.0", "class_tokens = \"hair\"", "max_pixels = 262144"})
    EXPECT_THAT(sets[0], HasSubstr(line));
  for (const char* line : {"/short\"", "slider_strength = -3.0", "class_tokens = \"hair\""}) EXPECT_THAT(sets[1], HasSubstr(line));
  EXPECT_THAT(done.said.different, Contains(HasSubstr("both ends of a pair")));
  EXPECT_THAT(done.said.not_carried, ElementsAre(HasSubstr("slider.datasets[1].pair_folder: pictures of both ends lie side by side")));
  EXPECT_EQ(done.value("gradient_accumulation_steps"), "2");
  EXPECT_THAT(told.said.not_carried, Contains(HasSubstr("slider.datasets[0].neg_folder: the first dataset is taken")));
}

TEST_F(Beside, SdScriptsPromptFilesGetTheSizesThatItDraws) {
  scratch_.write("prompts.txt",
                 "# a comment\na cat --n blurry, low quality --w 1024 --h 1000 --d 42 --s 28 --l 4.5\n\na dog  --g 3 --ss euler_a\n");
  auto done = import("train.sh", "python sdxl_train_network.py " + kKohya + "--sample_prompts prompts.txt --sample_every_n_steps 50");
  EXPECT_EQ(done.prompts, "a cat --w 1024 --h 1000 --d 42 --s 28 --l 4.5 --n blurry, low quality\na dog --w 512 --h 512 --s 30 --l 7.5\n");
  EXPECT_THAT(done.value("preview_prompts"), HasSubstr("/run.prompts.txt"));
  EXPECT_EQ(done.value("preview_steps"), "50");
  EXPECT_THAT(done.said.not_carried, Contains("sample_prompts: --g, --ss: previews have nothing like it"));
  // FLUX.1's script has other defaults, and sides of whole patches.
  done = import("train.sh", "python flux_train_network.py " + kKohya + "--sample_prompts prompts.txt");
  EXPECT_EQ(done.prompts, "a cat --w 1024 --h 992 --d 42 --s 28 --l 4.5 --n blurry, low quality\na dog --w 512 --h 512 --s 20 --l 1\n");
  // Without a place for it, the file is named as it is.
  done = import("train.sh", "python sdxl_train_network.py " + kKohya + "--sample_prompts prompts.txt", /*has_output=*/false);
  EXPECT_EQ(done.value("preview_prompts"), "\"prompts.txt\"");
}

TEST_F(Beside, SdScriptsPromptsInTomlAndJson) {
  scratch_.write("p.toml",
                 "[prompt]\nwidth = 768\nheight = 768\nscale = 6\n[[prompt.subset]]\nprompt = 'a cat'\nseed = 1\n"
                 "[[prompt.subset]]\nprompt = 'a dog'\nnegative_prompt = 'bad'\nsample_steps = 12\n");
  const std::string command = "python train_network.py " + kKohya + "--sample_prompts ";
  EXPECT_EQ(import("train.sh", command + "p.toml").prompts,
            "a cat --w 768 --h 768 --d 1 --s 30 --l 6\na dog --w 768 --h 768 --s 12 --l 6 --n bad\n");
  scratch_.write("p.json", R"([{"prompt": "a cat", "width": 640, "seed": 3}, "a dog --d 4"])");
  EXPECT_EQ(import("train.sh", command + "p.json").prompts,
            "a cat --w 640 --h 512 --d 3 --s 30 --l 7.5\na dog --w 512 --h 512 --d 4 --s 30 --l 7.5\n");
}

TEST_F(Beside, PromptsThatAreTextInASettingsFile) {
  auto done = import("gui.json", R"({"LoRA_type": "Standard", "max_resolution": "512,512", "pretrained_model_name_or_path": "sd15",
      "sample_prompts": "a cat --w 640\na dog", "sample_every_n_steps": 25, "epoch": 1})");
  EXPECT_EQ(done.prompts, "a cat --w 640 --h 512 --s 30 --l 7.5\na dog --w 512 --h 512 --s 30 --l 7.5\n");
  EXPECT_EQ(done.value("preview_steps"), "25");
  done =
      import("gui.json", R"({"LoRA_type": "Standard", "max_resolution": "512,512", "sample_prompts": "a cat", "sample_every_n_steps": 25})",
             /*has_output=*/false);
  EXPECT_EQ(done.value("preview_prompts"), "\"\"");
  EXPECT_EQ(done.value("preview_steps"), "0") << "previews without prompts are refused";
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("sample_prompts: with --output")));
  // SD-Trainer's keys.
  done = import("trainer.toml",
                "model_train_type = 'sdxl-lora'\npretrained_model_name_or_path = 'x'\nnetwork_module = 'networks.lora'\n"
                "train_data_dir = 'y'\npositive_prompts = '1girl'\nnegative_prompts = 'lowres'\nsample_width = 832\n"
                "sample_height = 1216\nsample_cfg = 7\nsample_seed = 2333\nsample_steps = 24\n");
  EXPECT_EQ(done.prompts, "1girl --w 832 --h 1216 --d 2333 --s 24 --l 7 --n lowres\n");
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("sample_"))));
  // LoRA_Easy_Training_Scripts' table.
  scratch_.write("p.txt", "a cat\n");
  done = import("easy.toml",
                "[saving_args.args]\noutput_dir = 'o'\n[sample_args.args]\nsample_prompts = 'p.txt'\nsample_every_n_steps = 9\n"
                "[general_args.args]\npretrained_model_name_or_path = 'x'\n[network_args.args]\nnetwork_dim = 4\n");
  EXPECT_EQ(done.prompts, "a cat --w 512 --h 512 --s 30 --l 7.5\n");
  EXPECT_EQ(done.value("preview_steps"), "9");
}

TEST_F(Beside, MusubisPrompts) {
  scratch_.write("p.txt", "make it snow --ci cat.png --w 1030 --h 512 --f 17 --fs 3\n");
  auto done = import("train.sh",
                     "python qwen_image_train_network.py --dit d --network_module networks.lora_qwen_image --dataset_config none.toml "
                     "--sample_prompts p.txt");
  EXPECT_EQ(done.prompts, "make it snow --w 1024 --h 512 --f 17 --s 20 --ci cat.png\n");
  EXPECT_THAT(done.said.not_carried, Contains("sample_prompts: --fs: previews have nothing like it"));
}

TEST_F(Beside, OneTrainersSamplesWithTheirSizesSeedsAndNegatives) {
  scratch_.write("samples.json", R"([{"prompt": "a cat", "negative_prompt": "blurry", "height": 768, "width": 1024, "seed": 7,
      "diffusion_steps": 30, "cfg_scale": 4.5, "enabled": true}, {"prompt": "off", "enabled": false}, {"prompt": "a dog"},
      {"prompt": "a cow --ar 3", "random_seed": true, "seed": 5}])");
  auto done = import("preset.json", R"({"training_method": "LORA", "model_type": "FLUX_DEV_1", "base_model_name": "x", "sample_after": 100,
      "sample_after_unit": "STEP", "sample_definition_file_name": "samples.json"})");
  EXPECT_EQ(done.prompts,
            "a cat --w 1024 --h 768 --d 7 --s 30 --l 4.5 --n blurry\na dog --w 512 --h 512 --d 42 --s 20 --l 7\n"
            "a cow -- ar 3 --w 512 --h 512 --s 20 --l 7\n");
  EXPECT_EQ(done.value("preview_steps"), "100");
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("so that it is no flag")));
}

TEST_F(Beside, AiToolkitsPromptsWithFlagsOfTheirOwn) {
  auto done = import("job.yaml",
                     "config:\n  name: x\n  process:\n    - network: {type: lora}\n      trigger_word: sks\n"
                     "      sample: {walk_seed: true, seed: 10, neg: bad, width: 1024, sample_every: 20,\n"
                     "        prompts: ['[trigger] cat --w 768 --n ugly', 'a dog --d 3 --m 0.5', '']}\n"
                     "      train: {gradient_accumulation_steps: 4, noise_scheduler: flowmatch}\n");
  EXPECT_EQ(done.prompts,
            "sks cat --w 768 --h 512 --d 10 --s 20 --l 7 --n ugly\na dog --w 1024 --h 512 --d 4 --s 20 --l 7 --n bad\n"
            "--w 1024 --h 512 --d 12 --s 20 --l 7 --n bad\n");
  EXPECT_EQ(done.value("preview_steps"), "5") << "it counts batches";
  EXPECT_THAT(done.said.not_carried, Contains("sample.prompts: --m: previews have nothing like it"));
}

TEST_F(Beside, SdScriptsSubsetsKeepWhatIsTheirs) {
  scratch_.write("data.toml",
                 "[general]\nenable_bucket = true\n[[datasets]]\nresolution = 512\nbatch_size = 2\nkeep_tokens = 1\n"
                 "[[datasets.subsets]]\nimage_dir = '/a'\nnum_repeats = 3\nflip_aug = true\ncaption_extension = '.txt'\n"
                 "shuffle_caption = true\ncaption_prefix = 'x, '\n"
                 "[[datasets.subsets]]\nimage_dir = '/b'\nloss_weight = 0.5\n"
                 "[[datasets]]\nresolution = [768, 1024]\nbatch_size = 4\n[[datasets.subsets]]\nimage_dir = '/c'\nis_reg = true\n"
                 "num_repeats = 2\nclass_tokens = 'dog'\n[[datasets.subsets]]\nimage_dir = '/d'\nis_reg = true\n");
  const std::string command =
      "python train_network.py --pretrained_model_name_or_path sd15 --network_module networks.lora "
      "--dataset_config data.toml";
  auto done = import("train.sh", command);
  EXPECT_TRUE(done.datasets.starts_with("# Datasets of run.toml, by `burnish import`.\n")) << done.datasets;
  auto all = tables(done.datasets);
  ASSERT_EQ(all.size(), 4u) << done.datasets;
  for (const char* line :
       {"image_dir = \"/a\"\n", "num_repeats = 3\n", "random_flip = true\n", "caption_extension = \".txt\"\n", "shuffle_caption = true\n",
        "caption_prefix = \"x, \"\n", "keep_tokens = 1\n", "resolution = [\"512,512\"]\n", "enable_bucket = true\n"})
    EXPECT_THAT(all[0], HasSubstr(line));
  for (const char* line :
       {"image_dir = \"/b\"\n", "loss_weight = 0.5\n", "resolution = [\"512,512\"]\n", "caption_extension = \".caption\"\n"})
    EXPECT_THAT(all[1], HasSubstr(line));
  for (const char* key : {"num_repeats", "random_flip", "shuffle_caption", "caption_prefix", "is_reg"})
    EXPECT_THAT(all[1], Not(HasSubstr(key))) << "the first dataset's alone";
  for (const char* line : {"image_dir = \"/c\"\n", "is_reg = true\n", "class_tokens = \"dog\"\n", "resolution = [\"768,1024\"]\n"})
    EXPECT_THAT(all[2], HasSubstr(line));
  EXPECT_THAT(all[2], Not(HasSubstr("num_repeats"))) << "a class set has as many visits as all others";
  EXPECT_THAT(all[3], HasSubstr("is_reg = true\n")) << "a second class set is not learned";
  EXPECT_THAT(done.value("dataset_config"), HasSubstr("/datasets.toml"));
  for (const char* option : {"dataset_metadata_path", "class_metadata_path"}) EXPECT_EQ(done.value(option), "\"\"");
  EXPECT_EQ(done.value("resolution"), "[]");
  EXPECT_EQ(done.value("random_flip"), "false");
  EXPECT_EQ(done.value("batch_size"), "2");
  EXPECT_THAT(done.said.not_carried, Contains("datasets[1].subsets[0].image_dir: batch_size = 4: all datasets of a run share one, 2"));

  done = import("train.sh", command, /*has_output=*/false);
  EXPECT_EQ(done.value("dataset_metadata_path"), "\"/a\"");
  EXPECT_EQ(done.value("class_metadata_path"), "\"/c\"");
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("datasets[0].subsets[1].image_dir: the first dataset is taken")));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("datasets[1].subsets[1].image_dir: the first dataset is taken")));
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("subsets[0].image_dir: the first dataset is taken"))));
}

TEST_F(Beside, OneDatasetAndOneClassSetNeedNoFile) {
  auto done = import("data.toml",
                     "[[datasets]]\nresolution = 512\n[[datasets.subsets]]\nimage_dir = '/a'\n"
                     "[[datasets.subsets]]\nimage_dir = '/c'\nis_reg = true\n");
  EXPECT_EQ(done.datasets, "");
  EXPECT_EQ(done.value("dataset_metadata_path"), "\"/a\"");
  EXPECT_EQ(done.value("class_metadata_path"), "\"/c\"");
}

TEST_F(Beside, AClassSetOfTheRunIsSeenAsItsFirstDataset) {
  folder("data/5_cat"), folder("data/2_dog");
  auto done = import("train.sh",
                     "python train_network.py --pretrained_model_name_or_path sd15 --network_module networks.lora --resolution 640 "
                     "--caption_extension .txt --reg_data_dir /reg --train_data_dir " +
                         folder("data"));
  auto all = tables(done.datasets);
  ASSERT_EQ(all.size(), 3u) << done.datasets;
  EXPECT_THAT(all[0], HasSubstr("2_dog\"\n"));
  EXPECT_THAT(all[0], HasSubstr("num_repeats = 2\n"));
  EXPECT_THAT(all[1], HasSubstr("num_repeats = 5\n"));
  for (const char* line : {"image_dir = \"/reg\"\n", "is_reg = true\n", "resolution = [\"640,640\"]\n", "caption_extension = \".txt\"\n"})
    EXPECT_THAT(all[2], HasSubstr(line));
  EXPECT_THAT(all[2], Not(HasSubstr("2_dog")));
  EXPECT_EQ(done.value("class_metadata_path"), "\"\"");
}

TEST_F(Beside, OneTrainersConceptsWithRepeatsSizesAndWeights) {
  auto done = import("preset.json", R"({"training_method": "LORA", "model_type": "FLUX_DEV_1", "base_model_name": "x", "resolution": "512",
      "concepts": [{"path": "/a", "balancing": 3.0, "loss_weight": 2.0,
                    "image": {"enable_random_flip": true, "enable_random_rotate": true, "random_rotate_max_angle": 8.0, "enable_fixed_hue": true,
                              "random_hue_max_strength": 0.25, "enable_fixed_contrast": true, "enable_random_contrast": true,
                              "random_contrast_max_strength": 0.5, "random_saturation_max_strength": 0.7}},
                   {"path": "/b", "balancing": 0.5, "image": {"enable_resolution_override": true, "resolution_override": "768"}},
                   {"path": "/off", "enabled": false}, {"path": "/v", "type": "VALIDATION"}, {"path": "/w", "type": "VALIDATION"},
                   {"path": "/p", "type": "PRIOR_PREDICTION"}]})");
  auto all = tables(done.datasets);
  ASSERT_EQ(all.size(), 3u) << done.datasets;
  for (const char* line : {"image_dir = \"/a\"\n", "num_repeats = 3\n", "loss_weight = 2.0\n", "random_flip = true\n",
                           "resolution = [\"512\"]\n", "random_rotate = 8.0\n", "fixed_hue = 0.25\n", "random_contrast = 0.5\n"})
    EXPECT_THAT(all[0], HasSubstr(line));
  for (const char* key : {"fixed_contrast", "saturation", "random_hue"}) EXPECT_THAT(all[0], Not(HasSubstr(key)));
  for (const char* line : {"image_dir = \"/b\"\n", "num_repeats = 0.5\n", "resolution = [\"768\"]\n"}) EXPECT_THAT(all[1], HasSubstr(line));
  EXPECT_THAT(all[1], Not(HasSubstr("random_flip")));
  EXPECT_EQ(done.value("validation_metadata_path"), "\"/v\"");
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("concepts[4].path: one folder of held-out samples")));
  for (const char* line : {"image_dir = \"/p\"\n", "is_reg = true\n"}) EXPECT_THAT(all[2], HasSubstr(line));
  EXPECT_EQ(done.value("class_target"), "\"model\"");
}

TEST_F(Beside, AiToolkitsDatasets) {
  auto done = import("job.yaml",
                     "config:\n  name: x\n  process:\n    - network: {type: lora}\n      datasets:\n"
                     "        - {folder_path: /r, is_reg: true, resolution: 512}\n"
                     "        - {folder_path: /a, resolution: 512, num_repeats: 2, caption_dropout_rate: 0.1}\n"
                     "        - {folder_path: /b, resolution: [512, 768], caption_ext: cap, loss_multiplier: 0.5}\n"
                     "      train: {noise_scheduler: flowmatch}\n");
  auto all = tables(done.datasets);
  ASSERT_EQ(all.size(), 3u) << done.datasets;
  for (const char* line : {"image_dir = \"/a\"\n", "num_repeats = 2\n", "max_pixels = 262144\n", "caption_dropout = 0.1\n"})
    EXPECT_THAT(all[0], HasSubstr(line));
  for (const char* line :
       {"image_dir = \"/b\"\n", "resolution = [\"512\", \"768\"]\n", "caption_extension = \".cap\"\n", "loss_weight = 0.5\n"})
    EXPECT_THAT(all[1], HasSubstr(line));
  EXPECT_THAT(all[1], Not(HasSubstr("caption_dropout")));
  EXPECT_THAT(all[2], HasSubstr("is_reg = true\n"));
}

TEST_F(Beside, DiffusionPipesAndMusubisDatasets) {
  scratch_.write("d.toml",
                 "resolutions = [512]\n[[directory]]\npath = '/a'\nnum_repeats = 2\n[[directory]]\npath = '/b'\nresolutions = [768]\n");
  auto all = tables(import("pipe.toml", "dataset = 'd.toml'\n[model]\ntype = 'flux'\n[optimizer]\ntype = 'adamw'\nlr = 1e-4\n").datasets);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[0], HasSubstr("resolution = [\"512,512\"]\n"));
  EXPECT_THAT(all[1], HasSubstr("resolution = [\"768,768\"]\n"));
  scratch_.write("m.toml",
                 "[general]\nresolution = [512, 512]\n[[datasets]]\nimage_directory = '/a'\nnum_repeats = 4\n"
                 "[[datasets]]\nimage_directory = '/b'\nresolution = [640, 384]\n");
  all = tables(
      import("train.sh", "python zimage_train_network.py --dit d --dataset_config m.toml --network_module networks.lora_zimage").datasets);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[0], HasSubstr("num_repeats = 4\n"));
  EXPECT_THAT(all[1], HasSubstr("width = 640\n"));
  EXPECT_THAT(all[1], Not(HasSubstr("num_repeats = 4\n")));
}

TEST_F(Beside, WhatIsReadIsNotWritten) {
  Done done;
  auto settings =
      scratch_.write("datasets.toml", "[[datasets]]\n[[datasets.subsets]]\nimage_dir = '/a'\n[[datasets.subsets]]\nimage_dir = '/b'\n");
  EXPECT_THAT(error_of([&] { foreign::import_settings(settings, "", done.run.fields, scratch_ / "run.toml"); }, Exit::config),
              HasSubstr("datasets.toml is read and written"));
  auto other = scratch_.write("d.toml", "[[datasets]]\n[[datasets.subsets]]\nimage_dir = '/a'\n[[datasets.subsets]]\nimage_dir = '/b'\n");
  EXPECT_THAT(error_of([&] { foreign::import_settings(other, "", done.run.fields, scratch_ / "datasets.toml"); }, Exit::config),
              HasSubstr("is written beside the output"));
  scratch_.write("run.prompts.txt", "a cat\n");
  auto command = scratch_.write("train.sh", "python train_network.py " + kKohya + "--sample_prompts run.prompts.txt");
  EXPECT_THAT(error_of([&] { foreign::import_settings(command, "", done.run.fields, scratch_ / "run.toml"); }, Exit::config),
              HasSubstr("run.prompts.txt is read and written"));
  // Beside a device no files are written.
  auto to_device = foreign::import_settings(other, "", done.run.fields, "/dev/null").second;
  EXPECT_THAT(to_device.beside, IsEmpty());
  EXPECT_THAT(to_device.not_carried, Contains(HasSubstr("with --output all are written beside it")));
}

TEST_F(Beside, MusubisClipsOfSeveralLengthsAreADatasetEach) {
  const auto data = folder("data");
  const auto done = import("data.toml", "[general]\nresolution = [64, 48]\n[[datasets]]\nimage_directory = '" + data +
                                            "'\n[[datasets]]\nvideo_directory = '" + data +
                                            "'\ntarget_frames = [1, 25, 45]\nframe_extraction = 'chunk'\nsource_fps = 16.0\n");
  const auto sets = tables(done.datasets);
  ASSERT_EQ(sets.size(), 4u);
  EXPECT_THAT(sets[0], Not(HasSubstr("num_frames")));
  EXPECT_THAT(sets[0], HasSubstr("media = \"pictures\"\n"));
  for (const auto& [i, frames] : {std::pair{1, "num_frames = 1\n"}, {2, "num_frames = 25\n"}, {3, "num_frames = 45\n"}})
    EXPECT_THAT(sets[i], AllOf(HasSubstr(frames), HasSubstr("media = \"clips\"\n"))) << i;
  EXPECT_THAT(done.said.not_carried, Not(Contains(HasSubstr("both kinds"))));
}

TEST_F(Beside, PathsOfWindowsStayAsTheyAreWritten) {
  const auto done = import("a.toml",
                           "pretrained_model_name_or_path = 'C:/models/sdxl.safetensors'\nnetwork_module = 'networks.lora'\n"
                           "output_dir = 'D:\\flow\\out'\ntrain_data_dir = 'C:/cats'\n");
  EXPECT_THAT(done.value("model"), HasSubstr("\"C:/models/sdxl.safetensors\""));
  EXPECT_EQ(done.value("dataset_metadata_path"), "\"C:/cats\"");
  EXPECT_EQ(done.value("output_path"), RunOptions().values().at("output_path"));
  EXPECT_THAT(done.said.not_carried, Contains(HasSubstr("output_dir = D:\\flow\\out: is a path of Windows")));
  EXPECT_THAT(done.said.different, Contains(HasSubstr("C:/cats: is a path of Windows")));
}
