// What Qwen-Image-Layered has that other models have not: data with layers, the picture that is taken apart, what is written of layers.
#include <gmock/gmock.h>

#include <cmath>

#include "data/image.h"
#include "tests/integration/families/qwen_layered.h"
#include "tests/integration/model_run.h"

namespace burnish::qwen_layered_train_test {
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kLayers = kQwenLayered / "layers";
const std::string kLora = "--lora_rank 4 ";

class QwenLayeredRun : public ModelRun {
 protected:
  QwenLayeredRun() : ModelRun(qwen_layered_model() + layered_data()) {}
  std::string train_command(const std::string& name, const std::string& options) const {
    return "train " + qwen_layered_model() + "--height 48 --width 64 --learning_rate 1e-3 --max_steps 3 " + options + " --output_path " +
           quoted(at(name));
  }
  std::string train(const std::string& name, const std::string& options) const { return run_ok(train_command(name, options)); }
  static std::string data(const fs::path& metadata = kLayers / "metadata.json") {
    return "--dataset_metadata_path " + quoted(metadata) + " ";
  }
  /// Rows that name pictures of kLayers.
  std::string rows(const std::string& name, const std::string& text) const {
    return data(write(name, text)) + "--dataset_base_path " + quoted(kLayers) + " ";
  }
  std::string latents_of(const std::string& model, const std::string& options) const {
    auto file = at("drawn.safetensors");
    run_ok("sample " + model + picture_to_part() +
           "--prompt 'red apple' --seed 3 --height 48 --width 64 --num_inference_steps 2 --save_latents " + quoted(file) +
           " --output_path " + quoted(at("pictures")) + " " + options);
    return read_file(file);
  }
  at::Tensor drawn(const std::string& model, const std::string& options = "") const {
    latents_of(model, options);
    return io::SafetensorsFile::open(at("drawn.safetensors"))->tensor("latents").clone();
  }
};

}  // namespace

TEST_F(QwenLayeredRun, LayersAreNamedInTheWaysThatPeopleHaveThem) {
  train("lists", kLora + data());
  // A folder of pictures with captions, as musubi-tuner reads it.
  fs::copy(kLayers, at("folder"));
  fs::remove(at("folder") / "metadata.json");
  train("folder_run", kLora + data(at("folder")));
  // A column a layer, as in musubi-tuner's JSON lines; lists in the cells of a table; a folder a row, beside DiffSynth-Studio's columns.
  std::string lines, table = "image,prompt\n", folders = "image,prompt,layer_num,layer_input_image\n";
  const char* captions[] = {"red apple", "a cat face; smiling", "tree", "red apple"};
  for (int i = 0; i < 4; ++i) {
    const auto stem = std::to_string(i);
    std::string caption = i == 1 ? "a cat face, smiling" : captions[i];
    lines += R"({"image_path_0": ")" + stem + R"(.png", "image_path_1": ")" + stem + R"(_1.png", "image_path_2": ")" + stem +
             R"(_2.png", "caption": ")" + caption + "\"}\n";
    table += R"("[""N.png"", ""N_1.png"", ""N_2.png""]",")" + caption + "\"\n";
    for (auto at = table.find('N'); at != table.npos; at = table.find('N')) table.replace(at, 1, stem);
    auto folder = at(stem);
    fs::create_directories(folder);
    for (const std::string layer : {"", "_1", "_2"}) fs::copy(kLayers / (stem + layer + ".png"), folder / ("layer" + layer + ".png"));
    folders += folder.string() + ",\"" + caption + "\",2,\n";
  }
  train("lines", kLora + rows("lines.jsonl", lines) + "--data_file_keys image_path");
  train("table", kLora + rows("table.csv", table));
  for (const char* other : {"folder_run", "lines", "table"}) expect_same("lists", other);
  train("folders", kLora + rows("folders.csv", folders) + "--extra_inputs layer_num,layer_input_image");
  auto by_name = of_log("folders", "loss");
  ASSERT_EQ(by_name.size(), 3u);
  EXPECT_EQ(by_name, of_log("lists", "loss"));
}

TEST_F(QwenLayeredRun, TransparencyIsReadAndNotLaidOverWhite) {
  fs::copy(kLayers, at("opaque"));
  for (const auto& file : fs::directory_iterator(at("opaque"))) {
    if (file.path().extension() == ".png") data::write_png(file.path(), data::decode_image(file.path()));
  }
  train("transparent", kLora + data());
  train("opaque_run", kLora + data(at("opaque") / "metadata.json"));
  EXPECT_NE(of_log("transparent", "loss"), of_log("opaque_run", "loss"));
}

TEST_F(QwenLayeredRun, ARowMayNameAnotherPictureToBeTakenApart) {
  const std::string image = R"([{"prompt": "red apple", "image": ["0.png", "0_1.png", "0_2.png"])";
  train("own", kLora + rows("own.json", image + "}]") + "--extra_inputs layer_input_image");
  train("same", kLora + rows("same.json", image + R"(, "layer_input_image": "0.png"}])") + "--extra_inputs layer_input_image");
  train("other", kLora + rows("other.json", image + R"(, "layer_input_image": "1.png"}])") + "--extra_inputs layer_input_image");
  EXPECT_EQ(of_log("own", "loss"), of_log("same", "loss"));
  EXPECT_NE(of_log("own", "loss"), of_log("other", "loss"));
  // One layer alone, as DiffSynth-Studio's Layered-Control is trained.
  train("single", kLora + rows("single.json", R"([{"prompt": "cat", "image": "0_1.png", "layer_num": 0, "layer_input_image": "0.png"}])") +
                      "--extra_inputs layer_num,layer_input_image");
}

TEST_F(QwenLayeredRun, RowsThatDoNotFitAreSaid) {
  auto refused = [&](const std::string& row, const std::string& more = "") {
    auto outcome = run_burnish(train_command("none", kLora + rows("rows.json", "[" + row + "]") + more));
    EXPECT_EQ(outcome.exit_code, more.find("num_frames") == more.npos ? 3 : 2) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(refused(R"({"prompt": "", "image": ["0.png", "0_1.png"], "layer_num": 2})"),
              HasSubstr("the layer_num is 2, and the row names 2 pictures: the whole and 1 layers"));
  data::write_png(at("small.png"), at::zeros({24, 32, 4}, at::kByte));
  EXPECT_THAT(refused(R"({"prompt": "", "image": ["0.png", ")" + at("small.png").string() + "\"]}"),
              AllOf(HasSubstr("the layer 1 "), HasSubstr("is 32 by 24 pixels and the picture")));
  EXPECT_THAT(refused(R"({"prompt": "", "image": ["0.png", ""]})"), HasSubstr("the column 'image' names no file"));
  EXPECT_THAT(refused(R"({"prompt": "", "image": ["0.png"], "layer_input_image": ["0.png", "1.png"]})", "--extra_inputs layer_input_image"),
              HasSubstr("has in the column 'layer_input_image' 2 reference pictures, of which Qwen-Image-Layered sees 1 at most"));
  EXPECT_THAT(refused(R"({"prompt": "", "image": ["0.png"]})", "--num_frames 3"), HasSubstr("rows of this model say by their files"));
}

TEST_F(QwenLayeredRun, SplitRunsAndBatchesAreTheSame) {
  train("whole", kLora + data());
  run_ok("train " + qwen_layered_model() + "--height 48 --width 64 --task sft:data_process --output_path " + quoted(at("cache")) + " " +
         data());
  train("split", kLora + "--task sft:train --dataset_base_path " + quoted(at("cache")));
  expect_same("whole", "split");
  train("together", kLora + data() + "--batch_size 4");
  train("apart", kLora + data() + "--gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(QwenLayeredRun, RowsOfUnequalNumbersOfLayersAreBatchedByThem) {
  auto mixed =
      rows("mixed.json", R"([{"prompt": "a", "image": ["0.png", "0_1.png", "0_2.png"]}, {"prompt": "b", "image": ["1.png", "1_1.png"]},
    {"prompt": "c", "image": ["2.png", "2_1.png", "2_2.png"]}, {"prompt": "d", "image": ["3.png", "3_1.png"]}])");
  train("mixed", kLora + mixed + "--batch_size 2");
  ASSERT_EQ(of_log("mixed", "loss").size(), 3u);
}

TEST_F(QwenLayeredRun, PairsOfDpoHaveLayersEach) {
  auto pairs = rows("pairs.json",
                    R"([{"prompt": "a", "image": ["0.png", "0_1.png", "0_2.png"], "rejected_image": ["1.png", "1_1.png", "1_2.png"]}])");
  train("dpo", kLora + pairs + "--task dpo ");
  EXPECT_NEAR(of_log("dpo", "loss").front(), std::log(2.0), 1e-6) << "nothing is trained yet";
  auto unequal =
      rows("unequal.json", R"([{"prompt": "a", "image": ["0.png", "0_1.png", "0_2.png"], "rejected_image": ["1.png", "1_1.png"]}])");
  auto outcome = run_burnish(train_command("none", kLora + unequal + "--task dpo "));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("the column 'rejected_image' names 2 pictures, and 3 were expected"));
}

TEST_F(QwenLayeredRun, LayersAreWrittenAsPicturesWithTransparency) {
  auto sample = [&](const std::string& options) {
    return run_burnish("sample " + qwen_layered_model() +
                       "--prompt 'red apple' --height 48 --width 64 --num_inference_steps 2 --output_path " + quoted(at("out")) + " " +
                       options);
  };
  auto drawn = sample(picture_to_part());
  ASSERT_EQ(drawn.exit_code, 0) << drawn.output;
  EXPECT_THAT(drawn.output, HasSubstr("1 picture in"));
  for (const char* file : {"0000.png", "0000_1.png", "0000_2.png"}) {
    auto layer = data::decode_rgba(at("out") / file);
    EXPECT_EQ(layer.sizes(), (std::vector<int64_t>{48, 64, 4})) << file;
    EXPECT_LT(layer.select(2, 3).min().item<int64_t>(), 255) << file;
    EXPECT_EQ(data::read_png_text(at("out") / file)["num_frames"], "3");
  }
  EXPECT_FALSE(fs::exists(at("out") / "0000_3.png"));
  // Fewer layers leave none of the picture that was there.
  ASSERT_EQ(sample("--reference " + quoted(kLayers / "1.png") + " --num_frames 2").exit_code, 0);
  EXPECT_TRUE(fs::exists(at("out") / "0000_1.png"));
  EXPECT_FALSE(fs::exists(at("out") / "0000_2.png"));
  auto refused = [&](const std::string& options) {
    auto outcome = sample(options);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    return outcome.output;
  };
  // The layers alone.
  ASSERT_EQ(sample("--without_whole " + picture_to_part()).exit_code, 0);
  EXPECT_TRUE(fs::exists(at("out") / "0000_1.png"));
  EXPECT_FALSE(fs::exists(at("out") / "0000_2.png"));
  EXPECT_THAT(refused("--num_frames 3"),
              HasSubstr("Qwen-Image-Layered makes its layers of a picture, and the prompt 'red apple' has none"));
  EXPECT_THAT(refused(picture_to_part() + "--format webp"), HasSubstr("this model draws layers, which are written as PNG"));
  EXPECT_THAT(refused(picture_to_part() + "--zero_cond_t true"), HasSubstr("zero_cond_t is of Qwen-Image-Edit-2511"));
}

TEST_F(QwenLayeredRun, PreviewsShowLayers) {
  const auto prompts = write("prompts.txt", "red apple --w 64 --h 48 --s 2 --f 3 --ci " + (kLayers / "1.png").string() + "\n");
  const auto previews = "--preview_prompts " + quoted(prompts) + " --preview_steps 3 ";
  train("run", kLora + data() + previews + "--extra_inputs layer_input_image");
  for (const char* file : {"00.png", "00_1.png", "00_2.png"})
    EXPECT_EQ(data::decode_rgba(at("run") / "samples/step-000003" / file).size(0), 48) << file;
  auto outcome = run_burnish(train_command("none", kLora + data() + previews));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("for previews give the run extra_inputs"));
}

TEST_F(QwenLayeredRun, NamesOfOtherProgramsMeanTheSameLayers) {
  const auto adapter = quoted(kQwenLayered / "lora.safetensors") + " ";
  auto expected = drawn(qwen_layered_model(), "--lora " + adapter);
  EXPECT_GT(relative_error(drawn(qwen_layered_model()), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_transformer_blocks_1_attn_to_q.lora_down.weight"),
                                    {"comfyui", "diffusion_model.transformer_blocks.1.attn.to_q.lora_A.weight"},
                                    {"diffsynth", "transformer_blocks.1.attn.to_q.lora_A.default.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + adapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kQwenLayered / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(drawn(qwen_layered_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(QwenLayeredRun, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kQwenLayered / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Qwen-Image-Layered"));
  auto file = io::TensorSource::open({at("single.safetensors").string()});
  EXPECT_TRUE(file.contains("model.diffusion_model.time_text_embed.addition_t_embedding.weight"));
  EXPECT_EQ(file.info("vae.encoder.conv1.weight").shape[1], 4);
  const auto expected = drawn(qwen_layered_model());
  // Without a config the small text encoder is not known by its tensors.
  io::NamedTensors others;
  for (const auto& name : file.names()) {
    if (!name.starts_with("text_encoders.")) others.emplace_back(name, file.tensor(name));
  }
  io::save_safetensors(at("others.safetensors"), others);
  EXPECT_TRUE(at::equal(drawn("--model " + quoted(at("others.safetensors")) + " --model " + quoted(kQwenLayered / "model/text_encoder") +
                              " --tokenizer_path " + quoted(kQwenLayered / "model/tokenizer") + " --dtype fp32 "),
                        expected));
  auto transformer = quoted(at("transformer.safetensors"));
  run_ok("convert " + quoted(kQwenLayered / "model/transformer") + " " + transformer);
  run_ok("convert " + transformer + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(drawn(qwen_layered_model(at("back"))), expected));
  EXPECT_THAT(run_ok("inspect " + quoted(kQwenLayered / "model")), HasSubstr("Qwen-Image-Layered transformer (2 layers, width 32"));
}

TEST_F(QwenLayeredRun, APlanOfThePublishedModelCountsLayers) {
  auto peak = [&](const std::string& frames) {
    return run_ok("plan --model qwen-image-layered --height 640 --width 640 " + kLora + frames + " --json");
  };
  EXPECT_NE(peak("--num_frames 5"), peak("--num_frames 2"));
}

TEST_F(QwenLayeredRun, WhatIsOfOtherModelsIsRefused) {
  auto refused = [&](const std::string& options) {
    auto outcome = run_burnish(train_command("none", kLora + data() + options));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(refused("--extra_inputs edit_image"), HasSubstr("reads those of 'layer_input_image'; name that column"));
  EXPECT_THAT(refused("--extra_inputs blockwise_controlnet_image"), HasSubstr("blockwise_controlnet_image"));
  auto plain = run_burnish("train --model " + quoted(fs::path(golden_path("qwen_image_pipeline/model"))) + " --height 48 --width 64 " +
                           kLora + data() + "--output_path " + quoted(at("none")));
  EXPECT_EQ(plain.exit_code, 3);
  EXPECT_THAT(plain.output, HasSubstr("the column 'image' names several files"));
}

TEST_F(QwenLayeredRun, DataAreLookedAtAsTheModelTakesThem) {
  const auto settings = write("run.toml", "model = '" + (kQwenLayered / "model").string() + "'\ndataset_metadata_path = '" +
                                              (kLayers / "metadata.json").string() + "'\nheight = 48\nwidth = 64\n");
  const auto said = run_ok("data --settings " + quoted(settings));
  EXPECT_THAT(said, HasSubstr("64x48x3              4         4         4"));
  EXPECT_THAT(said, Not(HasSubstr("clips")));
}

}  // namespace burnish::qwen_layered_train_test
