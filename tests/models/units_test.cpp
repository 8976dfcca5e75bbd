// Every unit of every family against a recording context: it does what it declares and nothing else.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <ranges>
#include <span>
#include <stdexcept>

#include "models/registry.h"
#include "tests/places.h"

namespace burnish::units_test {
using namespace burnish::models;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = test::kCheckout;

/// A small model of each family, as made by tests/golden/make_*.py.
struct Tiny {
  const char* family;
  const char* model;
  const char *tokenizer, *tokenizer_2;
  const char* first_trained = "";  ///< a layer of the denoiser, before which its blocks are split off
  bool references = false;
  std::vector<std::string> more = {};  ///< further files of the model, below tests/golden
  std::set<std::string> extra_inputs = {};
  OptionValues own = {};
  int64_t frames = 1;
};
constexpr const char* kLayered = "tests/golden/qwen_layered_pipeline/model";
constexpr const char* kLayeredTokenizer = "tests/golden/qwen_layered_pipeline/model/tokenizer";

const Tiny kTiny[] = {
    {"flux", "tests/golden/pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2"},
    {"flux", "tests/golden/pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2", "single_transformer_blocks.1."},
    {"flux", "tests/golden/pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2", "", true},
    {"flux", "tests/golden/pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2", "single_transformer_blocks.1.",
     true},
    {"flux", "tests/golden/pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2", "proj_out."},
    {"flux",
     "tests/golden/pipeline/model",
     "assets/tiny-flux/tokenizer",
     "assets/tiny-flux/tokenizer_2",
     "",
     false,
     {"flux_extras/controlnet", "flux_extras/ipadapter.bin", "flux_extras/siglip", "flux_extras/value_controller.safetensors"},
     {"controlnet_image", "controlnet_processor_id", "ipadapter_images", "eligen_entity_prompts", "eligen_entity_masks",
      "value_controller_inputs"}},
    {"flux",
     "tests/golden/pipeline/model",
     "assets/tiny-flux/tokenizer",
     "assets/tiny-flux/tokenizer_2",
     "",
     false,
     {"flux_extras/inpaint", "flux_extras/redux.safetensors", "flux_extras/siglip"},
     {"controlnet_image", "controlnet_inpaint_mask", "flux_redux_image"}},
    {"stable_diffusion", "tests/golden/sdxl_pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer"},
    {"stable_diffusion", "tests/golden/sd15_pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer"},
    {"flux2", "tests/golden/flux2_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"flux2", "tests/golden/flux2_pipeline/model", "tests/golden/tokenizers/qwen", "", "", true},
    {"flux2", "tests/golden/flux2_pipeline/model", "tests/golden/tokenizers/qwen", "", "transformer_blocks.1.", true},
    {"flux2", "tests/golden/flux2_pipeline/model", "tests/golden/tokenizers/qwen", "", "single_transformer_blocks.0."},
    {"flux2", "tests/golden/flux2_pipeline/model", "tests/golden/tokenizers/qwen", "", "proj_out."},
    {"flux2", "tests/golden/flux2_dev_pipeline/model", "tests/golden/tokenizers/tekken", "", "", true},
    {"flux2", "tests/golden/flux2_dev_pipeline/model", "tests/golden/tokenizers/tekken", "", "transformer_blocks.1."},
    {"ernie_image", "tests/golden/ernie_image_pipeline/model", "tests/golden/tokenizers/tekken", ""},
    {"ernie_image", "tests/golden/ernie_image_pipeline/model", "tests/golden/tokenizers/tekken", "", "layers.2."},
    {"ernie_image", "tests/golden/ernie_image_pipeline/model", "tests/golden/tokenizers/tekken", "", "final_linear."},
    {"moss_image", "tests/golden/moss_image_pipeline/model", "tests/golden/tokenizers/qwen35_json", ""},
    {"moss_image", "tests/golden/moss_image_pipeline/model", "tests/golden/tokenizers/qwen35_json", "", "layers.2."},
    {"moss_image", "tests/golden/moss_image_pipeline/model", "tests/golden/tokenizers/qwen35_json", "", "", true},
    {"moss_image", "tests/golden/moss_image_pipeline/model", "tests/golden/tokenizers/qwen35_json", "", "final_linear_video.", true},
    {"chroma", "tests/golden/chroma_pipeline/model", "assets/tiny-flux/tokenizer_2", ""},
    {"sd3", "tests/golden/sd3_pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2"},
    {"sd3", "tests/golden/sd3_pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2", "transformer_blocks.1."},
    {"sd3", "tests/golden/sd3_pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2", "proj_out."},
    {"boogu", "tests/golden/boogu_pipeline/model", "tests/golden/boogu_pipeline/model/processor", ""},
    {"boogu", "tests/golden/boogu_pipeline/model", "tests/golden/boogu_pipeline/model/processor", "", "double_stream_layers.1."},
    {"boogu", "tests/golden/boogu_pipeline/model", "tests/golden/boogu_pipeline/model/processor", "", "single_stream_layers.1."},
    {"boogu", "tests/golden/boogu_pipeline/model", "tests/golden/boogu_pipeline/model/processor", "", "norm_out."},
    {"boogu", "tests/golden/boogu_pipeline/model", "tests/golden/boogu_pipeline/model/processor", "", "", true},
    {"boogu", "tests/golden/boogu_pipeline/model", "tests/golden/boogu_pipeline/model/processor", "", "single_stream_layers.0.", true},
    {"kandinsky5", "tests/golden/kandinsky5_pipeline/model", "tests/golden/tokenizers/qwen", "assets/tiny-flux/tokenizer"},
    {"kandinsky5", "tests/golden/kandinsky5_pipeline/model", "tests/golden/tokenizers/qwen", "assets/tiny-flux/tokenizer",
     "visual_transformer_blocks.1."},
    {"kandinsky5", "tests/golden/kandinsky5_pipeline/model", "tests/golden/tokenizers/qwen", "assets/tiny-flux/tokenizer", "out_layer."},
    {"longcat_image", "tests/golden/longcat_image_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"longcat_image", "tests/golden/longcat_image_pipeline/model", "tests/golden/tokenizers/qwen", "", "transformer_blocks.1."},
    {"longcat_image", "tests/golden/longcat_image_pipeline/model", "tests/golden/tokenizers/qwen", "", "single_transformer_blocks.1."},
    {"longcat_image", "tests/golden/longcat_image_pipeline/model", "tests/golden/tokenizers/qwen", "", "proj_out."},
    {"longcat_image", "tests/golden/longcat_image_edit_pipeline/model", "tests/golden/longcat_image_edit_pipeline/model/tokenizer", "", "",
     true},
    {"longcat_image", "tests/golden/longcat_image_edit_pipeline/model", "tests/golden/longcat_image_edit_pipeline/model/tokenizer", "",
     "single_transformer_blocks.1.", true},
    {"longcat_video", "tests/golden/longcat_video_pipeline/model", "tests/golden/longcat_video_pipeline/model/tokenizer", ""},
    {"longcat_video",
     "tests/golden/longcat_video_pipeline/model",
     "tests/golden/longcat_video_pipeline/model/tokenizer",
     "",
     "",
     true,
     {},
     {},
     {},
     5},
    {"wan", "tests/golden/wan_pipeline/model", "tests/golden/wan_pipeline/model/tokenizer", ""},
    {"wan", "tests/golden/wan_pipeline/model", "tests/golden/wan_pipeline/model/tokenizer", "", "", false, {"wan_experts/low_noise_model"}},
    {"wan",
     "tests/golden/wan_image/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     true,
     {"wan_image/image_encoder", "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"}},
    {"wan",
     "tests/golden/wan_animate/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     true,
     {"wan_image/image_encoder", "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"},
     {"animate_pose_video", "animate_face_video"}},
    {"wan",
     "tests/golden/wan_animate2/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     false,
     {"wan_image/image_encoder", "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"},
     {"animate2_reference_image", "animate2_reference_video", "animate2_prompt_ref"}},
    {"wan",
     "tests/golden/wan_scail/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     false,
     {"wan_image/image_encoder", "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"},
     {"scail2_reference_image", "scail2_reference_mask", "scail2_driving_video", "scail2_driving_mask"}},
    {"wan",
     "tests/golden/wan_speech/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     true,
     {"wav2vec2", "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"},
     {"input_audio", "s2v_pose_video"},
     {},
     5},
    {"wan",
     "tests/golden/wan_speech/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     true,
     {"wav2vec2", "wan_pipeline/model/text_encoder", "wan_pipeline/model/vae"},
     {},
     {},
     5},
    {"wan",
     "tests/golden/wan_image/transformer",
     "tests/golden/wan_pipeline/model/tokenizer",
     "",
     "",
     true,
     {"wan_talk/infinitetalk.safetensors", "wav2vec2_base", "wan_image/image_encoder", "wan_pipeline/model/text_encoder",
      "wan_pipeline/model/vae"},
     {"input_audio"},
     {},
     5},
    {"flux3", "tests/golden/flux3_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"flux3", "tests/golden/flux3_pipeline/model", "tests/golden/tokenizers/qwen", "", "", true},
    {"flux3", "tests/golden/flux3_pipeline/model", "tests/golden/tokenizers/qwen", "", "single_transformer_blocks.0.", true},
    {"flux3", "tests/golden/flux3_pipeline/model", "tests/golden/tokenizers/qwen", "", "single_transformer_blocks.1."},
    {"flux3", "tests/golden/flux3_pipeline/model", "tests/golden/tokenizers/qwen", "", "proj_out."},
    {"ideogram4", "tests/golden/ideogram4_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"fibo2", "tests/golden/fibo2_pipeline/model", "tests/golden/fibo2_pipeline/model/processor", ""},
    {"fibo2", "tests/golden/fibo2_pipeline/model", "tests/golden/fibo2_pipeline/model/processor", "", "noise_refiner.1."},
    {"fibo2", "tests/golden/fibo2_pipeline/model", "tests/golden/fibo2_pipeline/model/processor", "", "layers.1.", true},
    {"fibo2", "tests/golden/fibo2_pipeline/model", "tests/golden/fibo2_pipeline/model/processor", "", "final_layer.", true},
    {"fibo2", "tests/golden/fibo2_pipeline/model", "tests/golden/fibo2_pipeline/model/processor", "", "", true},
    {"minimax_h3", "tests/golden/minimax_h3_pipeline/model", "tests/golden/minimax_h3_pipeline/model/tokenizer", ""},
    {"minimax_h3",
     "tests/golden/minimax_h3_pipeline/model",
     "tests/golden/minimax_h3_pipeline/model/tokenizer",
     "",
     "",
     false,
     {},
     {},
     {{"sound_of_stills", std::string("none")}}},
    {"minimax_h3",
     "tests/golden/minimax_h3_pipeline/model",
     "tests/golden/minimax_h3_pipeline/model/tokenizer",
     "",
     "",
     true,
     {},
     {"end_image", "input_audio"},
     {},
     22},
    {"ltx2", "tests/golden/ltx2_pipeline/model", "tests/golden/ltx2_pipeline/model/tokenizer", ""},
    {"ltx2", "tests/golden/ltx2_pipeline/model", "tests/golden/ltx2_pipeline/model/tokenizer", "", "", false, {}, {"input_audio"}, {}, 9},
    {"ltx2",
     "tests/golden/ltx2_pipeline/model",
     "tests/golden/ltx2_pipeline/model/tokenizer",
     "",
     "",
     true,
     {},
     {"input_audio", "end_image", "in_context_videos"},
     {{"given_frames", int64_t{9}}},
     17},
    {"ltx2",
     "tests/golden/ltx2_pipeline/model",
     "tests/golden/ltx2_pipeline/model/tokenizer",
     "",
     "",
     false,
     {},
     {"keyframes", "end_image"},
     {{"given_last_frames", int64_t{9}}, {"keyframe_positions", std::string("3")}},
     17},
    {"krea2", "tests/golden/krea2_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"krea2", "tests/golden/krea2_pipeline/model", "tests/golden/tokenizers/qwen", "", "transformer_blocks.2."},
    {"krea2", "tests/golden/krea2_pipeline/model", "tests/golden/tokenizers/qwen", "", "final_layer."},
    {"krea2",
     "tests/golden/krea2_pipeline/model",
     "tests/golden/krea2_edit/tokenizer",
     "",
     "transformer_blocks.1.",
     true,
     {},
     {},
     {{"processor_path", (kSource / "tests/golden/krea2_edit/processor").string()}}},
    {"krea2",
     "tests/golden/krea2_pipeline/model",
     "tests/golden/krea2_edit/tokenizer",
     "",
     "",
     true,
     {},
     {},
     {{"processor_path", (kSource / "tests/golden/krea2_edit/processor").string()}}},
    {"anima", "tests/golden/anima_pipeline/model", "tests/golden/tokenizers/qwen", "assets/tiny-flux/tokenizer_2"},
    {"anima", "tests/golden/anima_pipeline/model", "tests/golden/tokenizers/qwen", "assets/tiny-flux/tokenizer_2", "transformer_blocks.2."},
    {"anima", "tests/golden/anima_pipeline/model", "tests/golden/tokenizers/qwen", "assets/tiny-flux/tokenizer_2", "proj_out."},
    {"zimage", "tests/golden/zimage_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"zimage", "tests/golden/zimage_pipeline/model", "tests/golden/tokenizers/qwen", "", "layers.2."},
    {"zimage", "tests/golden/zimage_pipeline/model", "tests/golden/tokenizers/qwen", "", "all_final_layer."},
    {"qwen_image", "tests/golden/qwen_image_pipeline/model", "tests/golden/tokenizers/qwen", ""},
    {"qwen_image_21", "tests/golden/qwen_image_21_pipeline/model", "tests/golden/qwen_image_21_pipeline/model/processor", ""},
    {"qwen_image_21", "tests/golden/qwen_image_21_pipeline/model", "tests/golden/qwen_image_21_pipeline/model/processor", "", "proj_out."},
    {"qwen_image_21",
     "tests/golden/qwen_image_21_pipeline/model",
     "tests/golden/qwen_image_21_pipeline/model/processor",
     "",
     "transformer_blocks.1.",
     true,
     {},
     {},
     {{"reference_pixels", int64_t{2048}}}},
    {"qwen_image_21",
     "tests/golden/qwen_image_21_pipeline/model",
     "tests/golden/qwen_image_21_pipeline/model/processor",
     "",
     "",
     true,
     {},
     {},
     {{"reference_pixels", int64_t{2048}}}},
    {"qwen_image_21",
     "tests/golden/qwen_image_21_pipeline/model",
     "tests/golden/qwen_image_21_pipeline/model/processor",
     "",
     "",
     false,
     {"qwen_image_21_control/control.safetensors"},
     {"controlnet_image", "controlnet_inpaint_image", "controlnet_inpaint_mask"}},
    {"qwen_image",
     "tests/golden/qwen_edit_pipeline/model",
     "tests/golden/qwen_edit_pipeline/model/tokenizer",
     "",
     "",
     true,
     {},
     {},
     {{"reference_pixels", int64_t{4096}}, {"zero_cond_t", true}}},
    {"qwen_image", kLayered, kLayeredTokenizer, "", "", false, {}, {}, {}, 3},
    {"qwen_image", kLayered, kLayeredTokenizer, "", "", true, {}, {}, {}, 1},
};

std::unique_ptr<Model> open(const Tiny& tiny) {
  ModelOptions options{.dtype = at::kFloat,
                       .tokenizer_path = (kSource / tiny.tokenizer).string(),
                       .tokenizer_2_path = (kSource / tiny.tokenizer_2).string(),
                       .references = tiny.references,
                       .extra_inputs = tiny.extra_inputs,
                       .own = tiny.own};
  std::vector<std::string> files{(kSource / tiny.model).string()};
  for (const auto& more : tiny.more) files.push_back((kSource / "tests/golden" / more).string());
  auto model = open_model(open_model_files({files, "", ""}), options);
  std::string trained = tiny.first_trained;
  if (!trained.empty()) {
    EXPECT_NE(model->split_first_blocks([&](const std::string& path) { return path.starts_with(trained); }), "");
  }
  return model;
}

/// Units of every expert by itself.
pipeline::Units units_in_order(Model& model) {
  const auto& experts = model.names().experts;
  auto groups = model.units_of(experts.front());
  for (const auto& expert : std::span(experts).subspan(1)) {
    auto more = model.units_of(expert).denoise;
    groups.denoise.insert(groups.denoise.end(), more.begin(), more.end());
  }
  pipeline::Units all;
  for (const auto* group : {&groups.encode_prompt, &groups.encode_image, &groups.encode_references, &groups.encode_size, &groups.add_noise,
                            &groups.denoise, &groups.draw_away, &groups.weigh, &groups.decode})
    all.insert(all.end(), group->begin(), group->end());
  return all;
}

/// What a sample and a draw give to units.
pipeline::Values first_values(const Model& model, int64_t frames) {
  auto side = 4 * model.latent_space().side;
  const auto channels = model.latent_space().pixel_channels();
  auto picture_of = [&](int64_t height, int64_t width) {
    return at::linspace(-1, 1, channels * height * width).view({channels, height, width});
  };
  std::vector<at::Tensor> references{picture_of(side, side)};
  if (!model.latent_space().has_layers) references.push_back(at::zeros({3, side / 2, side}));
  auto shape = model.latent_space().shape({frames, side, side});
  auto clip_of = [&](const at::Tensor& picture) {
    return frames == 1 ? picture.unsqueeze(0) : picture.unsqueeze(1).expand({-1, frames, -1, -1}).unsqueeze(0).contiguous();
  };
  shape.insert(shape.begin(), 1);
  pipeline::Values values;
  for (const auto& input : model.names().extra_inputs) {
    auto& value = values[input.read_as()];
    const auto s = input.extent_beside({.height = side, .width = side}).height;
    auto picture = at::linspace(-1, 1, 3 * s * s).view({3, s, s});
    if (input.is == Column::Is::pictures) value = pipeline::TensorLists{{picture}};
    else if (input.is == Column::Is::clip) value = clip_of(picture);
    else if (input.is == Column::Is::sound && input.channels == 1) value = at::linspace(-1, 1, 1000 * frames).view({1, -1});
    else if (input.is == Column::Is::sound) value = at::linspace(-1, 1, 1000 * frames).expand({1, input.channels, -1});
    else if (input.is == Column::Is::numbers) value = at::full({1, 1}, 0.5, at::kFloat);
    else value = input.words.example;
  }
  for (const auto& stream : model.latent_space().streams | std::views::drop(1)) {
    auto of_stream = model.latent_space().shape(stream, {frames, side, side});
    of_stream.insert(of_stream.begin(), 1);
    values.emplace(stream.value("noise"), at::linspace(-2, 2, c10::multiply_integers(of_stream)).view(of_stream));
  }
  values.merge(pipeline::Values{{"prompt", "a red circle"},
                                {"image", clip_of(picture_of(side, side))},
                                {"sound", at::linspace(-1, 1, 1000 * frames).view({1, -1})},
                                {"reference_images", pipeline::TensorLists{references}},
                                {"noise", at::linspace(-2, 2, c10::multiply_integers(shape)).view(shape)},
                                {kNumFrames, at::scalar_tensor(frames, at::kLong)},
                                {kRateOfFrames, at::scalar_tensor(model.latent_space().frame_rate, at::kDouble)},
                                {"size_conditioning", at::full({1, 6}, side, at::kFloat)},
                                {model.process().time_name(), at::full({1}, model.process().time_at(0.5), at::kFloat)}});
  return values;
}

}  // namespace

TEST(Units, EveryFamilyIsAudited) {
  std::set<std::string_view> audited;
  for (const auto& tiny : kTiny) audited.insert(tiny.family);
  for (const auto* family : all_families()) EXPECT_TRUE(audited.contains(family->name)) << family->name << " has no line in kTiny";
}

class UnitsOf : public testing::TestWithParam<Tiny> {};

TEST_P(UnitsOf, TouchNothingUndeclared) {
  at::NoGradGuard no_grad;
  auto model = open(GetParam());
  EXPECT_EQ(model->names().family, GetParam().family);
  auto values = first_values(*model, GetParam().frames);
  for (const auto& unit : units_in_order(*model)) {
    for (const auto& name : unit.models) model->components().load(name);
    EXPECT_THAT(pipeline::audit(unit, values), testing::IsEmpty());
    pipeline::run({unit}, values);
    for (const auto& name : unit.models) model->components().unload(name);
  }
}

TEST_P(UnitsOf, ReachForNoModelThatIsNotLoaded) {
  at::NoGradGuard no_grad;
  auto model = open(GetParam());
  auto values = first_values(*model, GetParam().frames);
  for (const auto& unit : units_in_order(*model)) {
    for (const auto& missing : unit.models) {
      for (const auto& name : unit.models) {
        if (name != missing) model->components().load(name);
      }
      auto untouched = values;
      EXPECT_THROW(pipeline::run({unit}, untouched), std::logic_error) << unit.name << " without " << missing;
      for (const auto& name : unit.models) model->components().unload(name);
    }
    for (const auto& name : unit.models) model->components().load(name);
    pipeline::run({unit}, values);
    for (const auto& name : unit.models) model->components().unload(name);
  }
}

TEST_P(UnitsOf, PartsMakeTheWhole) {
  auto model = open(GetParam());
  for (const auto& component : model->components().list()) {
    std::set<std::string> whole, parts;
    int64_t bytes = 0;
    model->components().skeleton(component.name)->visit_parameters([&](const std::string& path, at::Tensor&) { whole.insert(path); });
    for (const auto& part : model->components().parts(component.name)) {
      EXPECT_EQ(component_of(part), component.name);
      bytes += model->components().num_bytes(part);
      model->components().skeleton(part)->visit_parameters(
          [&](const std::string& path, at::Tensor&) { EXPECT_TRUE(parts.insert(path).second) << path; });
      model->components().load(part);
      EXPECT_EQ(model->components().module(part).num_bytes(), model->components().num_bytes(part)) << part;
      EXPECT_EQ(&model->components().module(component.name), &model->components().module(part))
          << "the component's tree is what is loaded of it";
      model->components().unload(part);
    }
    EXPECT_EQ(parts, whole) << component.name;
    EXPECT_EQ(bytes, component.num_bytes) << component.name;
  }
}

TEST_P(UnitsOf, SpeakOfComponentsAndValuesThatTheTablesName) {
  auto model = open(GetParam());
  const auto& names = model->names();
  auto groups = model->units();
  std::set<std::string> components, written;
  for (const auto* group : {&groups.encode_prompt, &groups.encode_image, &groups.encode_references, &groups.encode_size, &groups.add_noise,
                            &groups.denoise, &groups.draw_away, &groups.weigh, &groups.decode}) {
    for (const auto& component : pipeline::components_of(*group)) components.insert(component);
    for (const auto& unit : *group) written.insert(unit.writes.begin(), unit.writes.end());
  }
  for (const auto& component : components) {
    EXPECT_FALSE(names.of(component).lora_targets.empty()) << component;
    EXPECT_FALSE(names.of(component).layers.kohya.empty()) << component;
  }
  for (const auto& name : names.denoisers()) EXPECT_TRUE(components.contains(name)) << name;
  // A run without references knows the name of theirs too, to refuse a cache of another program that has them.
  for (const auto& [name, value] : names.values) EXPECT_TRUE(written.contains(name) || value.diffsynth.of_references) << name;
  EXPECT_FALSE(names.prompt_values().empty());
  EXPECT_TRUE(names.is_denoiser(names.experts.front().component));
  EXPECT_FALSE(names.is_denoiser("text_encoder"));
  EXPECT_THROW(names.of("nothing"), std::logic_error);
}

TEST(UnitsOfFirstBlocks, AreNotInWhatIsLoadedOfTheLast) {
  auto model = open({"flux", "tests/golden/pipeline/model", "assets/tiny-flux/tokenizer", "assets/tiny-flux/tokenizer_2"});
  auto trains = [](const std::string& path) { return path == "single_transformer_blocks.1.attn.to_q.weight"; };
  EXPECT_EQ(model->split_first_blocks(trains), "dit.first_blocks");
  auto first = model->components().num_bytes("dit.first_blocks"), last = model->components().num_bytes("dit.last_blocks");
  EXPECT_EQ(first + last, model->components().num_bytes("dit"));
  EXPECT_GT(first, 2 * last);
  model->components().load(pipeline::common_part({"dit.last_blocks.modulation", "dit.last_blocks.body"}));
  EXPECT_EQ(model->components().module("dit").num_bytes(), last);
  EXPECT_EQ(model->components().blocks("dit").size(), 1u);
  for (const auto& [path, slot] : model->components().module("dit").parameters()) {
    bool later = path.starts_with("single_transformer_blocks.1.") || path.starts_with("norm_out.") || path.starts_with("proj_out.");
    EXPECT_TRUE(later) << path;
  }
  EXPECT_THROW(model->components().module("dit.first_blocks.body"), std::logic_error);
  EXPECT_EQ(model->split_first_blocks([](const std::string& path) { return path.starts_with("x_embedder."); }), "");
}

INSTANTIATE_TEST_SUITE_P(Families, UnitsOf, testing::ValuesIn(kTiny),
                         [](const auto& info) { return std::string(info.param.family) + "_" + std::to_string(info.index); });

}  // namespace burnish::units_test
