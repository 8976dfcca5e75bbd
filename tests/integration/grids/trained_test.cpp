// What a run trains: text encoders beside or instead of the denoiser, whole or under adapters, computed once, at every visit or in two
// stages.
#include "tests/golden.h"
#include "tests/integration/families/krea2.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;

namespace {

const std::string kSteps = "--learning_rate 1e-3 --max_steps 3 --batch_size 2 ";

std::string quote(const fs::path& path) { return "'" + path.string() + "' "; }

void expect_ok(const std::string& arguments) {
  auto outcome = run_burnish(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
}

std::string train(const std::string& options, const fs::path& output) {
  return "train " + golden_model() + golden_data() + kSteps + options + "--output_path " + quote(output);
}

/// Losses and gradient norms, every digit.
std::string numbers(const fs::path& run) {
  std::string text;
  for (auto& line : read_log(run)) text += nlohmann::json{line["loss"], line["grad_norm"]}.dump() + "\n";
  return text;
}

void expect_same_files(const fs::path& a, const fs::path& b) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(a)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++count;
    EXPECT_EQ(read_file(entry.path()), read_file(b / entry.path().filename())) << entry.path();
  }
  EXPECT_GE(count, 1);
}

}  // namespace

// Models beside the small families.
const std::string kEdit = "qwen_edit", kKreaEdit = "krea2_edit", kQwen21Edit = "qwen_image_21_edit", kTi2v = "ti2v", kI2v = "i2v";

struct TrainedCase {
  std::string name, options, family = "flux";
  std::string model() const {
    if (family == kEdit) return qwen_edit_model();
    if (family == kKreaEdit) return krea2_edit_model();
    if (family == kQwen21Edit) return qwen_image_21_edit_model();
    return family == kTi2v || family == kI2v ? wan_from_frame(family) : small_family(family).model();
  }
  std::string data() const {
    if (family == kEdit) return qwen_edit_data();
    if (family == kKreaEdit) return krea2_edit_data();
    if (family == kQwen21Edit) return qwen_image_21_edit_data();
    return family == kTi2v || family == kI2v ? wan_clips(family == kTi2v ? 32 : 48) : small_family(family).data();
  }
};
void PrintTo(const TrainedCase& c, std::ostream* out) { *out << c.name; }

class Trained : public testing::TestWithParam<TrainedCase> {};

TEST_P(Trained, SplitStagedAndUnsplitRunsAreEqualBitForBit) {
  Scratch folder;
  const auto& c = GetParam();
  auto run = [&](const std::string& data, const std::string& options, const std::string& output) {
    expect_ok("train " + c.model() + data + kSteps + c.options + options + "--output_path " + quote(folder / output));
  };
  run(c.data(), "", "staged");
  run(c.data(), "--precompute none ", "unsplit");
  run(c.data(), "--task sft:data_process ", "cache");
  run("--dataset_base_path " + quote(folder / "cache"), "--task sft:train ", "split");
  ASSERT_EQ(read_log(folder / "staged").size(), 3u);
  EXPECT_EQ(numbers(folder / "staged"), numbers(folder / "unsplit"));
  EXPECT_EQ(numbers(folder / "staged"), numbers(folder / "split"));
  expect_same_files(folder / "staged", folder / "unsplit");
  expect_same_files(folder / "staged", folder / "split");
}

const std::string kSmall = "--lora_rank 4 ";

INSTANTIATE_TEST_SUITE_P(
    Of, Trained,
    testing::Values(TrainedCase{"lora", kSmall}, TrainedCase{"whole_denoiser", "--trainable_models dit "},
                    TrainedCase{"whole_clip_and_denoiser_in_fp8", "--trainable_models dit,text_encoder --trained_weights fp8 "},
                    TrainedCase{"clip_lora", kSmall + "--lora_base_model text_encoder "},
                    TrainedCase{"both_loras", kSmall + "--lora_base_model dit,text_encoder --lora_dropout 0.2 "},
                    TrainedCase{"all_loras", kSmall + "--lora_base_model dit,text_encoder,text_encoder_2 --use_gradient_checkpointing "},
                    TrainedCase{"both_loras_with_drawn_captions_and_latents",
                                kSmall + "--lora_base_model dit,text_encoder --caption_dropout 0.4 --latents sample "},
                    TrainedCase{"lora_and_whole_clip", kSmall + "--lora_base_model dit --trainable_models text_encoder "},
                    TrainedCase{"whole_t5_alone", "--trainable_models text_encoder_2 "}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Sdxl, Trained,
    testing::Values(TrainedCase{"lora", kSmall, "sdxl"}, TrainedCase{"whole_denoiser", "--trainable_models unet ", "sdxl"},
                    TrainedCase{"clip_lora", kSmall + "--lora_base_model text_encoder ", "sdxl"},
                    TrainedCase{"open_clip_lora", kSmall + "--lora_base_model text_encoder_2 ", "sdxl"},
                    TrainedCase{"all_loras", kSmall + "--lora_base_model unet,text_encoder,text_encoder_2 --lora_dropout 0.2 ", "sdxl"},
                    TrainedCase{"all_doras_with_all_that_is_drawn",
                                kSmall + "--lora_base_model unet,text_encoder,text_encoder_2 --lora_type dora --noise_offset 0.1 "
                                         "--caption_dropout 0.4 --latents sample --min_snr_gamma 5 --use_gradient_checkpointing ",
                                "sdxl"},
                    TrainedCase{"lora_and_whole_clip", kSmall + "--lora_base_model unet --trainable_models text_encoder ", "sdxl"},
                    TrainedCase{"whole_clip_alone", "--trainable_models text_encoder ", "sdxl"},
                    TrainedCase{"whole_open_clip_alone", "--trainable_models text_encoder_2 --max_token_length 150 ", "sdxl"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Sd15, Trained,
    testing::Values(TrainedCase{"lora", kSmall, "sd15"}, TrainedCase{"whole_denoiser", "--trainable_models unet ", "sd15"},
                    TrainedCase{"clip_lora", kSmall + "--lora_base_model text_encoder --clip_skip 2 ", "sd15"},
                    TrainedCase{"both_loras", kSmall + "--lora_base_model unet,text_encoder --prediction_type v_prediction ", "sd15"},
                    TrainedCase{"whole_clip_alone", "--trainable_models text_encoder ", "sd15"}),
    [](const auto& info) { return info.param.name; });

/// Of every transformer but FLUX.1's, which has cases of its own.
std::vector<TrainedCase> of_every_family() {
  std::vector<TrainedCase> all;
  for (const auto& family : small_families([](const auto& f) { return f.is_transformer() && f.name != "flux"; })) {
    auto add = [&](const std::string& name, const std::string& options) {
      all.push_back({family.name + "_" + name, options, family.name});
    };
    add("lora", kSmall);
    add("whole_denoiser", "--trainable_models dit ");
    add("dora_over_nf4", kSmall + "--lora_type dora --fp8_models dit --weight_format nf4 ");
    add("lokr_over_int8", kSmall + "--lora_type lokr --fp8_models dit --weight_format int8 ");
    add("dora_over_rotated_int8", kSmall + "--lora_type dora --fp8_models dit --weight_format int8_convrot ");
    // References are given by their latents' mean, and of the size that the cache was told, which a run from it has to name again.
    if (family.name == "minimax_h3_references") continue;
    add("text_lora", kSmall + "--lora_base_model text_encoder ");
    add("both_loras_with_all_that_is_drawn", kSmall +
                                                 "--lora_base_model dit,text_encoder --lora_dropout 0.2 --caption_dropout 0.4 "
                                                 "--latents sample --use_gradient_checkpointing ");
    add("whole_text_alone", "--trainable_models text_encoder ");
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sd3, Trained,
                         testing::Values(TrainedCase{"all_loras",
                                                     kSmall + "--lora_base_model dit,text_encoder,text_encoder_2,text_encoder_3 ", "sd3"},
                                         TrainedCase{"open_clip_lora", kSmall + "--lora_base_model text_encoder_2 ", "sd3"},
                                         TrainedCase{"whole_t5_alone", "--trainable_models text_encoder_3 ", "sd3"}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(EveryFamily, Trained, testing::ValuesIn(of_every_family()), [](const auto& info) { return info.param.name; });

const std::string kModulation = "--lora_rank 4 --lora_target_modules ";  // of layers that a run may compute ahead, or leave out

INSTANTIATE_TEST_SUITE_P(
    LayersOf, Trained,
    testing::Values(TrainedCase{"chromas_modulation", kModulation + "distilled_guidance_layer.out_proj,to_q ", "chroma"},
                    TrainedCase{"flux2s_modulation", kModulation + "single_stream_modulation.linear,to_qkv_mlp_proj ", "flux2"},
                    TrainedCase{"flux3s_text", kModulation + "context_embedder,to_q ", "flux3"},
                    TrainedCase{"animas_conditioner", kSmall + "--lora_base_model text_conditioner ", "anima"},
                    TrainedCase{"animas_conditioner_whole", "--trainable_models dit,text_conditioner ", "anima"},
                    TrainedCase{"all_of_anima", kSmall + "--lora_target_modules all-linear ", "anima"},
                    TrainedCase{"qwen_images_body", kModulation + "to_q,to_v,img_mlp.net.2 ", "qwen_image"},
                    TrainedCase{"qwen_image_21s_modulation", kModulation + "modulation.1,to_v ", "qwen_image_21"},
                    TrainedCase{"krea2s_blocks", kModulation + "to_out.0,ff.down,final_layer.linear ", "krea2"},
                    TrainedCase{"krea2s_fusion", kModulation + "text_fusion.projector,txt_in.linear_1 ", "krea2"},
                    TrainedCase{"wans_time", kModulation + "time_proj,to_q ", "wan"},
                    TrainedCase{"wans_parts", "--trainable_models dit.blocks.1.attn1,dit.blocks.0.ffn ", "wan"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    QwenEdit, Trained,
    testing::Values(TrainedCase{"lora", kSmall + "--zero_cond_t --use_gradient_checkpointing ", kEdit},
                    TrainedCase{"dora_over_nf4", kSmall + "--lora_type dora --fp8_models dit,image_encoder --weight_format nf4 ", kEdit},
                    TrainedCase{"text_lora", kSmall + "--lora_base_model dit,text_encoder ", kEdit}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(QwenImage21Edit, Trained,
                         testing::Values(TrainedCase{"lora", kSmall + "--use_gradient_checkpointing ", kQwen21Edit},
                                         TrainedCase{"text_lora", kSmall + "--lora_base_model dit,text_encoder ", kQwen21Edit}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Krea2Edit, Trained,
                         testing::Values(TrainedCase{"lora", kSmall + "--use_gradient_checkpointing ", kKreaEdit},
                                         TrainedCase{"text_lora", kSmall + "--lora_base_model dit,text_encoder ", kKreaEdit}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    WanFromAFrame, Trained,
    testing::Values(TrainedCase{"dora_over_nf4", kSmall + "--lora_type dora --fp8_models dit --weight_format nf4 --latents sample ", kTi2v},
                    TrainedCase{"whole_denoiser", "--trainable_models dit ", kI2v}),
    [](const auto& info) { return info.param.name; });

TEST(TrainedEncoders, ResumeBitForBit) {
  Scratch folder;
  auto options = "train " + golden_model() + golden_data() +
                 "--lora_rank 4 --lora_base_model dit,text_encoder --trainable_models text_encoder_2 " +
                 "--lora_dropout 0.1 --learning_rate 1e-3 --text_encoder_lr 1e-4,text_encoder_2=1e-5 ";
  expect_ok(options + "--max_steps 5 --output_path " + quote(folder / "whole"));
  expect_ok(options + "--max_steps 2 --output_path " + quote(folder / "parts"));
  expect_ok(options + "--max_steps 5 --resume --output_path " + quote(folder / "parts"));
  EXPECT_EQ(numbers(folder / "whole"), numbers(folder / "parts"));
  for (const char* name : {"step-5.safetensors", "step-5.text_encoder_2.safetensors"})
    EXPECT_EQ(read_file(folder / "whole" / name), read_file(folder / "parts" / name)) << name;
}

TEST(TrainedEncoders, RatesAreOfTheirComponent) {
  Scratch folder;
  auto moved = [&](const std::string& rates, const std::string& run) {
    expect_ok("train " + golden_model() + golden_data() + "--trainable_models text_encoder,text_encoder_2 --weight_decay 0 --max_steps 1 " +
              "--learning_rate 1e-2 " + rates + "--output_path " + quote(folder / run));
    auto clip = io::SafetensorsFile::open(folder / run / "step-1.text_encoder.safetensors")->tensor("final_layer_norm.bias");
    auto t5 = io::SafetensorsFile::open(folder / run / "step-1.text_encoder_2.safetensors")->tensor("encoder.final_layer_norm.weight");
    auto from = [&](const char* component, const char* name) {
      return io::SafetensorsFile::open(kGolden / "model" / component / "model.safetensors")->tensor(name);
    };
    // The first step of AdamW moves every number by the rate.
    return std::pair{(clip - from("text_encoder", "final_layer_norm.bias")).abs().max().item<double>(),
                     (t5 - from("text_encoder_2", "encoder.final_layer_norm.weight")).abs().max().item<double>()};
  };
  auto same = moved("", "same");
  EXPECT_NEAR(same.first, 1e-2, 1e-4);
  EXPECT_NEAR(same.second, 1e-2, 1e-4);
  auto own = moved("--text_encoder_lr 2e-3,text_encoder_2=5e-4 ", "own");
  EXPECT_NEAR(own.first, 2e-3, 1e-4);
  EXPECT_NEAR(own.second, 5e-4, 1e-5);
}

TEST(TrainedEncoders, WholeEncoderIsReadInPlaceOfTheModels) {
  Scratch folder;
  expect_ok(train("--trainable_models text_encoder ", folder / "run"));
  auto file = folder / "run/step-3.text_encoder.safetensors";
  auto original = io::SafetensorsFile::open(kGolden / "model/text_encoder/model.safetensors");
  EXPECT_EQ(io::SafetensorsFile::open(file)->tensors().size(), original->tensors().size());
  auto latents = [&](const std::string& model, const std::string& name) {
    expect_ok("sample " + model + golden_model() + "--prompt cat --height 48 --width 64 --num_inference_steps 2 --save_latents " +
              quote(folder / (name + ".safetensors")) + "--output_path " + quote(folder / "out"));
    return io::SafetensorsFile::open(folder / (name + ".safetensors"))->tensor("latents");
  };
  EXPECT_GT(relative_error(latents("--model " + quote(file), "trained"), latents("", "original")), 1e-5);
}

/// Adapters of three components trained, beside diffusers and peft (tests/golden/make_encoder_lora.py).
class EncoderLoraParity : public testing::Test {
 protected:
  const fs::path file = kGolden / "encoder_lora.safetensors";
  io::TensorSource expected = io::TensorSource::open({(kGolden / "expected_encoder_lora.safetensors").string()});
  Scratch folder;

  void expect_steps(const std::string& options) {
    expect_ok("train " + golden_model() + golden_data() + "--max_steps 10 --learning_rate 1e-3 --loss_weighting uniform --replay " +
              quote(kGolden / "replay.safetensors") + "--lora_checkpoint " + options + "--output_path " + quote(folder / "run"));
    auto log = read_log(folder / "run");
    auto losses = expected.tensor("loss"), norms = expected.tensor("grad_norm");
    ASSERT_EQ(log.size(), 10u);
    for (size_t i = 0; i < log.size(); ++i) {
      auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
      EXPECT_NEAR(log[i]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << "step " << i;
      EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, tolerance(1e-4) * norm) << "step " << i;
    }
  }

  at::Tensor latents(const std::string& lora) {
    io::save_safetensors(folder / "noise.safetensors",
                         {{"noise", io::SafetensorsFile::open(kGolden / "expected.safetensors")->tensor("noise")}});
    expect_ok("sample " + golden_model() +
              "--prompt 'red apple' --prompt 'tree of the north' --height 48 --width 64 --num_inference_steps 4 --embedded_guidance 3.5 "
              "--noise " +
              quote(folder / "noise.safetensors") + "--save_latents " + quote(folder / "latents.safetensors") + "--output_path " +
              quote(folder / "out") + "--lora " + lora);
    return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents");
  }

  /// The file without the layers of T5, which diffusers does not load, and of `left_out`.
  fs::path part(const std::string& left_out) {
    io::NamedTensors tensors;
    auto source = io::SafetensorsFile::open(file);
    for (const auto& [name, info] : source->tensors()) {
      if (!name.starts_with("text_encoder_2.") && !name.starts_with(left_out)) tensors.emplace_back(name, source->tensor(name).clone());
    }
    io::save_safetensors(folder / "part.safetensors", tensors);
    return folder / "part.safetensors";
  }
};

TEST_F(EncoderLoraParity, TenReplayedSteps) { expect_steps(quote(file)); }
TEST_F(EncoderLoraParity, TenReplayedStepsUnsplitAndCheckpointed) {
  expect_steps(quote(file) + "--precompute none --use_gradient_checkpointing ");
}
TEST_F(EncoderLoraParity, SampledLatents) {
  auto both = latents(quote(part("nothing"))), denoiser = latents(quote(part("text_encoder.")));
  EXPECT_LE(relative_error(both, expected.tensor("latents")), tolerance(1e-4));
  EXPECT_LE(relative_error(denoiser, expected.tensor("latents.dit")), tolerance(1e-4));
  EXPECT_GT(relative_error(both, denoiser), 1e-3);
}
TEST_F(EncoderLoraParity, OneTrainersNamesReadBackTheSame) {
  auto saved = [&](const std::string& from, const std::string& format) {
    expect_ok("train " + golden_model() + golden_data() + "--max_steps 1 --learning_rate 1e-30 --weight_decay 0 --lora_checkpoint " + from +
              "--lora_format " + format + " --output_path " + quote(folder / format));
    return folder / format / "step-1.safetensors";
  };
  auto theirs = saved(quote(file), "onetrainer");
  auto names = io::SafetensorsFile::open(theirs);
  for (const char* layer : {"lora_transformer_transformer_blocks_0_attn_to_q", "lora_te1_text_model_encoder_layers_0_self_attn_q_proj",
                            "lora_te3_encoder_block_0_layer_0_SelfAttention_q"})
    EXPECT_TRUE(names->tensors().contains(std::string(layer) + ".lora_down.weight")) << layer;
  auto again = io::SafetensorsFile::open(saved(quote(theirs), "diffusers"));
  auto first = io::SafetensorsFile::open(file);
  EXPECT_EQ(again->tensors().size(), first->tensors().size());
  const std::string clip = "text_encoder.";
  for (const auto& [name, info] : first->tensors()) {
    auto written = name.starts_with(clip) ? clip + "text_model." + name.substr(clip.size()) : name;  // as most files have it
    EXPECT_TRUE(at::equal(again->tensor(written), first->tensor(name))) << name;
  }
}

using BadTrained = BadInput;

TEST_F(BadTrained, IsRefusedByName) {
  refused(2, train("--trainable_models unet"), {"'unet' is no part of this model", "text_encoder, text_encoder_2, vae, dit"});
  refused(2, train("--lora_base_model dit,clip"), {"'clip' is no part of this model"});
  refused(2, train("--trainable_models text_encoder.nothing"), {"text_encoder has no such part"});
  refused(2, train("--trainable_models text_encoder,text_encoder_1"), {"the same weights"});
  refused(2, train("--lora_base_model dit,dit"), {"dit twice"});
  refused(2, train("--lora_base_model text_encoder --trainable_models text_encoder"), {"text_encoder is to train whole"});
  refused(2, train("--text_encoder_lr fast"), {"text_encoder_lr 'fast' must be a number"});
  refused(2, train("--text_encoder_lr text_encoder=1e-5"), {"text_encoder, which does not train"});
  refused(2, train("--precompute some"), {"precompute 'some' is not known", "all or none"});
  refused(2, train("--precompute none --cache_path " + quoted(at("cache"))), {"precompute none keeps nothing"});
  refused(2, train("--trainable_models text_encoder --fp8_models text_encoder"), {"text_encoder", "whose own weights train"});
  refused(2, train("--lora_base_model text_encoder --lora_checkpoint " + quoted(kGolden / "lora.safetensors")),
          {"holds no adapters of it", "text_encoder"});
}

TEST_F(BadTrained, PicturesAreNotInACache) {
  auto options = std::string("--trainable_models vae ");
  auto cache =
      run_burnish("train " + golden_model() + golden_data() + options + "--task sft:data_process --output_path " + quoted(at("cache")));
  ASSERT_EQ(cache.exit_code, 0) << cache.output;
  refused(3,
          "train " + golden_model() + options + "--max_steps 1 --task sft:train --dataset_base_path " + quoted(at("cache")) +
              " --output_path " + quoted(at("run")),
          {"reads the image at every visit", "choose task sft"});
}
