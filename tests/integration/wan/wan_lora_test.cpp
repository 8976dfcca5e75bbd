// LoRAs of Wan as other programs write them: changes of biases and norms, and pairs of files for the two transformers of Wan 2.2.
#include <gmock/gmock.h>

#include "io/safetensors.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_experts.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kWanLora = golden_path("wan_lora");
const std::string kPrompts = "--prompt 'red apple' --prompt 'tree of the north, a cat' ";

io::NamedTensors named_tensors(const fs::path& file) {
  auto source = io::TensorSource::open({file});
  io::NamedTensors all;
  for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name).clone());
  return all;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  if (auto at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
}

/// Files of the golden LoRAs of both experts, called otherwise.
class WanLoraPairs : public BadInput {
 protected:
  WanLoraPairs() { make_wan_experts(model()); }
  fs::path model() const { return at("model"); }
  /// One expert's adapter with `prefix` in place of diffusers'.
  static io::NamedTensors of_expert(const std::string& expert, const std::string& prefix) {
    auto tensors = named_tensors(kWanExperts / ("lora_" + expert + "_noise.safetensors"));
    for (auto& [name, tensor] : tensors) replace(name, expert == "high" ? "transformer." : "transformer_2.", prefix);
    return tensors;
  }
  fs::path save(const std::string& name, const io::NamedTensors& tensors) const {
    io::save_safetensors(at(name), tensors);
    return at(name);
  }
  fs::path save_both(const std::string& name, const std::string& high, const std::string& low) const {
    auto both = of_expert("high", high);
    for (const auto& item : of_expert("low", low)) both.push_back(item);
    return save(name, both);
  }
  void draws_with(const std::string& lora) const {
    test::expect_latents(kWanExperts, "latents.lora", option("model", model()) + "--dtype fp32 " + kPrompts + lora);
  }
  Outcome converts(const std::string& arguments) const {
    auto outcome = run_burnish("convert " + arguments + option(" --model", model()));
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
    return outcome;
  }
  static std::string option(const std::string& name, const fs::path& value) {
    return (name.starts_with(" ") ? name : "--" + name) + " " + quoted(value) + " ";
  }
};

class WanLora : public BadInput {
 protected:
  void draws(const std::string& name, const fs::path& lora) const {
    test::expect_latents(kWanLora, name, wan_model() + kPrompts + "--lora " + quoted(lora));
  }
  Outcome converts(const fs::path& from, const fs::path& to, const std::string& format) const {
    auto outcome =
        run_burnish("convert " + quoted(from) + " " + quoted(to) + " --lora_format " + format + " --model " + quoted(kWan / "model"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome;
  }
};

}  // namespace

TEST_F(WanLora, OfMusubiTunerDrawsAsInDiffusers) { draws("latents.musubi", kWanLora / "musubi.safetensors"); }
TEST_F(WanLora, WithBiasesAndNormsDrawsAsInDiffusers) { draws("latents.comfyui", kWanLora / "comfyui.safetensors"); }

/// Formats whose readers know changes of biases and norms hold them.
TEST_F(WanLora, KeepsBiasesAndNormsWhenItIsConverted) {
  converts(kWanLora / "comfyui.safetensors", at("lycoris.safetensors"), "lycoris");
  draws("latents.comfyui", at("lycoris.safetensors"));
  converts(at("lycoris.safetensors"), at("back.safetensors"), "comfyui");
  draws("latents.comfyui", at("back.safetensors"));
  auto original = io::TensorSource::open({kWanLora / "comfyui.safetensors"}), back = io::TensorSource::open({at("back.safetensors")});
  int64_t num_vectors = 0;
  for (const auto& name : original.names()) {
    if (!name.ends_with(".diff") && !name.ends_with(".diff_b")) continue;
    ++num_vectors;
    ASSERT_TRUE(back.contains(name)) << name;
    EXPECT_TRUE(at::equal(back.tensor(name), original.tensor(name))) << name;
  }
  EXPECT_EQ(num_vectors, 30);
}

/// diffusers' loader of these names takes no alpha of layers outside of the blocks.
TEST_F(WanLora, InComfyUisNamesHasItsScaleInItsFactors) {
  converts(kWanLora / "musubi.safetensors", at("comfyui.safetensors"), "comfyui");
  draws("latents.musubi", at("comfyui.safetensors"));
  for (const auto& [name, tensor] : named_tensors(at("comfyui.safetensors"))) {
    EXPECT_THAT(name, testing::StartsWith("diffusion_model."));
    EXPECT_FALSE(name.ends_with(".alpha")) << name;
  }
}

/// diffusers takes a bias of the second factor, and nothing that is of norms.
TEST_F(WanLora, KeepsBiasesOfLayersInDiffusersNames) {
  auto outcome = converts(kWanLora / "comfyui.safetensors", at("diffusers.safetensors"), "diffusers");
  EXPECT_THAT(outcome.output, HasSubstr("8 changes of biases and norms are left out"));
  auto original = io::TensorSource::open({kWanLora / "comfyui.safetensors"}),
       written = io::TensorSource::open({at("diffusers.safetensors")});
  EXPECT_TRUE(at::equal(written.tensor("transformer.blocks.0.attn1.to_q.lora_B.bias"),
                        original.tensor("diffusion_model.blocks.0.self_attn.q.diff_b")));
  EXPECT_TRUE(at::equal(written.tensor("transformer.proj_out.lora_B.bias"), original.tensor("diffusion_model.head.head.diff_b")));
}

namespace {

/// A file with changes of tables, which stand bare in ComfyUI's names: of a block and of the last norm.
class WanTables : public WanLora {
 protected:
  WanTables() {
    const int64_t width = 24;
    for (const auto& [name, rows] : {std::pair("blocks.1.modulation", 6), std::pair("head.modulation", 2)})
      changes_.emplace_back("diffusion_model." + std::string(name) + ".diff",
                            at::arange(rows * width, at::kFloat).view({1, rows, width}) / 64);
    io::save_safetensors(tables(), changes_);
  }
  fs::path tables() const { return at("tables.safetensors"); }
  const at::Tensor& of_block() const { return changes_[0].second; }
  const at::Tensor& of_last_norm() const { return changes_[1].second; }

  io::NamedTensors changes_;
};

}  // namespace

TEST_F(WanTables, AreAddedToThoseOfTheModel) {
  auto outcome = run_burnish("convert " + quoted(kWan / "model") + " " + quoted(at("merged.safetensors")) + " --dtype fp32 --lora " +
                             quoted(at("tables.safetensors:0.5")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  auto before = io::TensorSource::open({kWan / "model/transformer/diffusion_pytorch_model.safetensors"}),
       merged = io::TensorSource::open({at("merged.safetensors")});
  auto expect = [&](const std::string& theirs, const std::string& ours, const at::Tensor& diff) {
    auto expected = before.tensor(ours).to(at::kFloat) + 0.5 * diff;
    EXPECT_TRUE(at::equal(merged.tensor("model.diffusion_model." + theirs), expected)) << theirs;
  };
  expect("blocks.1.modulation", "blocks.1.scale_shift_table", of_block());
  expect("head.modulation", "scale_shift_table", of_last_norm());
  expect("blocks.0.modulation", "blocks.0.scale_shift_table", at::zeros_like(of_block()));
}

/// No other program has a name for them.
TEST_F(WanTables, AreWrittenInComfyUIsNamesAlone) {
  auto both = named_tensors(kWanLora / "comfyui.safetensors");
  both.insert(both.end(), changes_.begin(), changes_.end());
  io::save_safetensors(at("both.safetensors"), both);
  converts(at("both.safetensors"), at("back.safetensors"), "comfyui");
  auto back = io::TensorSource::open({at("back.safetensors")});
  for (const auto& [name, diff] : changes_) {
    ASSERT_TRUE(back.contains(name)) << name;
    EXPECT_TRUE(at::equal(back.tensor(name), diff)) << name;
  }
  EXPECT_THAT(converts(at("both.safetensors"), at("lycoris.safetensors"), "lycoris").output, HasSubstr("2 changes of biases"));
  converts(tables(), at("alone.safetensors"), "comfyui");
  EXPECT_EQ(io::TensorSource::open({at("alone.safetensors")}).names().size(), 2u);
}

TEST_F(WanTables, OfAnotherModelAreRefused) {
  changes_[0].second = at::ones({1, 6, 20});
  io::save_safetensors(tables(), changes_);
  refused(3, "sample " + wan_model() + "--prompt cat --output_path " + quoted(out()) + " --lora " + quoted(tables()),
          {"the table of 'blocks.1.scale_shift_table' has 120 numbers there, 144 here"});
}

TEST_F(WanTables, AreMergedAndNotTrainedFurther) {
  refused(3, "train " + wan_model() + golden_data() + "--max_steps 1 --lora_checkpoint " + quoted(tables()),
          {"cannot be trained further", "a change of a table", "preset_lora_path"});
}

TEST_F(WanLoraPairs, AreLoadedByOneOfTheirNames) {
  auto high = save("cat_high_noise.safetensors", of_expert("high", "diffusion_model.")),
       low = save("cat_low_noise.safetensors", of_expert("low", "diffusion_model."));
  draws_with("--lora " + quoted(high));
  draws_with("--lora " + quoted(low));
  draws_with("--lora " + quoted(high) + " --lora " + quoted(low));
}

TEST_F(WanLoraPairs, MayBeOneFile) {
  draws_with("--lora " + quoted(save_both("ai_toolkit.safetensors", "diffusion_model.transformer_1.", "diffusion_model.transformer_2.")));
  draws_with("--lora " + quoted(save_both("both.safetensors", "transformer.", "transformer_2.")));
}

TEST_F(WanLoraPairs, AreConvertedIntoOneAnother) {
  auto both = save_both("cat.safetensors", "diffusion_model.transformer_1.", "diffusion_model.transformer_2.");
  auto outcome = converts(quoted(both) + " " + quoted(at("pair.safetensors")) + " --lora_format comfyui");
  EXPECT_THAT(outcome.output, HasSubstr("pair_low_noise.safetensors"));
  EXPECT_FALSE(fs::exists(at("pair.safetensors")));
  draws_with("--lora " + quoted(at("pair_low_noise.safetensors")));
  converts(quoted(at("pair_high_noise.safetensors")) + " " + quoted(at("pair_low_noise.safetensors")) + " " +
           quoted(at("again.safetensors")));
  draws_with("--lora " + quoted(at("again_high_noise.safetensors")));
  for (const char* expert : {"high", "low"}) {
    auto again = named_tensors(at("again_" + std::string(expert) + "_noise.safetensors"));
    EXPECT_THAT(again.front().first, testing::StartsWith("transformer.blocks.")) << "diffusers reads both under this name";
  }
}

TEST_F(WanLoraPairs, AreRefusedWhereTheyContradictEachOther) {
  auto nameless = save("nameless.safetensors", of_expert("low", "diffusion_model."));
  refused(3, "sample " + option("model", model()) + "--prompt cat --output_path " + quoted(out()) + " --lora " + quoted(nameless),
          {"does not say which expert of this model it adapts", "high_noise, low_noise"});
}

/// Layers that the run never computes would begin from it and not train.
TEST_F(WanLoraPairs, OfAnExpertThatDoesNotTrainAreRefused) {
  const auto high = save("x.high_noise.safetensors", of_expert("high", "diffusion_model."));
  const auto run =
      option("model", model()) + "--dtype fp32 --experts low_noise --max_steps 1 " + golden_data() + option("lora_checkpoint", high);
  for (const std::string verb : {"train ", "plan "})
    refused(2, verb + run + (verb == "train " ? option("output_path", out()) : ""), {"adapts dit (high_noise)", "what trains (low_noise)"});
}

TEST_F(WanLoraPairs, WithoutAnExpertInItsNameIsOfTheOneThatTrainsAlone) {
  const auto named = save("x.low_noise.safetensors", of_expert("low", "diffusion_model.")),
             nameless = save("nameless.safetensors", of_expert("low", "diffusion_model."));
  auto trained = [&](const std::string& name, const std::string& lora) {
    const auto outcome = run_burnish("train " + option("model", model()) + "--dtype fp32 --max_steps 2 --num_threads 1 " + golden_data() +
                                     option("output_path", at(name)) + lora);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return losses(at(name));
  };
  const auto expected = trained("named", "--experts low_noise --lora_checkpoint " + quoted(named));
  EXPECT_EQ(expected.size(), 2u);
  EXPECT_EQ(trained("nameless", "--experts low_noise --lora_checkpoint " + quoted(nameless)), expected);
  EXPECT_EQ(trained("component", "--lora_base_model dit_2 --lora_checkpoint " + quoted(nameless)), expected);
}
