// One optimizer step on the skeleton family, without files, clocks or a loop around it.
#include "train/step/step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/device.h"
#include "tests/scalar_reads.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/subject/choosing.h"

using namespace burnish;
using namespace burnish::train;

namespace {

class StepTest : public testing::Test {
 protected:
  StepTest() { test::save_skeleton(scratch / "model.safetensors", /*num_experts=*/1); }

  /// A trainee whose denoiser trains whole, or under LoRA.
  std::unique_ptr<Trainee> open(bool whole, const StepSettings& step = {}) {
    models::ModelOptions options;
    options.dtype = at::kFloat;
    options.device = test::device();
    model = models::skeleton::kFamily.open(models::open_model_files({{(scratch / "model.safetensors").string()}, "", ""}), options);
    TrainedSettings trained;
    trained.learning_rate = 0.1;
    trained.seed = 5;
    if (whole) trained.whole = {"dit"};
    trained.targets = "to_q,to_v";
    trained.adapter.rank = 2;
    auto chosen = choose(trained, *model);
    Subject subject{std::move(model), std::move(chosen), ""};
    subjects.push_back(std::make_unique<Subject>(std::move(subject)));
    auto settings = step;
    settings.optimizer.weight_decay = 0;
    objective = make_objective({.seed = 5}, *subjects.back());
    auto schedule =
        pipeline::schedule(objective->units(), input_table().labels(), subjects.back()->chosen.models(**subjects.back()), {{}, false});
    return std::make_unique<Trainee>(load_trainee(*subjects.back(), schedule, settings, {}, options.device, dist::World()));
  }

  Batch batch(int64_t number, int64_t size = 1) const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(number));
    auto random = [&](std::vector<int64_t> shape) { return at::empty(shape).normal_(0, 1, generator); };
    Batch batch;
    for (int64_t i = 0; i < size; ++i)
      batch.samples.push_back({{"latents", random({1, 4, 2, 4, 4})}, {"text_embedding", random({1, 6, 16})}});
    batch.draws = {{"noise", random({size, 4, 2, 4, 4})}, {"sigma", at::full({size}, 0.4)}};
    batch.draws["loss_weight"] = at::full({size}, 2.0);
    return batch;
  }

  static std::vector<at::Tensor> values(const Trainee& trainee) {
    std::vector<at::Tensor> list;
    for (const auto& p : trainee.optimizer->parameters()) list.push_back(p.value.detach().clone());
    return list;
  }
  static std::vector<at::Tensor> gradients(const Trainee& trainee) {
    std::vector<at::Tensor> list;
    for (const auto& p : trainee.optimizer->parameters()) list.push_back(p.value.grad().clone());
    return list;
  }
  static bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return at::equal(x, y); });
  }

  test::Scratch scratch;
  std::unique_ptr<models::Model> model;
  std::vector<std::unique_ptr<Subject>> subjects;
  std::unique_ptr<Objective> objective;
};

/// Does work whose gradients a device would not compute while it records.
memory::Recorder::Tensors only_told(const optim::ParameterList& parameters, const std::function<memory::Recorder::Tensors()>& work) {
  std::vector<at::Tensor> before;
  for (const auto& p : parameters) before.push_back(p.value.grad().defined() ? p.value.grad().clone() : at::Tensor());
  auto results = work();
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].defined()) parameters[i].value.grad().copy_(before[i]);
  }
  return results;
}

/// Stands for a device that records: a replay does the work once more and writes into the results that there are.
class Anew final : public memory::Recorder {
 public:
  Anew(const Trainee& trainee, int& num_recorded) : parameters_(trainee.optimizer->parameters()), num_recorded_(num_recorded) {}
  std::unique_ptr<memory::Recording> record(const std::function<Tensors()>& work, Tensors& results) override {
    ++num_recorded_;
    results = only_told(parameters_, work);
    for (auto& result : results) {
      if (result.defined()) result = at::full_like(result, std::numeric_limits<double>::quiet_NaN());
    }
    return std::make_unique<Recorded>(work, results);
  }

 private:
  class Recorded final : public memory::Recording {
   public:
    Recorded(std::function<Tensors()> work, Tensors results) : work_(std::move(work)), results_(std::move(results)) {}
    void replay() override {
      auto fresh = work_();
      for (size_t i = 0; i < fresh.size(); ++i) {
        ASSERT_EQ(fresh[i].defined(), results_[i].defined());
        if (fresh[i].defined()) results_[i].copy_(fresh[i]);
      }
    }

   private:
    std::function<Tensors()> work_;
    Tensors results_;
  };
  const optim::ParameterList& parameters_;
  int& num_recorded_;
};

/// A device that waits for what it computes.
class Waiting final : public memory::Recorder {
 public:
  explicit Waiting(const Trainee& trainee) : parameters_(trainee.optimizer->parameters()) {}
  std::unique_ptr<memory::Recording> record(const std::function<Tensors()>& work, Tensors& /*results*/) override {
    only_told(parameters_, work);
    TORCH_CHECK(false, "operation not permitted when stream is capturing");
    return nullptr;
  }

 private:
  const optim::ParameterList& parameters_;
};

void record_by(Trainee& trainee, std::unique_ptr<memory::Recorder> recorder) {
  trainee.execution.gradients = std::make_unique<optim::GradientsInPlace>(trainee.optimizer->parameters());
  trainee.execution.replays = std::make_unique<Replays>(std::move(recorder));
}

}  // namespace

TEST_F(StepTest, GradientsCanBeTakenAgainUntilTheUpdate) {
  auto trainee = open(true);
  auto before = values(*trainee);
  auto once = compute_gradients(*trainee, *objective, 1, [&] { return batch(1); });
  auto first = gradients(*trainee);
  auto again = compute_gradients(*trainee, *objective, 1, [&] { return batch(1); });
  EXPECT_TRUE(equal(first, gradients(*trainee)));
  EXPECT_TRUE(at::equal(once.loss, again.loss));
  EXPECT_EQ(once.loss.scalar_type(), at::kDouble);
  EXPECT_TRUE(equal(before, values(*trainee)));
  EXPECT_EQ(trainee->progress.batch, 0);
  update(*trainee, again, {}, 0.1, 1);
  EXPECT_FALSE(equal(before, values(*trainee)));
  EXPECT_EQ(trainee->progress.step, 1);
  EXPECT_EQ(trainee->progress.batch, 1);
}

TEST_F(StepTest, BatchesOfAStepAreAveraged) {
  auto trainee = open(false);
  auto mean = compute_gradients(*trainee, *objective, 2, [&, i = int64_t{0}]() mutable { return batch(++i); });
  auto both = gradients(*trainee);
  auto one = compute_gradients(*trainee, *objective, 1, [&] { return batch(1); });
  auto first = gradients(*trainee);
  auto two = compute_gradients(*trainee, *objective, 1, [&] { return batch(2); });
  auto second = gradients(*trainee);
  EXPECT_EQ(mean.num_samples, 2);
  EXPECT_NEAR(mean.loss.item<double>() / (one.loss.item<double>() + two.loss.item<double>()), 0.5, 1e-6);
  for (size_t i = 0; i < both.size(); ++i) EXPECT_TRUE(at::allclose(both[i], (first[i] + second[i]) / 2, 1e-5, 1e-7));
}

TEST_F(StepTest, TheLossIsReducedByTheObjective) {
  auto trainee = open(false);
  auto weighted = compute_gradients(*trainee, *objective, 1, [&] { return batch(1, 3); });
  at::NoGradGuard no_grad;
  auto loss_B = losses_of(*trainee, batch(1, 3));
  EXPECT_EQ(loss_B.sizes(), at::IntArrayRef({3}));
  EXPECT_NEAR(weighted.loss.item<double>() / loss_B.mean().item<double>(), 2, 1e-6);
}

TEST_F(StepTest, ALossThatNothingTrainedReachesIsRefused) {
  auto trainee = open(false);
  for (const auto& p : trainee->optimizer->parameters()) at::Tensor(p.value).set_requires_grad(false);
  EXPECT_THAT(test::error_of([&] { compute_gradients(*trainee, *objective, 1, [&] { return batch(1); }); }, Exit::config),
              testing::HasSubstr("the loss depends on nothing that trains"));
}

TEST_F(StepTest, ClippingBoundsWhatAnUpdateSees) {
  auto trainee = open(true);
  auto result = compute_gradients(*trainee, *objective, 1, [&] { return batch(1); });
  auto norm = result.norm.item<double>();
  ASSERT_GT(norm, 0.01);
  update(*trainee, result, {.max_grad_norm = norm / 10}, 0.0, 1);
  double sum = 0;
  for (const auto& g : gradients(*trainee)) sum += g.to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(sum), norm / 10, 1e-5 * norm);
}

TEST_F(StepTest, SamplesCountAsMuchAsTheirWeights) {
  auto trainee = open(true);
  auto weighted = [&](std::vector<double> weights, int64_t number) {
    auto b = batch(1, 2);
    b.samples[1] = batch(number).samples[0];
    b.draws[kLossWeight] = at::tensor(weights, at::kFloat);
    auto result = compute_gradients(*trainee, *objective, 1, [&] { return b; });
    return std::pair(result, gradients(*trainee));
  };
  auto [both, of_both] = weighted({1, 0.5}, 7);
  auto losses = both.losses_B.at(0);
  EXPECT_NEAR(both.loss.item<double>() / (losses[0].item<double>() + 0.5 * losses[1].item<double>()), 0.5, 1e-6);
  auto [first, of_first] = weighted({1, 0}, 7);
  auto [second, of_second] = weighted({0, 1}, 7);
  for (size_t i = 0; i < of_both.size(); ++i) EXPECT_TRUE(at::allclose(of_both[i], of_first[i] + of_second[i] / 2, 1e-4, 1e-6));

  auto [other, of_other] = weighted({1, 0}, 8);
  EXPECT_TRUE(equal(of_first, of_other)) << "whatever a sample of weight 0 is";
  EXPECT_TRUE(at::equal(first.loss, other.loss));
}

TEST_F(StepTest, ReplayedStepsAreTheStepsBitForBit) {
  using RecorderOf = std::function<std::unique_ptr<memory::Recorder>(const Trainee&)>;
  auto run = [&](const RecorderOf& recorder_of) {
    auto trainee = open(true, {.max_grad_norm = 1});
    if (recorder_of) record_by(*trainee, recorder_of(*trainee));
    std::vector<at::Tensor> seen;
    for (int64_t number = 0; number < 12; ++number) {  // batches of two sizes in turn
      auto result = compute_gradients(*trainee, *objective, 1, [&] { return batch(number, 1 + number % 2); });
      update(*trainee, result, {.max_grad_norm = 1}, 0.1, 1);
      seen.insert(seen.end(), {result.loss.clone(), result.norm, result.losses_B.at(0)});
    }
    auto last = values(*trainee);
    seen.insert(seen.end(), last.begin(), last.end());
    return seen;
  };
  auto expected = run(nullptr);
  int num_recorded = 0;
  EXPECT_TRUE(equal(run([&](const Trainee& trainee) { return std::make_unique<Anew>(trainee, num_recorded); }), expected));
  EXPECT_EQ(num_recorded, 2);
  EXPECT_TRUE(equal(run([](const Trainee& trainee) { return std::make_unique<Waiting>(trainee); }), expected)) << "what cannot be recorded";
}

TEST_F(StepTest, ReplayedBatchesOfAStepAddUp) {
  int num_recorded = 0;
  auto trainee = open(false), plain = open(false);
  record_by(*trainee, std::make_unique<Anew>(*trainee, num_recorded));
  for (int64_t step = 0; step < 3; ++step) {
    auto next = [&] { return [&, i = 2 * step]() mutable { return batch(++i, 2); }; };
    auto found = compute_gradients(*trainee, *objective, 2, next()), expected = compute_gradients(*plain, *objective, 2, next());
    EXPECT_TRUE(at::equal(found.loss, expected.loss));
    EXPECT_TRUE(equal(gradients(*trainee), gradients(*plain))) << "they are added in one order";
  }
  EXPECT_EQ(num_recorded, 1);
}

TEST_F(StepTest, ReplayedGradientsStayInTheirPlacesAndMissingOnesStayMissing) {
  int num_recorded = 0;
  auto trainee = open(true);
  const auto& parameters = trainee->optimizer->parameters();
  at::Tensor(parameters.front().value).set_requires_grad(false);  // so that none ever comes
  record_by(*trainee, std::make_unique<Anew>(*trainee, num_recorded));
  std::vector<const void*> places;
  for (int64_t number = 0; number < 5; ++number) {
    auto result = compute_gradients(*trainee, *objective, 1, [&] { return batch(number); });
    EXPECT_FALSE(parameters.front().value.grad().defined());
    std::vector<const void*> now;
    for (size_t i = 1; i < parameters.size(); ++i) now.push_back(parameters[i].value.grad().const_data_ptr());
    if (number == 0) places = now;
    EXPECT_EQ(now, places);
    update(*trainee, result, {}, 0.1, 1);
  }
  EXPECT_EQ(num_recorded, 1);
}

TEST_F(StepTest, ForgottenRecordingsAreMadeAnew) {
  int num_recorded = 0;
  auto trainee = open(false);
  record_by(*trainee, std::make_unique<Anew>(*trainee, num_recorded));
  auto take_steps = [&] {
    for (int64_t number = 0; number < 4; ++number) compute_gradients(*trainee, *objective, 1, [&] { return batch(number); });
  };
  take_steps();
  EXPECT_EQ(num_recorded, 1);
  trainee->execution.replays->forget();
  take_steps();
  EXPECT_EQ(num_recorded, 2);
}

TEST_F(StepTest, HasNoScalarThatTheHostReads) {
  for (bool whole : {false, true}) {
    for (double max_grad_norm : {0.0, 0.01}) {
      for (bool in_backward : {false, true}) {
        StepSettings settings{.max_grad_norm = max_grad_norm, .ema_decay = 0.9};
        settings.memory.updates_in_backward = in_backward;
        auto trainee = open(whole, settings);
        auto before = values(*trainee);
        {
          const test::ScalarReads reads;
          if (in_backward) {
            update_in_backward(*trainee, *objective, batch(1, 2), settings, 0.1);
          } else {
            auto gradients = compute_gradients(*trainee, *objective, 2, [&, i = int64_t{0}]() mutable { return batch(++i, 2); });
            update(*trainee, gradients, settings, 0.1, 2);
          }
          EXPECT_EQ(reads.count(), 0) << whole << " " << max_grad_norm << " " << in_backward;
        }
        EXPECT_FALSE(equal(before, values(*trainee)));
      }
    }
  }
}
