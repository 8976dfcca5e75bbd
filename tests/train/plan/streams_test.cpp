// A family of two streams: each has noise, a target and errors of its own, and a sample may lack the second.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "data/image.h"
#include "diffusion/flow_process.h"
#include "drawing/draw.h"
#include "models/parts/shared_units.h"
#include "tests/relative_error.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/course/feed.h"
#include "train/objectives/distill.h"
#include "train/objectives/dpo.h"
#include "train/objectives/imitation.h"
#include "train/objectives/objective.h"
#include "train/objectives/sample_loss.h"
#include "train/plan/stages.h"
#include "train/samples/encode.h"
#include "train/subject/attached.h"
#include "train/subject/choosing.h"

using namespace burnish;
using namespace burnish::train;

namespace {

const Column kColumn{.name = "tone_numbers", .is = Column::Is::numbers, .words = {"a test", "1"}};

constexpr double kToneShift = 0.25;

/// A flow of which the second stream's noise is of other levels.
class WithTone final : public diffusion::FlowProcess {
 public:
  WithTone() : FlowProcess(diffusion::FlowSamplerConfig{}) {}
  double shift_of(std::string_view stream) const override { return stream == "tone" ? kToneShift : 1; }
};

/// The skeleton family with a second stream, made of numbers in a column of the metadata, which a row may leave empty.
class TwoStreams final : public models::skeleton::SkeletonModel {
 public:
  TwoStreams(const models::ModelFiles& files, const models::ModelOptions& options) : SkeletonModel(files, options) {
    latent_space_.streams.push_back({.name = "tone", .channels = 2, .spatial = 4, .weight = 0.5, .column = kColumn.name});
    names_.extra_inputs = {kColumn};
    process_ = std::make_unique<WithTone>();
  }
  models::UnitGroups units_of(const models::Expert& expert) override {
    auto groups = SkeletonModel::units_of(expert);
    groups.encode_references.push_back({"encode_sound", {"tone_numbers"}, {"tone"}, {}, [](pipeline::Scope& s) {
                                          const auto& numbers = s.tensor("tone_numbers");
                                          auto frames = numbers.numel() == 0 ? 0 : 1;
                                          s.write("tone", at::full({1, 2, frames, 4, 4}, frames == 0 ? 0 : numbers.mean().item<double>()));
                                        }});
    groups.denoise.push_back(
        {"denoise_sound", {"tone_noisy", "noisy", "sigma"}, {"tone_prediction"}, {}, [](pipeline::Scope& s) {
           auto of_picture = s.tensor("noisy").mean({1, 2, 3, 4}, /*keepdim=*/true);
           s.write("tone_prediction", s.tensor("tone_noisy") * 0.5 + of_picture * s.tensor("sigma").view({-1, 1, 1, 1, 1}));
         }});
    groups.decode.push_back({"decode_sound", {"tone"}, {"heard"}, {}, [](pipeline::Scope& s) { s.write("heard", s.tensor("tone") * 2); }});
    return groups;
  }
};

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::empty(shape, at::kFloat).normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor tensor_of(const pipeline::Values& values, const std::string& name) { return std::get<at::Tensor>(values.at(name)); }
double number_of(const pipeline::Values& values, const std::string& name) { return tensor_of(values, name).item<double>(); }

class Streams : public testing::Test {
 protected:
  Streams() {
    test::save_skeleton(scratch / "model.safetensors", /*num_experts=*/1);
    models::ModelOptions options;
    options.dtype = at::kFloat;
    auto files = models::open_model_files({{(scratch / "model.safetensors").string()}, "", ""});
    auto two = std::make_unique<TwoStreams>(files, options);
    TrainedSettings trained;
    trained.learning_rate = 1;
    trained.targets = "to_q";
    auto chosen = choose(trained, *two);
    subject = {std::move(two), std::move(chosen), ""};
    settings.kind = &sft();
    settings.dtype = at::kFloat;
  }
  void load() {
    for (const char* component : {"dit", "text_encoder", "vae"}) subject.model->components().load(component);
    attached.emplace(subject.chosen, *subject.model);
  }
  /// All values of one visit to a sample with so many latents of sound in time.
  pipeline::Values values(int64_t frames) {
    at::NoGradGuard no_grad;
    if (!attached) load();
    auto numbers = frames == 0 ? at::zeros({1, 0}) : at::full({1, 3}, 0.7);
    pipeline::Values given{{"prompt", std::string("a")},
                           {"image", random({1, 3, 16, 16}, 1).clamp(-1, 1)},
                           {kRejectedImage, random({1, 3, 16, 16}, 2).clamp(-1, 1)},
                           {"tone_numbers", numbers},
                           {"mask", random({1, 1, 4, 4}, 3).sigmoid()},
                           {"noise", random({1, 4, 1, 4, 4}, 4)},
                           {"tone_noise", random({1, 2, frames, 4, 4}, 5)},
                           {"start_noise", random({1, 4, 1, 4, 4}, 4)},
                           {"tone_start_noise", random({1, 2, frames, 4, 4}, 5)},
                           {"num_inference_steps", at::scalar_tensor(3, at::kLong)},
                           {"sigma", at::full({1}, 0.4)}};
    pipeline::run(make_objective(settings, subject)->units(), given);
    return given;
  }
  static at::Tensor squares(const pipeline::Values& values, const std::string& stream) {
    return (tensor_of(values, models::stream_value(stream, "prediction")) - tensor_of(values, models::stream_value(stream, "target")))
        .square();
  }

  /// Four pictures of one size, of which every other has sound.
  data::DatasetOptions pictures() const {
    std::string rows = "image,prompt,tone_numbers\n";
    for (int i = 0; i < 4; ++i) {
      data::write_png(scratch / (std::to_string(i) + ".png"), at::full({16, 16, 3}, 40 * i + 5, at::kByte));
      rows += std::to_string(i) + ".png,caption " + std::to_string(i) + "," + (i % 2 == 0 ? std::to_string(i + 1) : "") + "\n";
    }
    return {.subsets = {{scratch.path(), scratch.write("metadata.csv", rows).string()}}};
  }

  test::Scratch scratch;
  Subject subject;
  ObjectiveSettings settings;
  std::optional<Attached> attached;
};

}  // namespace

TEST(StreamNames, OfTheFirstStreamAreThoseOfPictures) {
  for (const char* name : {"latents", "noise", "noisy", "target", "prediction"}) EXPECT_EQ(models::stream_value("latents", name), name);
  EXPECT_EQ(models::stream_value("tone", "latents"), "tone");
  EXPECT_EQ(models::stream_value("tone", "noisy"), "tone_noisy");
  EXPECT_EQ(models::stream_key(7, "latents"), 7u);
  EXPECT_NE(models::stream_key(7, "tone"), models::stream_key(7, "other"));
}

TEST_F(Streams, LossIsTheSumOfTheStreamsThatASampleHas) {
  auto both = values(1), silent = values(0);
  auto of_picture = squares(both, "latents").mean().item<double>(), of_sound = squares(both, "tone").mean().item<double>();
  EXPECT_GT(of_sound, 1e-3);
  EXPECT_NEAR(number_of(both, "loss") / (of_picture + 0.5 * of_sound), 1, 1e-6);
  EXPECT_EQ(tensor_of(silent, "tone_prediction").numel(), 0);
  EXPECT_FLOAT_EQ(static_cast<float>(number_of(silent, "loss")),
                  squares(silent, "latents").mean().item<float>());  // sums differ by processor
}

TEST_F(Streams, MasksCountPixelsAndRobustLossesAllErrors) {
  settings.sample_loss.robust = parse_robust_loss("huber", "constant", 0.3, 1);
  settings.sample_loss.masked = {.on = true, .unmasked_weight = 0.2};
  auto both = values(1);
  auto error = [&](const std::string& stream) {
    return errors(settings.sample_loss.robust, tensor_of(both, models::stream_value(stream, "prediction")),
                  tensor_of(both, models::stream_value(stream, "target")), at::full({1}, 0.3));
  };
  auto expected = masked_mean(settings.sample_loss.masked, error("latents"), tensor_of(both, "mask")).item<double>() +
                  0.5 * error("tone").mean().item<double>();
  EXPECT_NEAR(number_of(both, "loss") / expected, 1, 1e-6);
}

TEST_F(Streams, CountUnderPreferenceAndDistillation) {
  settings.kind = &dpo();
  auto both = values(1), silent = values(0);
  auto of_sound = 0.5 * squares(both, "tone").mean().item<double>();
  EXPECT_NEAR(number_of(both, "error") / (squares(both, "latents").mean().item<double>() + of_sound), 1, 1e-6);
  for (const char* error : {"error", "rejected_error", "reference_error"}) {
    EXPECT_GT(number_of(both, error), number_of(silent, error)) << error;
    EXPECT_TRUE(std::isfinite(number_of(silent, error))) << error;
  }
  settings.kind = &direct_distill();
  for (int64_t frames : {1, 0}) {
    auto all = values(frames);
    at::NoGradGuard no_grad;
    drawing::WalkOptions walking{.sampler = {.num_steps = 3, .num_image_tokens = 16}};
    auto denoiser = drawing::denoiser_of(*subject, subject.chosen.experts, drawing::UnitsFor::training);
    pipeline::Values start{{"latents", all.at("start_noise")}, {"tone", all.at("tone_start_noise")}};
    auto end = drawing::walk(denoiser, start, {{"text_embedding", all.at("text_embedding")}}, walking);
    auto mean = [&](const std::string& stream) { return (tensor_of(end, stream) - tensor_of(all, stream)).square().mean().item<double>(); };
    EXPECT_NEAR(number_of(all, "loss"), mean("latents") + (frames == 0 ? 0 : 0.5 * mean("tone")), 1e-5) << frames;
  }
}

TEST_F(Streams, NoiseOfTheFirstIsWhatItIsAlone) {
  auto plain = test::open_skeleton(scratch / "model.safetensors");
  TrainedSettings trained;
  trained.learning_rate = 1;
  trained.targets = "to_q";
  auto chosen = choose(trained, *plain);
  const Subject alone{std::move(plain), std::move(chosen), ""};
  Sample sample{.number = 3, .extent = {1, 16, 16}, .latent_shape = {4, 1, 4, 4}};
  sample.further_latents["tone"] = {2, 1, 4, 4};
  DrawRequest request{{{.row = 3, .epoch = 1}}, {&sample}, {"noise", "tone_noise"}};
  auto two = make_objective(settings, subject)->draws(request), one = make_objective(settings, alone)->draws(request);
  EXPECT_TRUE(at::equal(tensor_of(two, "noise"), tensor_of(one, "noise")));
  EXPECT_FALSE(one.contains("tone_noise"));
  EXPECT_EQ(tensor_of(two, "tone_noise").sizes(), (std::vector<int64_t>{1, 2, 1, 4, 4}));
  EXPECT_FALSE(at::equal(tensor_of(two, "tone_noise").flatten(), tensor_of(two, "noise").flatten().narrow(0, 0, 32)));
  request.names = {"noise"};
  EXPECT_FALSE(make_objective(settings, subject)->draws(request).contains("tone_noise"));
  sample.further_latents["tone"] = {2, 0, 4, 4};
  request.names = {"noise", "tone_noise"};
  EXPECT_EQ(tensor_of(make_objective(settings, subject)->draws(request), "tone_noise").numel(), 0);
  EXPECT_EQ(tensor_of(make_objective(settings, subject)->held_out_draws(request, 0), "tone_noise").numel(), 0);
}

TEST_F(Streams, BatchesHoldSamplesOfTheSameStreamsFromMetadataToLoss) {
  Settings run;
  run.data.pictures = pictures();
  run.data.pictures.subsets[0].size.division = 4;
  run.data.inputs =
      std::make_shared<InputTable>(Columns{kColumn}, std::vector<std::string>{}, std::vector<Input>{}, std::set<std::string>{});
  auto objective = make_objective(settings, subject);
  auto schedule = plan_schedule(run, subject, *objective);
  data::Cache cache("");
  auto listed = open_samples(run.data, *subject, objective->needs(), schedule, cache);
  ASSERT_EQ(listed.samples.list.size(), 4u);
  for (const auto& sample : listed.samples.list)
    EXPECT_EQ(shape_of(sample, "tone"), (std::vector<int64_t>{2, sample.number % 2 == 0 ? 1 : 0, 4, 4})) << sample.number;
  auto kept = encode(*subject, schedule, listed.samples, cache);
  Course course({.batch_size = 2, .num_epochs = 2, .seed = 5}, subject.model->process(), *objective, listed.samples, nullptr);
  EXPECT_EQ(course.batches_per_epoch(), 2);
  Feed feed(course, {listed.samples, kept}, std::nullopt);
  load();
  at::NoGradGuard no_grad;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < course.batches_per_epoch(); ++i) {
    auto batch = feed.batch(schedule.live, {false, i});
    auto picks = course.batch({false, i}).picks;
    ASSERT_EQ(picks.size(), 2u);
    EXPECT_EQ(picks[0].row % 2, picks[1].row % 2) << "with sound and without";
    for (const auto& pick : picks) seen.insert(pick.row);
    auto values = pipeline::run(schedule.live, batch.samples, batch.draws);
    auto of_picture = squares(values, "latents").flatten(1).mean(1), loss = tensor_of(values, "loss");
    if (picks[0].row % 2 == 0) of_picture = of_picture + 0.5 * squares(values, "tone").flatten(1).mean(1);
    EXPECT_TRUE(at::allclose(loss, of_picture)) << loss << of_picture;
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST_F(Streams, AreDrawnTogetherAndDecoded) {
  drawing::Picture picture{.prompt = "cat", .seed = 3, .extent = {1, 16, 16}, .num_inference_steps = 3};
  loras::Loader loader(*subject);
  at::NoGradGuard no_grad;
  picture.inputs["tone_numbers"] = {"1"};
  auto encoded = drawing::encode(loader, {picture, picture}).value();
  drawing::Noise noise({picture, picture});
  auto latents = drawing::draw(loader, encoded, {picture, picture}, noise, {.batch_size = 2});
  ASSERT_EQ(latents.size(), 2u);
  EXPECT_EQ(tensor_of(latents[0], "latents").sizes(), (std::vector<int64_t>{1, 4, 1, 4, 4}));
  EXPECT_EQ(tensor_of(latents[1], "tone").sizes(), (std::vector<int64_t>{1, 2, 1, 4, 4}));
  EXPECT_TRUE(at::equal(tensor_of(latents[0], "tone"), tensor_of(latents[1], "tone")));
  int64_t num_decoded = 0;
  drawing::decode(loader, latents, [&](int64_t, const drawing::Decoded& decoded) {
    EXPECT_EQ(decoded.image.sizes(), (std::vector<int64_t>{3, 16, 16}));
    ++num_decoded;
  });
  EXPECT_EQ(num_decoded, 2);
}

TEST_F(Streams, NoiseIsOfTheLevelOfItsStream) {
  auto both = values(1);
  const double level = kToneShift * 0.4 / (1 + (kToneShift - 1) * 0.4);
  auto expected = (1 - level) * tensor_of(both, "tone") + level * tensor_of(both, "tone_noise");
  EXPECT_TRUE(at::allclose(tensor_of(both, "tone_noisy"), expected));
}

/// The walk of the teacher, the places that it comes by and the velocities that lead there, beside steps written out.
TEST_F(Streams, TrajectoriesAreOfAllStreams) {
  settings.kind = &trajectory_imitation();
  settings.own.set("student_num_inference_steps", int64_t{2});
  settings.own.set("teacher_num_inference_steps", int64_t{4});
  settings.own.set("teacher_cfg_scale", 1.0);
  load();
  at::NoGradGuard no_grad;
  const auto objective = make_objective(settings, subject);
  const auto noise = random({1, 4, 1, 4, 4}, 4), tone = random({1, 2, 1, 4, 4}, 5);
  const auto& process = subject.model->process();
  auto times_of = [&](int64_t num_steps) {
    auto sampler = process.sampler({.num_steps = num_steps, .num_image_tokens = 16});
    std::vector<double> times;
    for (int64_t i = 0; i < num_steps; ++i) times.push_back(sampler->time(i));
    times.push_back(0);
    return times;
  };
  auto level = [](double time) { return kToneShift * time / (1 + (kToneShift - 1) * time); };
  const auto coarse = times_of(2);
  for (int64_t step : {0, 1}) {
    pipeline::Values all{{"prompt", std::string("a")},
                         {"image", random({1, 3, 16, 16}, 1).clamp(-1, 1)},
                         {kTrajectoryNoise, noise},
                         {kFurtherNoise, pipeline::TensorLists{{tone[0]}}},
                         {"trajectory_step", at::full({1}, step, at::kLong)},
                         {"sigma", at::full({1}, coarse[static_cast<size_t>(step)], at::kFloat)},
                         {kLossWeight, at::ones({1})}};
    pipeline::run(objective->units(), all);
    auto x = noise.to(at::kDouble), y = tone.to(at::kDouble), from = y;
    const auto walk = walk_through(coarse, times_of(4));
    for (int64_t k = 0; k <= step; ++k) {
      from = y;
      const auto& steps = walk[static_cast<size_t>(k)];
      for (size_t i = 0; i + 1 < steps.size(); ++i) {
        pipeline::Values seen{{"noisy", x.to(at::kFloat)},
                              {"tone_noisy", y.to(at::kFloat)},
                              {"sigma", at::full({1}, steps[i], at::kFloat)},
                              {"text_embedding", all.at("text_embedding")}};
        pipeline::run(subject.units().denoise, seen);
        x = x + tensor_of(seen, "prediction").to(at::kDouble) * (steps[i + 1] - steps[i]);
        y = y + tensor_of(seen, "tone_prediction").to(at::kDouble) * (level(steps[i + 1]) - level(steps[i]));
      }
    }
    const auto i = static_cast<size_t>(step);
    EXPECT_LE(test::relative_error(tensor_of(all, "tone_noisy"), from), 1e-6) << step;
    EXPECT_LE(test::relative_error(tensor_of(all, "tone_target"), (y - from) / (level(coarse[i + 1]) - level(coarse[i]))), 1e-5) << step;
    const auto of_picture = squares(all, "latents").mean().item<double>(), of_tone = squares(all, "tone").mean().item<double>();
    EXPECT_NEAR(number_of(all, "loss") / (of_picture + 0.5 * of_tone), 1, 1e-6) << step;
  }
}

TEST(InputTable, TwoValuesOfASampleHaveTwoNames) {
  auto table = [](const Columns& columns, const std::set<std::string>& drawn) { return InputTable(columns, {}, {}, drawn); };
  EXPECT_NO_THROW(table({kColumn}, {}));
  EXPECT_THROW(table({kColumn, kColumn}, {}), std::logic_error);
  EXPECT_THROW(table({{.name = "image"}}, {}), std::logic_error) << "a column of that name would never be read";
  EXPECT_THROW(table({kColumn}, {kColumn.name}), std::logic_error);
}
