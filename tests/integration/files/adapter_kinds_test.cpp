// Adapters that are no LoRA: what LyCORIS, peft and sd-scripts make of their own files (tests/golden/make_kinds.py), and training of the
// kinds that train.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <cmath>

#include "adapters/adapter_file.h"
#include "base/error.h"
#include "io/safetensors.h"
#include "loras/lora_file.h"
#include "loras/merged.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/places.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kKinds = fs::path(test::kCheckout) / "tests/golden/wild/kinds";

std::string file_of(const std::string& kind) {
  auto file = kKinds / (kind + ".safetensors");
  return fs::exists(file) ? file.string() : (kKinds / kind).string();
}

std::unique_ptr<models::Model> open(bool is_flux) {
  models::ModelOptions options;
  options.dtype = at::kFloat;
  options.own = models::default_options();
  options.tokenizer_path = (kAssets / "tokenizer").string();
  if (is_flux) options.tokenizer_2_path = (kAssets / "tokenizer_2").string();
  return models::open_model(models::open_model_files({{golden_path(is_flux ? "pipeline/model" : "sdxl_pipeline/model")}, "", ""}), options);
}

}  // namespace

class AdapterKind : public testing::TestWithParam<const char*> {};

/// At full strength, and at 0.6 where the file's program has strengths.
TEST_P(AdapterKind, IsMergedAsItsOwnProgramDoes) {
  const std::string kind = GetParam();
  bool is_flux = kind.starts_with("peft");
  auto all = io::TensorSource::open({kKinds / "expected.safetensors"});
  for (double strength : {1.0, 0.6}) {
    auto expected = all.below(kind + (strength == 1 ? "/" : "-0.6/"));
    if (strength == 1) {
      ASSERT_FALSE(expected.names().empty());
    }
    if (expected.names().empty()) continue;
    auto model = open(is_flux);
    loras::merge(*model, {{file_of(kind), strength}});
    const auto* component = is_flux ? "dit" : "unet";
    model->components().load(component);
    auto parameters = model->components().module(component).parameters();
    for (const auto& name : expected.names()) {
      auto wanted = expected.tensor(name);
      EXPECT_LE(relative_error(parameters.at(name)->narrow(0, 0, wanted.size(0)), wanted), tolerance(1e-5)) << strength << " " << name;
    }
    // It is taken out again as it was brought in.
    auto plain = open(is_flux);
    plain->components().load(component);
    auto without = plain->components().module(component).parameters();
    for (const auto& name : expected.names()) {
      if (name.ends_with(".weight")) {
        EXPECT_FALSE(at::equal(*parameters.at(name), *without.at(name))) << name;
      }
    }
    loras::without_merged(*model, [&] {
      auto now = model->components().module(component).parameters();
      for (const auto& name : expected.names()) EXPECT_TRUE(at::equal(*now.at(name), *without.at(name))) << name;
    });
  }
}

TEST_P(AdapterKind, IsAFrozenBaseToTrainOnAndToDrawWith) {
  const std::string kind = GetParam();
  bool is_flux = kind.starts_with("peft");
  auto model = is_flux ? golden_model() : sd_model("sdxl_pipeline");
  auto data = is_flux ? golden_data() : sd_data("sdxl_pipeline");
  Scratch folder;
  auto run = [&](const std::string& name, const std::string& options) {
    auto outcome = run_burnish("train " + model + data + "--lora_rank 2 --lora_target_modules to_q,to_v --max_steps 2 " + options +
                               option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return losses(folder / name);
  };
  auto with = run("with", option("preset_lora_path", file_of(kind)));
  auto with_fp8 = run("with_fp8", option("preset_lora_path", file_of(kind)) + "--fp8_models " + (is_flux ? "dit " : "unet "));
  ASSERT_EQ(with.size(), 2u);
  ASSERT_EQ(with_fp8.size(), 2u);
  EXPECT_NE(with, run("plain", ""));
  EXPECT_NEAR(with[0], with_fp8[0], 0.05 * with[0]);
  auto drawn = [&](const std::string& name, const std::string& options) {
    auto outcome =
        run_burnish("sample " + model + "--prompt 'a red circle' --seed 5 --num_inference_steps 2 " +
                    (is_flux ? "--height 48 --width 64 " : sd_size("sdxl_pipeline")) + options + option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return read_file(folder / name / "0000.png");
  };
  EXPECT_NE(drawn("a", option("lora", file_of(kind))), drawn("b", ""));
}

INSTANTIATE_TEST_SUITE_P(Of, AdapterKind,
                         testing::Values("lycoris_full", "lycoris_norm", "lycoris_ia3", "lycoris_ia3_input", "lycoris_oft",
                                         "lycoris_oft_limited", "lycoris_boft", "lycoris_glora", "lycoris_tlora", "lycoris_dylora",
                                         "kohya_oft", "peft_lora_bias", "peft_ia3", "peft_oft", "peft_oft_exact", "peft_coft", "peft_boft",
                                         "peft_vera", "peft_glora", "peft_glora_vectors", "peft_glora_numbers"),
                         [](const auto& info) { return std::string(info.param); });

TEST(AdapterKinds, OfNormsAndBiasesHaveTheNamesOfComfyUI) {
  const std::string norm = "double_blocks.0.img_attn.norm.query_norm", layer = "double_blocks.0.img_attn.qkv";
  auto model = open(/*is_flux=*/true);
  auto width = model->components().skeleton("dit")->parameters().at("transformer_blocks.0.attn.norm_q.weight")->size(0);
  Scratch folder;
  for (const std::string end : {"", ".scale"}) {
    io::save_safetensors(folder / "a.safetensors", {{"diffusion_model." + norm + end + ".diff", at::ones({width})},
                                                    {"diffusion_model." + layer + ".diff_b", at::arange(96, at::kFloat) + 1}});
    auto found = loras::read(*model, folder / "a.safetensors").at("dit");
    ASSERT_EQ(found.size(), 4u);
    for (const auto& w : found) {
      bool is_bias = w.target == "bias";
      EXPECT_EQ(w.path == "transformer_blocks.0.attn.norm_q", !is_bias) << w.path;
      if (w.path.ends_with("to_k")) {
        EXPECT_EQ(w.parameters[0].second[w.fused_rows.begin].item<float>(), 33);
      }
    }
  }
  io::save_safetensors(folder / "a.safetensors", {{"diffusion_model." + norm + ".diff", at::ones({width + 1})}});
  EXPECT_THAT(error_of([&] { loras::read(*model, folder / "a.safetensors"); }), HasSubstr("numbers there"));
}

TEST(AdapterKinds, AreSaidByInspect) {
  for (const auto& [kind, text] : {std::pair{"lycoris_full", "bias delta on 1 layer, full on 2 layers"},
                                   {"lycoris_norm", "bias delta on 2 layers, norm delta on 2 layers"},
                                   {"lycoris_ia3", "ia3 on 2 layers"},
                                   {"lycoris_oft", "oft on 2 layers"},
                                   {"lycoris_boft", "boft on 2 layers"},
                                   {"lycoris_glora", "glora of rank 4 on 2 layers"},
                                   {"lycoris_tlora", "tlora of rank 4 on 1 layer"},
                                   {"kohya_oft", "oft on 1 layer"},
                                   {"peft_lora_bias/adapter_model", "bias delta on 2 layers, lora of rank 2 on 2 layers"},
                                   {"peft_ia3/adapter_model", "ia3 on 2 layers"},
                                   {"peft_vera/adapter_model", "vera of rank 3 on 2 layers"},
                                   {"peft_boft/adapter_model", "boft on 2 layers"},
                                   {"peft_glora/adapter_model", "glora of rank 3 on 2 layers"}}) {
    auto outcome = run_burnish("inspect '" + file_of(kind) + "'");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(std::string("adapter: ") + text)) << kind;
  }
}

/// Each tensor of each file in turn left out, flattened, cut short or made a single number: read, or refused in a sentence.
TEST(AdapterKinds, ThatAreDamagedAreRefusedInASentence) {
  Scratch folder;
  int64_t num_refused = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kKinds)) {
    if (entry.path().extension() != ".safetensors" || entry.path().stem() == "expected") continue;
    auto source = io::TensorSource::open({entry.path()});
    auto model = open(entry.path().string().find("peft") != std::string::npos);
    for (const auto& damaged : source.names()) {
      for (const std::string how : {"left out", "flat", "short", "one"}) {
        io::NamedTensors tensors;
        for (const auto& name : source.names()) {
          auto value = source.tensor(name);
          if (name == damaged && how == "left out") continue;
          if (name == damaged && how == "flat") value = value.flatten();
          if (name == damaged && how == "short" && value.dim() > 0) value = value.narrow(0, 0, value.size(0) - 1).contiguous();
          if (name == damaged && how == "one") value = value.flatten().narrow(0, 0, 1).squeeze();
          tensors.emplace_back(name, value);
        }
        if (tensors.empty()) continue;
        io::save_safetensors(folder / "a.safetensors", tensors);
        try {
          loras::merge(*model, {{folder / "a.safetensors"}});
          for (const char* component : {"dit", "unet"}) {
            if (!model->components().has(component)) continue;
            model->components().load(component);
            model->components().unload(component);
          }
        } catch (const Error&) {
          ++num_refused;
        } catch (const std::exception& error) {
          ADD_FAILURE() << entry.path() << " " << damaged << " " << how << ": " << error.what();
        }
      }
    }
  }
  EXPECT_GT(num_refused, 100);
}

TEST(AdapterKinds, ThatCannotTrainAreRefusedBeforeLoading) {
  Scratch folder;
  for (const auto& [kind, text] :
       {std::pair{"peft_boft", "it has boft"}, {"peft_lora_bias", "a change of its bias"}, {"peft_oft", "it has oft"}}) {
    auto outcome = run_burnish("train " + golden_model() + golden_data() + "--max_steps 1 " + option("lora_checkpoint", file_of(kind)) +
                               option("output_path", folder / kind));
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_THAT(outcome.output, testing::AllOf(HasSubstr("cannot be trained further"), HasSubstr(text)));
  }
}

TEST(AdapterKinds, OftAndFullTrainWithEveryOptimizer) {
  Scratch folder;
  for (const std::string type : {"oft", "full"}) {
    for (const std::string optimizer : {"adamw", "adamw8bit", "adafactor", "came", "lion", "prodigy", "adamw_schedulefree"}) {
      auto name = type + optimizer;
      auto outcome =
          run_burnish("train " + golden_model() + golden_data() + "--lora_rank 4 --lora_target_modules to_q,proj_mlp --max_steps 2 " +
                      "--lora_type " + type + " --optimizer " + optimizer + " " + option("output_path", folder / name));
      ASSERT_EQ(outcome.exit_code, 0) << name << outcome.output;
      for (auto loss : losses(folder / name)) EXPECT_TRUE(std::isfinite(loss)) << name;
      auto file = io::TensorSource::open({folder / name / "step-2.safetensors"});
      for (const auto& key : file.names()) {
        if (!key.ends_with(".alpha")) {
          EXPECT_TRUE(file.tensor(key).any().item<bool>()) << name << " " << key;
        }
      }
    }
  }
}
