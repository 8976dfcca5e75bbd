// What DiffSynth-Studio's commands leave to be found, or call otherwise: tokenizers, weights to start from, classes of optimizers.
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/refused.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::HasSubstr;

namespace {

class ModelIds : public BadInput, public testing::WithParamInterface<SmallFamily> {
 protected:
  ModelIds() {
    const auto& family = GetParam();
    fs::create_directories(model_.parent_path());
    fs::copy(family.folder(), model_, fs::copy_options::recursive);
    for (const auto& part : family.lacks()) fs::copy(kAssets / part, model_ / part, fs::copy_options::recursive);
  }

  /// The loss of one step with the model named so.
  double loss(const std::string& model) const {
    auto outcome = run_burnish("train " + model + " " + GetParam().data() +
                                   "--dtype fp32 --lora_rank 2 --max_steps 1 --overwrite --num_threads 1 --output_path " + quoted(out()),
                               "DIFFSYNTH_SKIP_DOWNLOAD=1 DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << model << "\n" << outcome.output;
    return outcome.exit_code == 0 ? read_log(out()).at(0)["loss"].get<double>() : -1;
  }
  /// The parts as ids, each with this behind it.
  std::string ids(const std::string& ending) const {
    std::string list;
    for (const auto& part : GetParam().parts) list += (list.empty() ? "" : ",") + ("author/model:" + part) + ending;
    return "--model_id_with_origin_paths '" + list + "'";
  }

  fs::path model_ = at("models/author/model");
};

}  // namespace

TEST_P(ModelIds, FindTokenizersAndSchedulersOfTheModel) {
  auto of_folders = loss(ids("/"));
  EXPECT_EQ(loss(ids("/*.safetensors")), of_folders);
  auto mixed = "author/model:" + GetParam().parts[0] + "/*.safetensors";
  for (size_t i = 1; i < GetParam().parts.size(); ++i) mixed += ",author/model:" + GetParam().parts[i] + "/";
  EXPECT_EQ(loss("--model_id_with_origin_paths '" + mixed + "'"), of_folders);
  if (GetParam().needs_index) return;
  // Folders that are named one by one, whose tokenizers lie beside that of the text encoder.
  fs::remove_all(model_ / "scheduler");
  auto without_scheduler = loss(ids("/"));
  std::string paths;
  for (const auto& part : GetParam().parts) paths += " --model " + quoted(model_ / part);
  const bool sees_references = GetParam().data().find("references") != std::string::npos;
  if (sees_references) paths += " --processor_path " + quoted(model_ / "processor");
  EXPECT_EQ(loss(paths), without_scheduler);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelIds, testing::ValuesIn(small_families()), [](const auto& info) { return info.param.name; });

TEST_F(BadInput, DiffSynthStudiosWeightsToStartFrom) {
  auto ends_alike = [&](const std::string& theirs, const std::string& ours, const std::string& more) {
    const std::string run = golden_model() + golden_data() + "--overwrite " + more + " --output_path ";
    std::string said;
    for (const auto& [name, options] : {std::pair{"ours", ours}, std::pair{"theirs", theirs}}) {
      auto outcome = run_burnish("train " + options + " --lora_rank 4 --max_steps 2 " + run + quoted(at(name)));
      EXPECT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.output;
      said = outcome.output;
    }
    EXPECT_EQ(read_file(at("theirs") / "step-2.safetensors"), read_file(at("ours") / "step-2.safetensors")) << theirs;
    return said;
  };
  const auto lora = quoted(kGolden / "lora.safetensors");
  EXPECT_THAT(ends_alike("--resume_from_checkpoint " + lora, "--lora_checkpoint " + lora, ""),
              HasSubstr("becomes lora_checkpoint: it holds"));

  auto whole = run_burnish(train("--trainable_models dit --learning_rate 1e-2 --output_path " + quoted(at("whole"))));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const auto weights = quoted(at("whole") / "step-2.safetensors");
  for (const char* trained : {"--lora_base_model dit", "--trainable_models dit"})
    EXPECT_THAT(ends_alike("--resume_from_checkpoint " + weights, "--model " + weights, trained),
                HasSubstr("becomes model, before the others"));
  EXPECT_NE(read_file(at("ours") / "step-2.safetensors"), read_file(at("whole") / "step-2.safetensors"));
  // What became of it stands in config.toml, so that a resumed run needs nothing else.
  EXPECT_THAT(read_file(at("theirs") / "config.toml"), HasSubstr("whole/step-2.safetensors\", "));
  refused(3, train("--resume_from_checkpoint none.safetensors"), {"none.safetensors, are not there"});
}

TEST_F(BadInput, DiffSynthStudiosWordsForModelsInCodes) {
  auto outcome = run_burnish(train("--quant_options 'dit:bitsandbytes_nf4/to_q' --output_path " + quoted(at("theirs"))));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("quant_options become fp8_models dit, weight_format nf4"));
  const std::string ours = "--fp8_models dit --weight_format nf4 --high_precision_layers '.*[.]to_q' --output_path ";
  EXPECT_EQ(run_burnish(train(ours + quoted(at("ours")))).exit_code, 0);
  EXPECT_EQ(read_file(at("theirs") / "step-2.safetensors"), read_file(at("ours") / "step-2.safetensors"));
  EXPECT_THAT(read_file(at("theirs") / "config.toml"), HasSubstr("weight_format = \"nf4\""));
}

TEST_F(BadInput, DiffSynthStudiosClassesOfOptimizers) {
  auto outcome = run_burnish(train("--customized_optimizer bitsandbytes.optim.Lion8bit --output_path " + quoted(at("theirs"))));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("customized_optimizer bitsandbytes.optim.Lion8bit becomes optimizer lion"));
  EXPECT_EQ(run_burnish(train("--optimizer lion --output_path " + quoted(at("ours")))).exit_code, 0);
  EXPECT_EQ(read_file(at("theirs") / "step-2.safetensors"), read_file(at("ours") / "step-2.safetensors"));
  EXPECT_THAT(read_file(at("theirs") / "config.toml"), HasSubstr("optimizer = \"lion\""));
  refused(2, train("--customized_optimizer torch.optim.SGD"), {"customized_optimizer torch.optim.SGD is no class", "prodigyopt.Prodigy"});
}
