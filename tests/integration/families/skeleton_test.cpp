// The family of examples/skeleton_family: every way to train it, and a trainable projector behind a frozen text encoder.
#include <torch/csrc/autograd/autograd.h>

#include "pipeline/schedule.h"
#include "tests/golden.h"
#include "tests/integration/program.h"
#include "tests/places.h"
#include "tests/skeleton_model.h"
#include "train/objectives/objective_kind.h"
#include "train/objectives/sample_loss.h"
#include "train/subject/training_units.h"

namespace burnish::skeleton_test {
using namespace burnish::test;

namespace {

std::string quote(const fs::path& path) { return "'" + path.string() + "' "; }

void expect_ok(const std::string& arguments) {
  auto outcome = run_burnish(arguments, "", test::kSkeleton);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
}

class Skeleton : public testing::Test {
 protected:
  Skeleton() { save_skeleton(model()); }
  fs::path model() const { return folder / "model.safetensors"; }
  std::string train(const std::string& options, const std::string& run) const {
    return "train --model " + quote(model()) + "--dtype fp32 --learning_rate 1e-2 --max_steps 4 --batch_size 2 " + options +
           "--output_path " + quote(folder / run);
  }
  std::string data() const { return golden_data(); }
  std::string numbers(const std::string& run) const {
    std::string text;
    for (auto& line : read_log(folder / run)) text += nlohmann::json{line["loss"], line["grad_norm"]}.dump() + "\n";
    return text;
  }
  std::vector<std::string> saved(const std::string& run) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder / run)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path().filename().string() + read_file(entry.path()));
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::unique_ptr<models::Model> open() const { return open_skeleton(model()); }

  Scratch folder;
};

const std::string kProjector = "text_encoder.projector";

}  // namespace

struct SkeletonCase {
  std::string name, options;
};
void PrintTo(const SkeletonCase& c, std::ostream* out) { *out << c.name; }

class SkeletonTrained : public Skeleton, public testing::WithParamInterface<SkeletonCase> {};

TEST_P(SkeletonTrained, SplitStagedAndUnsplitRunsAreEqualBitForBit) {
  const auto& options = GetParam().options;
  expect_ok(train(data() + options, "staged"));
  expect_ok(train(data() + options + "--precompute none ", "unsplit"));
  expect_ok(train(data() + options + "--task sft:data_process ", "cache"));
  expect_ok(train(options + "--task sft:train --dataset_base_path " + quote(folder / "cache"), "split"));
  ASSERT_EQ(read_log(folder / "staged").size(), 4u);
  EXPECT_EQ(numbers("staged"), numbers("unsplit"));
  EXPECT_EQ(numbers("staged"), numbers("split"));
  EXPECT_EQ(saved("staged"), saved("unsplit"));
  EXPECT_EQ(saved("staged"), saved("split"));
}

INSTANTIATE_TEST_SUITE_P(
    Of, SkeletonTrained,
    testing::Values(SkeletonCase{"lora", "--lora_rank 2 "}, SkeletonCase{"whole_expert", "--trainable_models dit "},
                    SkeletonCase{"whole_experts", "--trainable_models dit,dit_2 "},
                    SkeletonCase{"encoder_lora", "--lora_rank 2 --lora_base_model text_encoder "},
                    SkeletonCase{"both_loras", "--lora_rank 2 --lora_base_model dit,text_encoder "},
                    SkeletonCase{"projector", "--trainable_models text_encoder.projector "},
                    SkeletonCase{"projector_lora", "--lora_rank 2 --lora_base_model text_encoder --lora_target_modules projector.linear "},
                    SkeletonCase{"lora_and_projector", "--lora_rank 2 --lora_base_model dit --trainable_models " + kProjector +
                                                           " --use_gradient_checkpointing "}),
    [](const auto& info) { return info.param.name; });

TEST_F(Skeleton, TheBodyOfTheEncoderRunsOnceForEachCaption) {
  auto cache = [&](const std::string& options, const std::string& run) {
    expect_ok(train(data() + options + "--task sft:data_process ", run));
    return nlohmann::json::parse(read_file(folder / run / "samples.json"))["sections"];
  };
  auto behind = cache("--trainable_models text_encoder.projector ", "a");
  EXPECT_TRUE(behind.contains("text_features"));
  EXPECT_FALSE(behind.contains("text_embedding"));
  auto adapter = cache("--lora_base_model text_encoder --lora_target_modules projector.linear ", "b");
  EXPECT_TRUE(adapter.contains("text_features"));
  EXPECT_FALSE(cache("--trainable_models text_encoder ", "c").contains("text_features"));
  EXPECT_TRUE(cache("", "d").contains("text_embedding"));
}

TEST_F(Skeleton, ProjectorGradientsThroughTheCutAreThoseOfTheWholeProgram) {
  auto split = open(), whole = open();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  pipeline::Values sample{{"prompt", std::string("a cat")}, {"image", at::empty({1, 3, 16, 24}).uniform_(-1, 1, generator)}};
  pipeline::Values draws{{"noise", at::empty({1, 4, 1, 4, 6}).normal_(0, 1, generator)}, {"sigma", at::full({1}, 0.4)}};

  auto units_of = [](models::Model& model) {
    auto units = train::training_units(model, {model.names().experts.front()});
    for (auto& unit : train::loss_units(model, {})) units.push_back(std::move(unit));
    return units;
  };
  auto cut = pipeline::schedule(units_of(*split), train::input_table().labels(), {kProjector}, {{}, false});
  EXPECT_EQ(pipeline::models_of(cut.live.units), (std::vector<std::string>{kProjector, "dit"}));
  for (const auto& name : pipeline::models_of(cut.once.units)) split->components().load(name);
  auto carried = sample;
  pipeline::run(cut.once.units, carried);
  for (const auto& name : pipeline::models_of(cut.once.units)) split->components().unload(name);
  std::erase_if(carried, [&](const auto& item) { return std::ranges::find(cut.once.kept, item.first) == cut.once.kept.end(); });
  for (const auto& name : pipeline::models_of(cut.live.units)) split->components().load(name);
  split->components().module(kProjector).visit_parameters([](const std::string&, at::Tensor& p) { p.set_requires_grad(true); });
  auto loss = std::get<at::Tensor>(pipeline::run(cut.live, {carried}, draws).at("loss"));
  torch::autograd::backward({loss.sum()}, {});

  for (const auto& name : {"text_encoder", "vae", "dit"}) {
    whole->components().load(name);  // everything takes gradients here
    whole->components().module(name).visit_parameters([](const std::string&, at::Tensor& p) { p.set_requires_grad(true); });
  }
  auto values = sample;
  values.insert(draws.begin(), draws.end());
  pipeline::run(units_of(*whole), values);
  torch::autograd::backward({std::get<at::Tensor>(values.at("loss")).sum()}, {});

  EXPECT_TRUE(at::equal(loss, std::get<at::Tensor>(values.at("loss"))));
  auto expected = whole->components().module("text_encoder").parameters();
  int count = 0;
  for (const auto& [path, slot] : split->components().module(kProjector).parameters()) {
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_GT(slot->grad().abs().max().item<double>(), 1e-6) << path;
    EXPECT_TRUE(at::equal(slot->grad(), expected.at(path)->grad())) << path;
    ++count;
  }
  EXPECT_EQ(count, 4);
}

TEST_F(Skeleton, SamplesWithItsLoras) {
  expect_ok(train(data() + "--lora_rank 2 --lora_base_model dit,text_encoder ", "run"));
  auto latents = [&](const std::string& options) {
    expect_ok("sample --model " + quote(model()) +
              "--dtype fp32 --prompt cat --height 32 --width 32 --num_inference_steps 2 --save_latents " +
              quote(folder / "latents.safetensors") + options + "--output_path " + quote(folder / "out"));
    return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents").clone();
  };
  auto high = "--lora " + quote(folder / "run/step-4.high_noise.safetensors"),
       encoder = "--lora " + quote(folder / "run/step-4.safetensors");
  auto plain = latents(""), part = latents(high), both = latents(high + encoder);
  EXPECT_GT(relative_error(part, plain), 1e-5);
  EXPECT_GT(relative_error(both, part), 1e-5);
}

TEST_F(Skeleton, BothExpertsGoOnWhereTheyWereSaved) {
  auto some = train(data() + "--lora_rank 2 ", "run");
  some.replace(some.find("--max_steps 4"), 13, "--max_steps 2");
  expect_ok(train(data() + "--lora_rank 2 ", "whole"));
  expect_ok(some);
  expect_ok(train(data() + "--lora_rank 2 --resume ", "run"));
  for (const std::string file : {"step-4.high_noise.safetensors", "step-4.low_noise.safetensors"})
    EXPECT_EQ(read_file(folder / "run" / file), read_file(folder / "whole" / file)) << file;
  EXPECT_EQ(numbers("run"), numbers("whole"));
}

TEST_F(Skeleton, ExpertsStartFromTheirFilesAndAreDrawnWith) {
  expect_ok(train(data() + "--lora_rank 2 ", "run"));
  auto file = [&](const std::string& run, const std::string& expert) {
    return (folder / run / ("step-4." + expert + "_noise.safetensors")).string();
  };
  auto first_loss = [&](const std::string& run) { return read_log(folder / run).at(0)["loss"].get<double>(); };
  expect_ok(train(data() + "--lora_checkpoint " + quote(file("run", "high") + "," + file("run", "low")), "further"));
  expect_ok(train(data() + "--lora_checkpoint " + quote(file("run", "low")), "one_named"));
  expect_ok(train(data() + "--experts low_noise --lora_checkpoint " + quote(file("run", "low")), "low"));
  EXPECT_NE(first_loss("further"), first_loss("run"));
  EXPECT_EQ(numbers("one_named"), numbers("further"));
  EXPECT_TRUE(fs::exists(file("low", "low")));
  EXPECT_FALSE(fs::exists(file("low", "high")));

  auto latents = [&](const std::string& what) {
    expect_ok("sample " + what + "--prompt cat --height 32 --width 32 --num_inference_steps 4 --save_latents " +
              quote(folder / "latents.safetensors") + "--output_path " + quote(folder / "out"));
    return io::SafetensorsFile::open(folder / "latents.safetensors")->tensor("latents").clone();
  };
  auto model_and = [&](const std::string& loras) { return "--model " + quote(model()) + "--dtype fp32 " + loras; };
  auto plain = latents(model_and("")), of_run = latents("--run " + quote(folder / "run"));
  auto both = latents(model_and("--lora " + quote(file("run", "high")) + "--lora " + quote(file("run", "low"))));
  fs::create_directory(folder / "alone");
  fs::copy_file(file("run", "high"), file("alone", "high"));
  auto alone = latents(model_and("--lora " + quote(file("alone", "high"))));
  EXPECT_TRUE(at::equal(of_run, both));
  EXPECT_TRUE(at::equal(latents(model_and("--lora " + quote(file("run", "high")))), both));
  EXPECT_FALSE(at::equal(alone, both));
  EXPECT_FALSE(at::equal(alone, plain));

  auto nameless = io::SafetensorsFile::open(file("run", "high"));
  io::NamedTensors tensors;
  for (const auto& [name, info] : nameless->tensors()) tensors.emplace_back(name, nameless->tensor(name).clone());
  io::save_safetensors(folder / "unsaid.safetensors", tensors);
  auto refused = run_burnish(
      "sample " + model_and("--lora " + quote(folder / "unsaid.safetensors")) + "--prompt cat --output_path " + quote(folder / "none"), "",
      test::kSkeleton);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, testing::HasSubstr("does not say which expert of this model it adapts (high_noise, low_noise)"));
}

TEST_F(Skeleton, AnExpertsLoraIsConvertedAndStaysItsOwn) {
  expect_ok(train(data() + "--lora_rank 2 ", "run"));
  auto high = folder / "run/step-4.high_noise.safetensors", other = folder / "other.safetensors", back = folder / "back.safetensors";
  const std::string model_option = " --model " + quote(model());
  expect_ok("convert " + quote(high) + quote(other) + "--lora_format kohya" + model_option);
  expect_ok("convert " + quote(other) + quote(back) + "--lora_format diffusers" + model_option);
  auto first = io::SafetensorsFile::open(high), converted = io::SafetensorsFile::open(other), last = io::SafetensorsFile::open(back);
  EXPECT_EQ(converted->metadata().at("expert"), "high_noise");
  EXPECT_EQ(last->metadata().at("expert"), "high_noise");
  ASSERT_EQ(last->tensors().size(), first->tensors().size());
  for (const auto& [name, info] : first->tensors()) EXPECT_TRUE(at::equal(last->tensor(name), first->tensor(name))) << name;
}

}  // namespace burnish::skeleton_test
