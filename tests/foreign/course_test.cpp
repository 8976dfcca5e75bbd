// What is learned, as a function: the rate by step, the scale of an adapter, the number of updates, and the parts that train, beside plain
// models of the other programs.
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "foreign/program.h"
#include "optim/lr_schedule.h"
#include "tests/foreign/run_options.h"
#include "tests/scratch.h"

using namespace burnish;
using foreign::Settings;
using foreign::Value;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

namespace {

struct Ours {
  std::map<std::string, std::string> options;
  foreign::Import said;

  double number(const std::string& name) const { return std::stod(options.at(name)); }
  std::string text(const std::string& name) const { return Value::parse(options.at(name)).get<std::string>(); }
  double scale() const { return number("lora_alpha") == 0 ? 1 : number("lora_alpha") / number("lora_rank"); }
  double rate(int64_t step, int64_t num_steps) const {
    optim::ScheduleOptions schedule{.name = text("lr_scheduler"),
                                    .warmup_steps = static_cast<int64_t>(number("lr_warmup_steps")),
                                    .max_steps = num_steps,
                                    .min_lr_ratio = number("lr_scheduler_min_lr_ratio"),
                                    .num_cycles = static_cast<int64_t>(number("lr_scheduler_num_cycles")),
                                    .power = number("lr_scheduler_power"),
                                    .decay_steps = static_cast<int64_t>(number("lr_decay_steps"))};
    optim::check(schedule);
    return number("learning_rate") * optim::lr_factor(schedule, step);
  }
};

Ours imported(foreign::Program program, const Value& tree) {
  test::RunOptions run;
  Ours ours;
  auto arranged = program.arrange(tree, [](const std::string&) { return Value(); });
  foreign::apply(program.table(), Settings(arranged.tree), arranged.whole, run.fields, ours.said);
  ours.options = run.values();
  return ours;
}

Ours kohya(const char* tree) {
  auto value = Value::parse(tree);
  value.emplace("pretrained_model_name_or_path", "x");
  value.emplace("network_module", "networks.lora");
  return imported(foreign::kohya(), value);
}
Ours onetrainer(const char* tree) {
  auto value = Value::parse(tree);
  value.emplace("training_method", "LORA");
  value.emplace("model_type", "STABLE_DIFFUSION_XL_10_BASE");
  return imported(foreign::onetrainer(), value);
}
Ours ai_toolkit(const char* process) {
  return imported(foreign::ai_toolkit(), Value{{"config", {{"name", "x"}, {"process", Value::array({Value::parse(process)})}}}});
}

constexpr int64_t kSteps = 100, kWarmup = 10;
using Curve = std::function<double(double)>;

/// The rate of a program whose warm-up is step / w and whose curve follows; a run's warm-up is one step ahead.
void expect_rates(const Ours& ours, double peak, const Curve& curve, int64_t warmup = kWarmup) {
  for (int64_t step = 0; step < kSteps; ++step) {
    double theirs = step < warmup ? peak * static_cast<double>(step + 1) / static_cast<double>(warmup)
                                  : peak * curve(static_cast<double>(step - warmup));
    EXPECT_NEAR(ours.rate(step, kSteps), theirs, 1e-9 * peak) << step;
  }
}

constexpr double kLength = kSteps - kWarmup;
double cosine(double n) { return (1 + std::cos(std::numbers::pi * n / kLength)) / 2; }

}  // namespace

TEST(Course, KohyasSchedulesAreTransformers) {
  auto of = [](const std::string& more) {
    return kohya((R"({"learning_rate": 1e-4, "max_train_steps": 100, "lr_warmup_steps": 10, )" + more + "}").c_str());
  };
  expect_rates(of(R"("lr_scheduler": "constant_with_warmup")"), 1e-4, [](double) { return 1; });
  expect_rates(of(R"("lr_scheduler": "linear")"), 1e-4, [](double n) { return 1 - n / kLength; });
  expect_rates(of(R"("lr_scheduler": "cosine")"), 1e-4, cosine);
  expect_rates(of(R"("lr_scheduler": "cosine_with_restarts", "lr_scheduler_num_cycles": 3)"), 1e-4,
               [](double n) { return (1 + std::cos(std::numbers::pi * std::fmod(3 * n / kLength, 1.0))) / 2; });
  // Polynomials end at a rate of 1e-7, not at 0.
  expect_rates(of(R"("lr_scheduler": "polynomial", "lr_scheduler_power": 2)"), 1e-4,
               [](double n) { return ((1e-4 - 1e-7) * std::pow(1 - n / kLength, 2) + 1e-7) / 1e-4; });
  expect_rates(of(R"("lr_scheduler": "inverse_sqrt")"), 1e-4, [](double n) { return std::sqrt(10 / (10 + n)); });
  expect_rates(of(R"("lr_scheduler": "cosine_with_min_lr", "lr_scheduler_min_lr_ratio": 0.2)"), 1e-4,
               [](double n) { return 0.2 + 0.8 * cosine(n); });
  expect_rates(of(R"("lr_scheduler": "warmup_stable_decay", "lr_decay_steps": 20)"), 1e-4,
               [](double n) { return n < kLength - 20 ? 1 : (1 + std::cos(std::numbers::pi * (n - kLength + 20) / 20)) / 2; });
  expect_rates(of(R"("lr_scheduler": "warmup_stable_decay")"), 1e-4, [](double) { return 1; });
  auto waves = of(R"("lr_scheduler": "cosine_with_min_lr", "lr_scheduler_num_cycles": 2, "lr_scheduler_min_lr_ratio": 0.2)");
  EXPECT_THAT(waves.said.not_carried, Contains(HasSubstr("falls and rises in waves")));
  EXPECT_THAT(of(R"("lr_scheduler": "linear")").said.different, Contains(HasSubstr("one step ahead")));
}

TEST(Course, OneTrainersSchedules) {
  auto of = [](const std::string& more) {
    return onetrainer(
        (R"({"learning_rate": 1e-4, "learning_rate_warmup_steps": 10, "learning_rate_min_factor": 0.1, )" + more + "}").c_str());
  };
  auto floored = [](Curve curve) { return [curve](double n) { return 0.1 + 0.9 * curve(n); }; };
  expect_rates(of(R"("learning_rate_scheduler": "CONSTANT")"), 1e-4, [](double) { return 1; });
  expect_rates(of(R"("learning_rate_scheduler": "LINEAR")"), 1e-4, floored([](double n) { return 1 - n / kLength; }));
  expect_rates(of(R"("learning_rate_scheduler": "COSINE")"), 1e-4, floored(cosine));
  expect_rates(of(R"("learning_rate_scheduler": "COSINE_WITH_RESTARTS", "learning_rate_cycles": 0.5)"), 1e-4, floored(cosine));
  expect_rates(of(R"("learning_rate_scheduler": "COSINE_WITH_HARD_RESTARTS", "learning_rate_cycles": 2)"), 1e-4,
               floored([](double n) { return (1 + std::cos(std::numbers::pi * std::fmod(2 * n / kLength, 1.0))) / 2; }));
  expect_rates(of(R"("learning_rate_scheduler": "REX")"), 1e-4, floored([](double n) {
                 double p = n / kLength;
                 return (1 - p) / (0.1 + 0.9 * (1 - p));
               }));
  for (const char* cycles : {"1", "2", "3"}) {  // they end at the top
    auto whole = of(R"("learning_rate_scheduler": "COSINE_WITH_RESTARTS", "learning_rate_cycles": )" + std::string(cycles));
    EXPECT_EQ(whole.text("lr_scheduler"), "constant");
    EXPECT_THAT(whole.said.not_carried, Contains(HasSubstr("ends at the full rate")));
  }
  EXPECT_THAT(of(R"("learning_rate_scheduler": "COSINE_WITH_HARD_RESTARTS", "learning_rate_cycles": 1.5)").said.not_carried,
              Contains(HasSubstr("a part of a cycle")));
  // Its warm-up counts batches.
  EXPECT_EQ(onetrainer(R"({"gradient_accumulation_steps": 4})").number("lr_warmup_steps"), 50);
  auto free = onetrainer(R"({"optimizer": {"optimizer": "SCHEDULE_FREE_ADAMW"}, "learning_rate_scheduler": "COSINE"})");
  EXPECT_EQ(free.text("lr_scheduler"), "constant");
  EXPECT_EQ(free.number("lr_warmup_steps"), 0);
}

TEST(Course, AiToolkitsSchedulesAreTorchs) {
  auto of = [](const std::string& more) {
    return ai_toolkit((R"({"network": {"type": "lora"}, "train": {"lr": 1e-4, "steps": 100, )" + more + "}}").c_str());
  };
  expect_rates(
      of(R"("lr_scheduler": "cosine", "lr_scheduler_params": {"eta_min": 1e-5})"), 1e-4,
      [](double n) { return 0.1 + 0.9 * (1 + std::cos(std::numbers::pi * n / kSteps)) / 2; }, 0);
  expect_rates(
      of(R"("lr_scheduler": "linear", "lr_scheduler_params": {"start_factor": 1.0, "end_factor": 0.25})"), 1e-4,
      [](double n) { return 1 + (0.25 - 1) * n / kSteps; }, 0);
  auto rises = of(R"("lr_scheduler": "linear")");  // from a third of the rate to all of it
  EXPECT_EQ(rises.text("lr_scheduler"), "constant");
  EXPECT_THAT(rises.said.not_carried, Contains(HasSubstr("goes from 0.333 of the rate")));
  expect_rates(of(R"("lr_scheduler": "constant_with_warmup", "lr_scheduler_params": {"num_warmup_steps": 10})"), 1e-4,
               [](double) { return 1; });
  EXPECT_EQ(of(R"("lr_scheduler": "constant_with_warmup", "x": 1)").number("lr_warmup_steps"), 1000);
}

TEST(Course, AiToolkitCountsBatches) {
  auto of = [](const std::string& train) {
    return ai_toolkit((R"({"network": {"type": "lora"}, "save": {"save_every": 250}, "train": {"steps": 2000)" + train + "}}").c_str());
  };
  EXPECT_EQ(of("").number("max_steps"), 2000);
  auto four = of(R"(, "gradient_accumulation_steps": 4)");
  EXPECT_EQ(four.number("max_steps"), 500);
  EXPECT_EQ(four.number("gradient_accumulation_steps"), 4);
  EXPECT_EQ(four.number("save_steps"), 62);
  auto within = of(R"(, "gradient_accumulation": 4)");  // its other key counts updates
  EXPECT_EQ(within.number("max_steps"), 2000);
  EXPECT_EQ(within.number("gradient_accumulation_steps"), 4);
}

TEST(Course, ScalesOfAdapters) {
  auto of = [](const std::string& network, const std::string& model, const std::string& train = R"({"noise_scheduler": "flowmatch"})") {
    return ai_toolkit((R"({"network": )" + network + R"(, "model": )" + model + R"(, "train": )" + train + "}").c_str());
  };
  auto flux = of(R"({"type": "lora", "linear": 16, "linear_alpha": 8})", R"({"arch": "flux"})");
  EXPECT_EQ(flux.scale(), 1);
  EXPECT_THAT(flux.said.different, Contains(HasSubstr("takes the rank for models without a UNet")));
  EXPECT_EQ(of(R"({"type": "lora", "linear": 16})", R"({"is_flux": true})").scale(), 1);
  EXPECT_EQ(of(R"({"type": "lora", "linear": 16})", R"({"arch": "sdxl"})", "{}").scale(), 1. / 16);
  EXPECT_EQ(of(R"({"type": "lora", "rank": 16, "alpha": 4})", R"({"arch": "sd1"})", "{}").scale(), 4. / 16);
  EXPECT_EQ(of(R"({"type": "lora"})", R"({"arch": "sd1"})", "{}").number("lora_rank"), 4);
  EXPECT_GT(of(R"({"type": "lokr", "linear": 16})", R"({"arch": "flux"})").number("lora_rank"), 65536);
  for (int64_t rank : {10000, 100000}) {  // LoKr whose second factor is whole, to whoever writes these
    auto text = std::to_string(rank);
    EXPECT_EQ(onetrainer((R"({"peft_type": "LOKR", "lokr_dim": )" + text + "}").c_str()).number("lora_rank"), rank);
    EXPECT_EQ(kohya((R"({"network_module": "lycoris.kohya", "network_dim": )" + text + R"(, "network_args": ["algo=lokr"]})").c_str())
                  .number("lora_rank"),
              rank);
  }
  EXPECT_GE(onetrainer(R"({"peft_type": "LOKR", "lokr_dim": 8, "lokr_full_matrix": true})").number("lora_rank"), 10000);
  EXPECT_EQ(kohya(R"({"network_module": "lycoris.kohya", "network_dim": 8, "network_args": ["algo=lokr", "full_matrix=True"]})")
                .number("lora_rank"),
            10000);
  EXPECT_EQ(kohya(R"({"network_dim": 8})").scale(), 1. / 8);
  EXPECT_EQ(kohya("{}").scale(), 1. / 4);
  EXPECT_EQ(onetrainer("{}").scale(), 1. / 16);
  EXPECT_EQ(onetrainer(R"({"peft_type": "LOKR", "lora_rank": 4, "lokr_dim": 8, "lora_alpha": 8})").number("lora_rank"), 8);
}

TEST(Course, RatesOfTheParts) {
  auto two = onetrainer(R"({"learning_rate": 3e-4, "text_encoder_2": {"learning_rate": 3e-6}})");
  EXPECT_EQ(two.text("text_encoder_lr"), "text_encoder=0.0003,text_encoder_2=3e-06");
  // Without a rate of their own they take that of the run, not the denoiser's.
  EXPECT_EQ(onetrainer(R"({"learning_rate": 1e-5, "unet": {"learning_rate": 1e-4}})").text("text_encoder_lr"),
            "text_encoder=1e-05,text_encoder_2=1e-05");
  EXPECT_EQ(kohya(R"({"learning_rate": 1e-4, "unet_lr": 2e-4, "script": "train_network.py"})").text("text_encoder_lr"),
            "text_encoder=0.0001");
  EXPECT_EQ(onetrainer(R"({"learning_rate": 1e-4, "batch_size": 4, "learning_rate_scaler": "BATCH"})").number("learning_rate"), 2e-4);
  // ai-toolkit takes one for all, and 1 for what prodigy multiplies.
  auto one = ai_toolkit(
      R"({"train": {"lr": 1e-4, "unet_lr": 1e-3, "train_text_encoder": true}, "model": {"arch": "sdxl"}, "network": {"type": "lora"}})");
  EXPECT_EQ(one.number("learning_rate"), 1e-4);
  EXPECT_EQ(one.text("text_encoder_lr"), "");
  EXPECT_EQ(ai_toolkit(R"({"train": {"lr": 1e-4, "optimizer": "prodigy"}})").number("learning_rate"), 1);
  EXPECT_EQ(ai_toolkit(R"({"train": {"lr": 1e-4}})").text("optimizer_args"), "eps=1e-6");
}

TEST(Course, ARateStaysWithItsOptimizer) {
  auto lost = [](const Ours& ours) {
    EXPECT_EQ(ours.number("learning_rate"), 1e-4);
    EXPECT_THAT(ours.said.not_carried, Contains(HasSubstr("no such optimizer")));
    EXPECT_THAT(ours.said.not_carried, Contains(HasSubstr("for an optimizer that is not carried")));
  };
  lost(kohya(R"({"optimizer_type": "DAdaptation", "learning_rate": 1.0, "optimizer_args": ["decouple=True", "weight_decay=0.2"]})"));
  lost(kohya(R"({"optimizer_type": "SGDNesterov", "unet_lr": 0.1})"));
  lost(onetrainer(R"({"learning_rate": 1.0, "optimizer": {"optimizer": "DADAPT_ADAM"}})"));
  lost(ai_toolkit(R"({"train": {"lr": 1.0, "optimizer": "dadaptation"}})"));
  lost(imported(foreign::diffusion_pipe(),
                Value::parse(R"({"model": {"type": "flux"}, "optimizer": {"type": "genericoptim", "lr": 1.0}})")));
}

TEST(Course, PartsThatTrain) {
  auto parts = [](const char* tree) { return kohya(tree).text("lora_base_model"); };
  EXPECT_EQ(parts(R"({"script": "sdxl_train_network.py"})"), "unet,text_encoder,text_encoder_2");
  EXPECT_EQ(parts(R"({"model_train_type": "sdxl-lora"})"), "unet,text_encoder,text_encoder_2");
  EXPECT_EQ(parts(R"({"pretrained_model_name_or_path": "sd_xl_base_1.0.safetensors"})"), "unet,text_encoder,text_encoder_2");
  EXPECT_EQ(parts(R"({"script": "train_network.py"})"), "unet,text_encoder");
  EXPECT_EQ(parts(R"({"script": "train_network.py", "text_encoder_lr": 0})"), "unet");
  EXPECT_EQ(parts(R"({"script": "flux_train_network.py", "cache_text_encoder_outputs": true})"), "dit,text_encoder");
  EXPECT_EQ(parts(R"({"script": "flux_train_network.py", "network_args": ["train_t5xxl=True"]})"), "dit,text_encoder,text_encoder_2");
  EXPECT_THAT(kohya("{}").said.different, Contains(HasSubstr("whether this is SDXL")));
  // Parts of OneTrainer's train unless told, text encoders for 30 epochs of 100.
  auto ours = onetrainer("{}");
  EXPECT_EQ(ours.text("lora_base_model"), "unet,text_encoder,text_encoder_2");
  EXPECT_THAT(ours.said.not_carried, Contains(HasSubstr("text_encoder.stop_training_after (its default) = 30: a part trains to the end")));
  EXPECT_THAT(onetrainer(R"({"epochs": 30})").said.not_carried, ::testing::Not(Contains(HasSubstr("stop_training_after"))));
  EXPECT_THAT(onetrainer(R"({"unet": {"stop_training_after": 5, "stop_training_after_unit": "EPOCH"}})").said.not_carried,
              Contains(HasSubstr("unet.stop_training_after = 5")));
  EXPECT_EQ(onetrainer(R"({"model_type": "Z_IMAGE"})").text("lora_base_model"), "dit");
}

TEST(Course, AConditionerBetweenTextEncoderAndDenoiser) {
  auto anima = [](const char* more) {
    auto tree = Value::parse(more);
    tree.emplace("script", "anima_train_network.py");
    tree.emplace("pretrained_model_name_or_path", "anima.safetensors");
    tree.emplace("qwen3", "qwen_3_06b_base.safetensors");
    tree.emplace("vae", "qwen_image_vae.safetensors");
    tree.emplace("t5_tokenizer_path", "t5");
    return imported(foreign::kohya(), tree);
  };
  auto network = anima(R"({"network_module": "networks.lora_anima", "blocks_to_swap": 5})");
  EXPECT_EQ(network.text("lora_base_model"), "dit,text_encoder");
  EXPECT_EQ(network.text("lora_type"), "lora");
  EXPECT_EQ(network.text("timestep_sampling"), "sigmoid");
  EXPECT_EQ(network.number("discrete_flow_shift"), 1);
  EXPECT_EQ(network.number("blocks_to_swap"), 5);
  EXPECT_EQ(network.text("tokenizer_2_path"), "t5");
  EXPECT_EQ(Value::parse(network.options.at("model")).size(), 3u);
  EXPECT_THAT(network.said.different, Contains(HasSubstr("name their folders in tokenizer_path")));
  auto adapter = anima(R"({"network_module": "networks.lora_anima", "network_args": ["train_llm_adapter=True"],
                           "network_train_unet_only": true, "timestep_sampling": "shift", "discrete_flow_shift": 3,
                           "t5_max_token_length": 256, "qwen3_max_token_length": 512, "self_attn_lr": 1e-5})");
  EXPECT_EQ(adapter.text("lora_base_model"), "dit,text_conditioner");
  EXPECT_EQ(adapter.text("timestep_sampling"), "shift");
  EXPECT_EQ(adapter.number("discrete_flow_shift"), 3);
  EXPECT_EQ(adapter.number("max_sequence_length"), 256);
  EXPECT_THAT(adapter.said.not_carried, Contains(HasSubstr("both tokenizers cut a text at max_sequence_length")));
  EXPECT_THAT(adapter.said.not_carried, Contains(HasSubstr("self_attn_lr")));
  // Of ai-toolkit it is asked for, of OneTrainer it does not train, of diffusion-pipe it does unless its rate is 0.
  auto of_ai_toolkit = [](bool trains) {
    Value tree{{"model", {{"arch", "anima"}, {"model_kwargs", {{"train_text_conditioner", trains}, {"max_sequence_length", 256}}}}},
               {"network", {{"type", "lora"}}}};
    return ai_toolkit(tree.dump().c_str());
  };
  EXPECT_EQ(of_ai_toolkit(true).text("lora_base_model"), "dit,text_conditioner");
  EXPECT_EQ(of_ai_toolkit(false).text("lora_base_model"), "dit");
  EXPECT_EQ(of_ai_toolkit(false).number("max_sequence_length"), 256);
  EXPECT_EQ(onetrainer(R"({"model_type": "ANIMA"})").text("lora_base_model"), "dit");
  auto pipe = [](const char* more) {
    Value tree{{"model", {{"type", "anima"}, {"transformer_path", "a"}, {"vae_path", "v"}, {"llm_path", "q"}, {"dtype", "bfloat16"}}},
               {"adapter", {{"type", "lora"}, {"rank", 32}}},
               {"optimizer", {{"type", "adamw_optimi"}, {"lr", 1e-5}}}};
    tree["model"].update(Value::parse(more));
    return imported(foreign::diffusion_pipe(), tree);
  };
  EXPECT_EQ(pipe("{}").text("lora_base_model"), "dit,text_conditioner");
  EXPECT_EQ(pipe("{}").text("lora_target_modules"), "(transformer_)?blocks\\..*");
  EXPECT_EQ(pipe(R"({"llm_adapter_lr": 0})").text("lora_base_model"), "dit");
  EXPECT_THAT(pipe(R"({"llm_adapter_lr": 2e-6})").said.not_carried, Contains(HasSubstr("llm_adapter_lr")));
  // All weights: the conditioner's too, unless its rate is 0.
  EXPECT_EQ(anima(R"({"script": "anima_train.py"})").text("trainable_models"), "dit,text_conditioner");
  EXPECT_EQ(anima(R"({"script": "anima_train.py", "llm_adapter_lr": 0})").text("trainable_models"), "dit");
}

TEST(Course, WhatIsReadOfModelsAndCaptions) {
  for (const char* tree :
       {R"({"script": "sdxl_train_network.py", "clip_skip": 2})", R"({"script": "flux_train_network.py", "clip_skip": 2})"}) {
    EXPECT_EQ(kohya(tree).number("clip_skip"), 0) << tree;
    EXPECT_THAT(kohya(tree).said.not_carried, Contains(HasSubstr("is left unread there")));
  }
  EXPECT_EQ(kohya(R"({"script": "train_network.py", "clip_skip": 2})").number("clip_skip"), 2);
  EXPECT_EQ(kohya(R"({"train_data_dir": "x"})").text("caption_extension"), ".caption");
  EXPECT_EQ(imported(foreign::kohya(), Value::parse(R"({"datasets": [{"subsets": [{"image_dir": "x"}]}]})")).text("caption_extension"),
            ".caption");
  EXPECT_THAT(onetrainer(R"({"concepts": [{"path": "/nowhere"}]})").said.not_carried,
              Contains(HasSubstr("concept.include_subdirectories (its default) = false: pictures in folders below count here")));
}

TEST(Course, AveragesKeepTheirLength) {
  auto ours = onetrainer(R"({"ema": "GPU", "ema_decay": 0.99})");  // every fifth step there
  EXPECT_NEAR(std::pow(ours.number("ema_decay"), 5), 0.99, 1e-9);
  EXPECT_EQ(onetrainer(R"({"ema": "GPU", "ema_decay": 0.99, "ema_update_step_interval": 1})").number("ema_decay"), 0.99);
}

TEST(Course, AccumulationThatDoesNotDivideIsTold) {
  EXPECT_THAT(kohya(R"({"gradient_accumulation_steps": 3})").said.different, Contains(HasSubstr("4 updates an epoch there")));
  EXPECT_THAT(kohya(R"({"gradient_accumulation_steps": 1})").said.different, ::testing::Not(Contains(HasSubstr("updates an epoch there"))));
}

TEST(Course, LoraEasysTablesAreOne) {
  auto ours = imported(foreign::kohya(), Value::parse(R"({
      "general_args": {"args": {"pretrained_model_name_or_path": "x", "sdxl": true, "max_train_epochs": 3}, "dataset_args": {"resolution": 1024, "batch_size": 2}},
      "network_args": {"args": {"network_dim": 8, "network_alpha": 4.0, "network_args": {"algo": "lokr", "factor": 8}}},
      "optimizer_args": {"args": {"optimizer_type": "Prodigy", "learning_rate": 1.0, "optimizer_args": {"d_coef": "2.0"}}},
      "subsets": [{"image_dir": "y", "num_repeats": 4, "caption_extension": ".txt"}]})"));
  EXPECT_EQ(ours.text("lora_type"), "lokr");
  EXPECT_EQ(ours.number("lora_rank"), 8);
  EXPECT_EQ(ours.number("batch_size"), 2);
  EXPECT_EQ(ours.number("num_epochs"), 3);
  EXPECT_EQ(ours.number("dataset_repeat"), 4);
  EXPECT_EQ(ours.text("optimizer_args"), "d_coef=2.0");
  EXPECT_EQ(ours.text("lora_base_model"), "unet,text_encoder,text_encoder_2");
}

TEST(Course, DiffusersScripts) {
  auto ours = imported(
      foreign::diffusers(),
      foreign::parse_command_line("accelerate launch train_dreambooth_lora_flux.py --pretrained_model_name_or_path x --instance_data_dir y "
                                  "--instance_prompt 'a dog' "
                                  "--rank 16 --learning_rate 1e-4 --max_train_steps 500 --lr_scheduler constant --mixed_precision bf16"));
  EXPECT_EQ(ours.text("lora_base_model"), "dit");
  EXPECT_EQ(ours.scale(), 4. / 16);
  EXPECT_EQ(ours.number("batch_size"), 4);
  EXPECT_EQ(ours.number("lr_warmup_steps"), 0);  // a constant rate has no warm-up there
  EXPECT_EQ(ours.number("weight_decay"), 1e-4);
  EXPECT_EQ(ours.number("embedded_guidance"), 3.5);
  EXPECT_EQ(ours.text("dataset_metadata_path"), "y");
  auto of_hub =
      imported(foreign::diffusers(), foreign::parse_command_line("train_dreambooth_lora_flux.py --pretrained_model_name_or_path x "
                                                                 "--dataset_name author/photos --instance_prompt 'a dog'"));
  EXPECT_EQ(of_hub.text("dataset_metadata_path"), "hf://datasets/author/photos");
  EXPECT_EQ(ours.number("max_steps"), 500);
}

/// The steps of a warm-up of a run of so many, as train/options/meaning.cpp has them.
static int64_t warmup_of(const Ours& ours, int64_t num_steps) {
  auto ratio = ours.number("lr_warmup_ratio");
  return ratio > 0 ? static_cast<int64_t>(ratio * static_cast<double>(num_steps)) : static_cast<int64_t>(ours.number("lr_warmup_steps"));
}

TEST(Course, WarmUpsThatAreAShare) {
  // int(share * steps) of sd-scripts, whether steps are known or follow from epochs.
  for (const char* share : {"0.1", "\"0.1\"", "\"10%\""}) {
    auto known = kohya((R"({"max_train_steps": 255, "lr_scheduler": "cosine", "lr_warmup_steps": )" + std::string(share) + "}").c_str());
    EXPECT_EQ(known.number("lr_warmup_steps"), 25) << share;
    EXPECT_EQ(known.number("lr_warmup_ratio"), 0);
    auto epochs = kohya((R"({"max_train_epochs": 3, "lr_scheduler": "cosine", "lr_warmup_steps": )" + std::string(share) + "}").c_str());
    EXPECT_EQ(epochs.number("lr_warmup_steps"), 0) << share;
    EXPECT_EQ(warmup_of(epochs, 255), 25) << share;
    EXPECT_THAT(epochs.said.not_carried, ::testing::Not(Contains(HasSubstr("lr_warmup"))));
    EXPECT_THAT(epochs.said.different, Contains(HasSubstr("one step ahead")));
  }
  EXPECT_EQ(kohya(R"({"max_train_epochs": 3, "lr_warmup_steps": 40})").number("lr_warmup_steps"), 40);
  // The window over them has percent, and epochs.
  auto gui = [](const char* more) {
    return imported(foreign::kohya(), Value::parse(R"({"LoRA_type": "Standard", "max_resolution": "512,512", "lr_scheduler": "cosine", )" +
                                                   std::string(more) + "}"));
  };
  EXPECT_EQ(warmup_of(gui(R"("epoch": 4, "lr_warmup": 10, "lr_warmup_steps": 0)"), 400), 40);
  EXPECT_EQ(warmup_of(gui(R"("epoch": 4, "lr_warmup": "12.5")"), 400), 50);
  EXPECT_EQ(gui(R"("max_train_steps": 1600, "lr_warmup": 10)").number("lr_warmup_steps"), 160);
  EXPECT_EQ(gui(R"("epoch": 4, "lr_warmup": 10, "lr_warmup_steps": 7)").number("lr_warmup_steps"), 7);
  EXPECT_EQ(warmup_of(gui(R"("epoch": 4, "lr_warmup": 0)"), 400), 0);
  auto musubi = imported(foreign::musubi(),
                         Value::parse(R"({"dit": "x", "dataset_config": "none.toml", "max_train_epochs": 2, "lr_warmup_steps": 0.2})"));
  EXPECT_EQ(warmup_of(musubi, 50), 10);
  // OneTrainer's up to 1 is a share of the run, above it batches.
  EXPECT_EQ(warmup_of(onetrainer(R"({"learning_rate_warmup_steps": 0.05})"), 999), 49);
  EXPECT_EQ(warmup_of(onetrainer(R"({"learning_rate_warmup_steps": 1.0})"), 30), 30);
  EXPECT_EQ(onetrainer(R"({"learning_rate_warmup_steps": 100.0})").number("lr_warmup_ratio"), 0);
  auto easy =
      imported(foreign::kohya(), Value::parse(R"({"general_args": {"args": {"pretrained_model_name_or_path": "x", "max_train_epochs": 3}},
      "optimizer_args": {"args": {"lr_scheduler": "cosine", "warmup_ratio": 0.1}}})"));
  EXPECT_EQ(warmup_of(easy, 100), 10);
}

TEST(Course, CaptionsForAllAndTriggerWords) {
  auto dataset = [](const char* json) {
    return ai_toolkit((R"({"datasets": [)" + std::string(json) + R"(], "trigger_word": "p3rson"})").c_str());
  };
  auto ours =
      dataset(R"({"folder_path": "x", "default_caption": "a man"}, {"folder_path": "y", "is_reg": true, "default_caption": "people"})");
  EXPECT_EQ(ours.text("class_tokens"), "a man");
  EXPECT_EQ(ours.text("trigger_word"), "p3rson");
  EXPECT_EQ(ours.text("class_prompt"), "people");
  EXPECT_EQ(ours.text("caption_prefix"), "");
  EXPECT_EQ(dataset(R"({"folder_path": "x", "default_caption": null})").text("class_tokens"), "");
  EXPECT_EQ(kohya(R"({"train_data_dir": "x", "class_tokens": "a dog"})").text("class_tokens"), "a dog");
  auto of_file = imported(foreign::kohya(), Value::parse(R"({"datasets": [{"subsets": [{"image_dir": "x", "class_tokens": "sks dog"},
      {"image_dir": "y", "is_reg": true, "class_tokens": "dog"}]}]})"));
  EXPECT_EQ(of_file.text("class_tokens"), "sks dog");
  EXPECT_EQ(of_file.text("class_prompt"), "dog");
  auto dreambooth = Value{{"script", "train_dreambooth_lora.py"},
                          {"pretrained_model_name_or_path", "x"},
                          {"instance_data_dir", "y"},
                          {"instance_prompt", "sks dog"},
                          {"class_prompt", "dog"},
                          {"class_data_dir", "z"}};
  EXPECT_EQ(imported(foreign::diffusers(), dreambooth).text("class_tokens"), "sks dog");
  EXPECT_EQ(imported(foreign::diffusers(), dreambooth).text("class_prompt"), "") << "only with_prior_preservation";
  dreambooth["with_prior_preservation"] = true;
  EXPECT_EQ(imported(foreign::diffusers(), dreambooth).text("class_prompt"), "dog");
}

TEST(Course, OneTrainersPromptsOfAConcept) {
  test::Scratch folder;
  auto of = [&](const std::string& text) {
    Value concept_{{"path", "x"}, {"text", {{"prompt_source", "concept"}, {"prompt_path", folder.write("p.txt", text).string()}}}};
    return onetrainer(Value{{"concepts", Value::array({concept_})}}.dump().c_str());
  };
  EXPECT_EQ(of("a sks dog\n\n").text("class_tokens"), "a sks dog");
  EXPECT_EQ(of("a dog\na cat\n").text("class_tokens"), "");
  EXPECT_THAT(of("a dog\na cat\n").said.not_carried, Contains(HasSubstr("class_tokens is one for all")));
}

TEST(Course, ASliderOfAiToolkit) {
  auto slider = ai_toolkit(R"({"type": "concept_slider", "slider": {"target_class": "a person", "positive_prompt": "an old person",
      "negative_prompt": "a young person", "guidance_strength": 2.0, "anchor_class": "a dog", "anchor_strength": 0.5}})");
  EXPECT_EQ(slider.text("task"), "slider");
  EXPECT_EQ(slider.text("concept_latents"), "pictures") << "there it sees those of the dataset";
  EXPECT_EQ(slider.text("target_class"), "a person");
  EXPECT_EQ(slider.text("positive_prompt"), "an old person");
  EXPECT_EQ(slider.text("negative_prompt"), "a young person");
  EXPECT_EQ(slider.text("anchor_class"), "a dog");
  EXPECT_EQ(slider.number("guidance_strength"), 2);
  EXPECT_EQ(slider.number("anchor_strength"), 0.5);
}

TEST(Course, ASliderOfAiToolkitsTargets) {
  const auto one = ai_toolkit(R"({"type": "slider", "train": {"max_denoising_steps": 40}, "network": {"type": "lierla", "linear": 8},
      "slider": {"resolutions": [[768, 512]], "targets": [{"target_class": "a person", "positive": "an old person", "negative": "a young person"}]}})");
  EXPECT_EQ(one.text("task"), "slider");
  EXPECT_EQ(one.text("concept_latents"), "drawn");
  EXPECT_EQ(one.number("max_denoising_steps"), 40);
  EXPECT_EQ(one.number("min_timestep_boundary"), 0) << "these are steps of a drawing, and no times";
  EXPECT_EQ(one.number("denoising_cfg_scale"), 3);
  EXPECT_EQ(one.number("guidance_strength"), 1);
  EXPECT_EQ(one.text("lora_type"), "lora");
  EXPECT_EQ(one.number("lora_rank"), 8);
  EXPECT_THAT(one.said.not_carried, Not(Contains(HasSubstr("network.type"))));
  EXPECT_EQ(one.text("positive_prompt"), "an old person");
  EXPECT_EQ(Value::parse(one.options.at("resolution")), Value::array({"512,768"}));
  const auto several = Value::parse(R"({"config": {"process": [{"type": "slider", "slider": {"targets": [
      {"target_class": "a person", "positive": "an \"old\" person", "negative": "a young person", "weight": 2},
      {"positive": "a large dog", "negative": "a small dog", "multiplier": 2}]}}]}})");
  const auto arranged = foreign::ai_toolkit().arrange(several, [](const std::string&) { return Value(); });
  const auto file = foreign::parse_toml(arranged.option_files.at(0).tables, "concepts.toml");
  EXPECT_EQ(file, Value::parse(R"({"concepts": [
      {"target_class": "a person", "positive_prompt": "an \"old\" person", "negative_prompt": "a young person", "loss_weight": 2},
      {"target_class": "", "positive_prompt": "a large dog", "negative_prompt": "a small dog"}]})"));
  EXPECT_THAT(arranged.not_carried, Contains(HasSubstr("slider.targets.multiplier")));
}

TEST(Course, AiToolkitsSliderOfPicturesIsPlainTrainingOfBothEnds) {
  const auto pairs =
      ai_toolkit(R"({"type": "image_reference_slider_trainer", "network": {"type": "lora"}, "datasets": [{"folder_path": "unread"}],
      "train": {"max_denoising_steps": 1000, "steps": 500}, "slider": {"weight_jitter": 0.5, "datasets": [
      {"pos_folder": "long", "neg_folder": "short", "network_weight": 2, "target_class": "hair", "size": 768},
      {"pair_folder": "side-by-side"}]}})");
  EXPECT_EQ(pairs.text("task"), "sft");
  EXPECT_EQ(pairs.number("gradient_accumulation_steps"), 2) << "a batch for each end";
  EXPECT_EQ(pairs.number("max_steps"), 500);
  EXPECT_EQ(pairs.number("min_timestep_boundary"), 0);
  EXPECT_EQ(pairs.text("dataset_metadata_path"), "long");
  EXPECT_EQ(pairs.text("class_tokens"), "hair");
  EXPECT_EQ(pairs.number("max_pixels"), 768 * 768);
  EXPECT_THAT(pairs.said.not_carried, testing::ElementsAre(HasSubstr("slider.weight_jitter = 0.5: pictures of an end")))
      << "it is no other kind, and what holds both ends is told beforehand";
}

TEST(Course, AWordOfAiToolkits) {
  const auto word = [](const std::string& more) {
    return ai_toolkit(
        (R"({"type": "sd_trainer", "datasets": [{"folder_path": "x"}], "train": {"lr": 1e-4, "embedding_lr": 5e-4}, )" + more + "}")
            .c_str());
  };
  const auto alone = word(R"("embedding": {"trigger": "<cat>", "tokens": 3, "init_words": "a cat", "save_format": "pt"})");
  EXPECT_EQ(alone.text("embedding_token"), "<cat>");
  EXPECT_EQ(alone.text("trigger_word"), "<cat>") << "it stands in every caption";
  EXPECT_EQ(alone.number("embedding_length"), 3);
  EXPECT_EQ(alone.text("embedding_init"), "a cat * *") << "words that are too few go on with *";
  EXPECT_EQ(alone.text("trainable_models"), "");
  EXPECT_EQ(alone.text("lora_base_model"), "");
  EXPECT_EQ(alone.number("learning_rate"), 5e-4);
  EXPECT_EQ(alone.number("embedding_learning_rate"), 0);
  EXPECT_THAT(alone.said.not_carried, Contains("embedding.save_format = pt: files are safetensors"));
  const auto beside = word(R"("trigger_word": "sks", "network": {"type": "lora"}, "embedding": {})");
  EXPECT_EQ(beside.text("embedding_token"), "custom_embedding");
  EXPECT_EQ(beside.number("embedding_length"), 4);
  EXPECT_EQ(beside.text("embedding_init"), "*");
  EXPECT_EQ(beside.number("learning_rate"), 1e-4);
  EXPECT_EQ(beside.number("embedding_learning_rate"), 5e-4);
  EXPECT_NE(beside.text("lora_base_model"), "");
  EXPECT_EQ(beside.text("trigger_word"), "sks");
  const auto none = word(R"("network": {"type": "lora"})");
  EXPECT_EQ(none.text("embedding_token"), "");
  EXPECT_EQ(none.number("embedding_length"), 1);
  EXPECT_EQ(none.text("trigger_word"), "");
}

TEST(Course, OneTrainersWordBesideALora) {
  const auto one =
      onetrainer(R"({"additional_embeddings": [{"placeholder": "<cat>", "token_count": 3, "initial_embedding_text": "cat"}]})");
  EXPECT_EQ(one.text("embedding_token"), "<cat>");
  EXPECT_EQ(one.number("embedding_length"), 3);
  EXPECT_EQ(one.text("embedding_init"), "cat");
  EXPECT_EQ(one.options.at("embedding_bundle"), "true") << "by default";
  EXPECT_NE(one.text("lora_base_model"), "");
}

TEST(Course, OneTrainersWordsAreTablesOfAFile) {
  const char* const text = R"({"additional_embeddings": [{"placeholder": "<a>", "token_count": 3, "initial_embedding_text": "cat"},
      {"placeholder": "<b>", "is_output_embedding": true, "model_name": "/b.safetensors"}, {"placeholder": "<c>", "train": false},
      {"placeholder": "<d>", "stop_training_after_unit": "EPOCH"}],
      "preserve_embedding_norm": true, "embedding_learning_rate": 1e-3, "training_method": ")";
  for (const bool is_alone : {false, true}) {
    auto tree = Value::parse(std::string(text) + (is_alone ? "EMBEDDING\", \"embedding\": {\"placeholder\": \"<e>\"}}" : "LORA\"}"));
    const auto arranged = foreign::onetrainer().arrange(tree, [](const std::string&) { return Value(); });
    const auto& file = arranged.option_files.at(0);
    EXPECT_EQ(file.option, "embedding_config");
    auto expected = Value::parse(R"([
        {"embedding_token": "<a>", "embedding_length": 3, "embedding_init": "cat"},
        {"embedding_token": "<b>", "embedding_checkpoint": "/b.safetensors", "embedding_output": true},
        {"embedding_token": "<d>", "embedding_length": 1, "embedding_init": "*"}])");
    if (is_alone) expected.push_back(Value::parse(R"({"embedding_token": "<e>", "embedding_length": 1, "embedding_init": "*"})"));
    EXPECT_EQ(foreign::parse_toml(file.tables, "embeddings.toml").at("embeddings"), expected);
    EXPECT_THAT(arranged.not_carried, UnorderedElementsAre(HasSubstr("additional_embeddings[2].train = false"),
                                                           HasSubstr("additional_embeddings[3].stop_training_after")));
    const auto run = imported(foreign::onetrainer(), tree);
    EXPECT_EQ(run.text("embedding_token"), "") << "the file says it";
    EXPECT_EQ(run.options.at("embedding_keep_norm"), "true");
    EXPECT_EQ(run.number("embedding_learning_rate"), 1e-3);
    EXPECT_EQ(run.options.at("embedding_bundle"), is_alone ? "false" : "true");
  }
}

TEST(Course, AWordOfKohyas) {
  auto word = [](const char* more) {
    auto tree = Value::parse(R"({"script": "sdxl_train_textual_inversion.py", "pretrained_model_name_or_path": "x", "train_data_dir": "y",
        "token_string": "mychar", "init_word": "girl", "num_vectors_per_token": 4, "learning_rate": 1e-4, "mixed_precision": "bf16"})");
    tree.update(Value::parse(more));
    return imported(foreign::kohya(), tree);
  };
  const auto plain = word("{}");
  EXPECT_EQ(plain.text("embedding_token"), "mychar");
  EXPECT_EQ(plain.text("embedding_init"), "girl");
  EXPECT_EQ(plain.number("embedding_length"), 4);
  EXPECT_EQ(plain.text("trainable_models"), "") << "nothing but the word trains";
  EXPECT_EQ(plain.text("lora_base_model"), "");
  EXPECT_FALSE(plain.said.origins.contains("trained_weights"));
  EXPECT_EQ(plain.number("learning_rate"), 1e-4);
  const auto seen = word(R"({"use_style_template": true, "weights": "old.pt"})");
  EXPECT_EQ(seen.text("embedding_checkpoint"), "old.pt");
  EXPECT_EQ(seen.number("embedding_length"), 1) << "the file says it";
  EXPECT_THAT(seen.text("class_tokens"), testing::EndsWith("in the style of mychar"));
  EXPECT_EQ(seen.options.at("enable_wildcard"), "true");
  EXPECT_EQ(seen.text("caption_extension"), ".of-no-file");
  const auto window = imported(foreign::kohya(), Value::parse(R"({"max_resolution": "512,512", "token_string": "mychar", "sdxl": true,
      "template": "object template", "pretrained_model_name_or_path": "x"})"));
  EXPECT_EQ(window.text("embedding_token"), "mychar");
  EXPECT_THAT(window.text("class_tokens"), testing::StartsWith("a {photo|"));
}

TEST(Course, WhatHoldsAModelToWhatItWas) {
  auto held = ai_toolkit(R"({"trigger_word": "sks", "train": {"diff_output_preservation": true, "diff_output_preservation_class": "dog",
      "diff_output_preservation_multiplier": 0.5, "blank_prompt_preservation_multiplier": 2.0, "do_differential_guidance": true}})");
  EXPECT_EQ(held.options.at("diff_output_preservation"), "true");
  EXPECT_EQ(held.text("diff_output_preservation_class"), "dog");
  EXPECT_EQ(held.number("diff_output_preservation_multiplier"), 0.5);
  EXPECT_EQ(held.number("blank_prompt_preservation_multiplier"), 1) << "nothing asks for it";
  EXPECT_EQ(held.number("sft_loss_weight"), 3) << "differential guidance is a factor";
  auto kept = ai_toolkit(R"({"datasets": [{"folder_path": "/a"}, {"folder_path": "/b", "is_reg": true, "prior_reg": true}]})");
  EXPECT_EQ(kept.text("class_target"), "model");
  auto masked = onetrainer(R"({"masked_training": true, "masked_prior_preservation_weight": 0.7})");
  EXPECT_EQ(masked.number("masked_prior_preservation_weight"), 0.7);
  EXPECT_EQ(onetrainer(R"({"masked_prior_preservation_weight": 0.7})").number("masked_prior_preservation_weight"), 0);
  auto concepts = onetrainer(R"({"concepts": [{"path": "/a"}, {"path": "/b", "type": "PRIOR_PREDICTION"}]})");
  EXPECT_EQ(concepts.text("class_target"), "model");
  EXPECT_EQ(concepts.text("class_metadata_path"), "/b");
}

TEST(Course, LossesUnderGuidance) {
  auto range = ai_toolkit(R"({"train": {"do_guidance_loss": true, "guidance_loss_target": [1.5, 4], "guidance_loss_schedule": "sigma",
      "do_guidance_loss_cfg_zero": true}})");
  EXPECT_EQ(range.number("training_cfg_scale"), 1.5);
  EXPECT_EQ(range.number("training_cfg_scale_max"), 4);
  EXPECT_EQ(range.text("training_cfg_schedule"), "sigma");
  EXPECT_EQ(range.options.at("training_cfg_zero"), "true");
  EXPECT_EQ(range.text("training_cfg_loss"), "target");
  auto plain = ai_toolkit(R"({"train": {"do_guidance_loss": true}})");
  EXPECT_EQ(plain.number("training_cfg_scale"), 3);
  EXPECT_EQ(plain.number("training_cfg_scale_max"), 0);
  EXPECT_EQ(ai_toolkit(R"({"train": {"guidance_loss_target": 4}})").number("training_cfg_scale"), 1) << "nothing asks for it";
  auto adapter = ai_toolkit(R"({"model": {"assistant_lora_path": "someone/adapter/v2.safetensors"}})");
  EXPECT_THAT(adapter.said.different, Contains(HasSubstr("hf download someone/adapter v2.safetensors")));
}

TEST(ValuesThatAreLeftUnread, AreNeitherCarriedNorKeptSecret) {
  const auto expect_told = [](const Ours& ours, const char* option, const char* theirs) {
    EXPECT_EQ(ours.options.at(option), test::RunOptions().values().at(option)) << theirs;
    EXPECT_THAT(ours.said.not_carried,
                testing::Contains(testing::AllOf(testing::HasSubstr(theirs), testing::HasSubstr("is left unread there"))));
  };
  const auto flux = kohya(R"({"script": "flux_train_network.py", "min_snr_gamma": 5, "noise_offset": 0.1, "max_token_length": 225,
      "debiased_estimation_loss": true, "zero_terminal_snr": true, "v_parameterization": true, "clip_skip": 2})");
  for (const char* name : {"min_snr_gamma", "noise_offset", "max_token_length", "zero_terminal_snr", "clip_skip"})
    expect_told(flux, name, name);
  expect_told(flux, "prediction_type", "v_parameterization");
  EXPECT_EQ(flux.text("loss_weighting"), "uniform");
  EXPECT_THAT(flux.said.not_carried, testing::Contains(testing::HasSubstr("debiased_estimation_loss")));
  EXPECT_EQ(kohya(R"({"script": "sdxl_train_network.py", "min_snr_gamma": 5})").number("min_snr_gamma"), 5);
  expect_told(ai_toolkit(R"({"network": {"type": "lora"}, "model": {"arch": "flux"}, "train": {"min_snr_gamma": 5}})"), "min_snr_gamma",
              "train.min_snr_gamma");
  const auto pipe = imported(foreign::diffusion_pipe(), Value::parse(R"({"model": {"type": "flux", "min_snr_gamma": 5, "v_pred": true,
      "debiased_estimation_loss": true}, "optimizer": {"type": "adamw"}})"));
  expect_told(pipe, "min_snr_gamma", "model.min_snr_gamma");
  expect_told(pipe, "prediction_type", "model.v_pred");
  EXPECT_EQ(pipe.text("loss_weighting"), "uniform");
  expect_told(imported(foreign::musubi(), Value::parse(R"({"script": "wan_train_network.py", "network_module": "networks.lora_wan",
      "guidance_scale": 5})")),
              "embedded_guidance", "guidance_scale");
  const auto theirs = imported(foreign::onetrainer(), Value::parse(R"({"training_method": "LORA", "model_type": "FLUX_DEV_1",
      "loss_weight_fn": "MIN_SNR_GAMMA"})"));
  EXPECT_EQ(theirs.text("loss_weighting") + " " + theirs.options.at("min_snr_gamma"), "uniform 0.0");
  EXPECT_THAT(theirs.said.different, testing::Contains(testing::HasSubstr("loss_weight_fn = MIN_SNR_GAMMA: is left unread there")));
}

TEST(BlocksOfSdScripts, ArePatternsOfOurLayers) {
  const auto of = [](const char* blocks, const char* more = R"(, "network_train_unet_only": true)") {
    return kohya(
        (R"({"script": "flux_train_network.py", "network_args": {"train_blocks": ")" + std::string(blocks) + "\"}" + more + "}").c_str());
  };
  EXPECT_EQ(of("single").text("lora_target_modules"), "single_transformer_blocks\\.[0-9]+\\..*");
  EXPECT_EQ(of("double").text("lora_target_modules"), "transformer_blocks\\.[0-9]+\\..*");
  EXPECT_EQ(of("all").text("lora_target_modules"), "default");
  EXPECT_EQ(of("single", "").text("lora_target_modules"), "default") << "CLIP's layers are called otherwise";
  EXPECT_THAT(of("single", "").said.not_carried, testing::Contains(testing::HasSubstr("train_blocks = single: lora_target_modules says")));
}
