// Of what a sample does not run, no parameter is stepped: a gradient of zero moves what has momentum or decay, where torch leaves what has
// no gradient. Decay alone moves what is stepped on zero, and nothing moves what is not stepped.
#include <fmt/core.h>

#include "io/safetensors.h"
#include "tests/golden.h"
#include "tests/integration/families/fibo2.h"
#include "tests/integration/families/krea2.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;

namespace {

struct Stepped {
  std::string name, options, denoiser = "dit";
};
void PrintTo(const Stepped& c, std::ostream* out) { *out << c.name; }

/// FLUX.3 sees reference pictures by layers of their own, and only one of these rows has any.
std::string rows_of_which_one_has_references(const fs::path& file) {
  std::ofstream rows(file);
  for (int i = 0; i < 4; ++i) {
    nlohmann::json row{{"image", (kGolden / "pictures" / (std::to_string(i) + ".png")).string()}, {"prompt", "cat"}};
    if (i == 1) row["edit_image"] = golden_path("references/a.png");
    rows << row.dump() << "\n";
  }
  return option("dataset_metadata_path", file) + "--height 48 --width 64 --extra_inputs edit_image ";
}

std::vector<Stepped> cases() {
  std::vector<Stepped> all;
  for (const auto& family : small_families()) all.push_back({family.name, family.model() + family.data(), family.denoiser()});
  all.push_back({"qwen_edit", qwen_edit_model() + qwen_edit_data()});
  all.push_back({"krea2_edit", krea2_edit_model() + krea2_edit_data()});
  all.push_back({"fibo2_edit", fibo2_edit_model() + fibo2_edit_data()});
  all.push_back({"qwen_image_21_edit", qwen_image_21_edit_model() + qwen_image_21_edit_data()});
  for (const std::string kind : {"ti2v", "i2v"}) all.push_back({kind, wan_from_frame(kind) + wan_clips(kind == "ti2v" ? 32 : 48)});
  return all;
}

/// In torch too some layers have gradients of zero: the queries of a last block's text, which attention gives them with those of the
/// picture, and of which nothing is read; queries and keys of attention over a still's one token of sound, which has all of its weight; and
/// the layer behind the sound of a sample that has none, whose prediction counts by 0, as a step could not know without waiting for the
/// device.
bool is_on_zero_in_torch(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  const bool is_value = has(".to_v.") || has(".to_out.") || has(".to_gate");
  return has(".attn.add_q_proj.") || has(".attn.norm_added_q.") || (has(".audio_attn1.") && !is_value) ||
         name.starts_with("audio_proj_out.");
}

class SteppedOnZero : public BadInput {
 protected:
  std::map<std::string, at::Tensor> after_a_step(const std::string& name, const std::string& options) const {
    const auto run = run_burnish("train --max_steps 1 --overwrite " + options + option("output_path", at(name)));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    std::map<std::string, at::Tensor> weights;
    if (run.exit_code != 0) return weights;
    const auto file = io::SafetensorsFile::open(at(name) / "step-1.safetensors");
    for (const auto& [tensor, info] : file->tensors()) weights[tensor] = file->tensor(tensor).clone();
    return weights;
  }
  /// The parameters that a step moves only by what decays.
  std::vector<std::string> stepped_on_zero(const std::string& options) const {
    const auto before = after_a_step("before", options + "--learning_rate 1e-30 --weight_decay 0 "),
               without = after_a_step("without", options + "--learning_rate 1e-2 --weight_decay 0 "),
               with = after_a_step("with", options + "--learning_rate 1e-2 --weight_decay 0.5 ");
    std::vector<std::string> found;
    size_t num_moved = 0;
    for (const auto& [name, value] : before) {
      const bool moved = !at::equal(value, without.at(name));
      num_moved += moved;
      if (!moved && !at::equal(value, with.at(name)) && !is_on_zero_in_torch(name)) found.push_back(name);
    }
    EXPECT_GT(num_moved, before.size() / 2);
    return found;
  }
};

class EveryGradient : public SteppedOnZero, public testing::WithParamInterface<Stepped> {};

}  // namespace

TEST_P(EveryGradient, IsThereOrNotAtAll) {
  const auto& c = GetParam();
  EXPECT_EQ(stepped_on_zero(c.options + "--trainable_models " + c.denoiser + " "), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Of, EveryGradient, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST_F(SteppedOnZero, IsNothingOfReferencesInRowsWithoutAny) {
  const auto flux3 = small_family("flux3").model() + rows_of_which_one_has_references(at("rows.jsonl")) + "--trainable_models dit ";
  for (int seed = 0; seed < 3; ++seed)
    EXPECT_EQ(stepped_on_zero(flux3 + fmt::format("--seed {} ", seed)), std::vector<std::string>()) << seed;
}
