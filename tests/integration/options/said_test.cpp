// What is said of files, variables and words that are not what was meant.
#include <gmock/gmock.h>

#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;

using Said = BadInput;

namespace {

bool says(const Outcome& outcome, const std::string& words) { return outcome.output.find(words) != std::string::npos; }

}  // namespace

TEST_F(Said, OfARunByInspect) {
  ASSERT_EQ(run_burnish(train("--save_steps 1")).exit_code, 0);
  auto state = run_burnish("inspect " + quoted(out() / "state/state.safetensors"));
  EXPECT_EQ(state.exit_code, 0) << state.output;
  EXPECT_TRUE(says(state, "state of a burnish run at step 2")) << state.output;
  auto run = run_burnish("inspect " + quoted(out()));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  for (const char* words : {"step-1.safetensors\n", "step-2.safetensors\n", "lora of rank 4"}) EXPECT_TRUE(says(run, words)) << run.output;
  auto good = quoted(out() / "step-1.safetensors"), bad = quoted(write("bad.safetensors", "nothing"));
  auto both = run_burnish("inspect " + bad + " " + good);
  EXPECT_EQ(both.exit_code, 3) << both.output;
  EXPECT_TRUE(says(both, "lora of rank 4")) << both.output;
  EXPECT_NE(both.output.find("bad.safetensors", both.output.find("lora of rank 4")), std::string::npos) << both.output;
}

TEST_F(Said, OfALoraThatIsNotFinite) {
  ASSERT_EQ(run_burnish(train("")).exit_code, 0);
  auto lora = at("lora.safetensors");
  auto file = io::SafetensorsFile::open(out() / "step-2.safetensors");
  io::NamedTensors tensors;
  std::string damaged;
  for (const auto& [name, info] : file->tensors()) {
    tensors.emplace_back(name, file->tensor(name).clone());
    if (damaged.empty() && name.ends_with("lora_A.weight")) tensors.back().second.flatten()[3] = NAN, damaged = name;
  }
  io::save_safetensors(lora, tensors, file->metadata());
  fs::remove_all(out());
  for (const auto& arguments : {train("--lora_checkpoint " + quoted(lora)), sample("--lora " + quoted(lora))})
    refused(3, arguments, {"lora.safetensors: '" + damaged + "' holds values that are not finite"});
}

TEST_F(Said, OfGroupsAndFormatsBeforeAnythingIsEncoded) {
  refused(2, train("--lr_groups nope=1e-4"), {"lr_groups", "nope"});
  refused(2, train("--weight_decay_groups nope=0"), {"weight_decay_groups", "nope"});
  refused(2, train("--lora_type loha --loraplus_lr_ratio 16"), {"loraplus_lr_ratio", "no LoRA trains"});
  refused(2, train("--lora_target_modules to_q,to_k --lora_type lokr --lora_format kohya"), {"cannot be stacked"});
  auto good = run_burnish(train("--lr_groups .*lora_B.*=1e-3 --weight_decay_groups dit=0 --lora_format kohya"));
  EXPECT_EQ(good.exit_code, 0) << good.output;
}

TEST_F(Said, OfAdaptersThatStillHoldZeros) {
  const std::string zeros = "tensors still hold zeros (";
  auto idle = run_burnish(train("--lr_groups .*to_q.*=1e-60"));  // below what fp32 tells from 0
  EXPECT_EQ(idle.exit_code, 0) << idle.output;
  EXPECT_THAT(idle.output, testing::HasSubstr(zeros));
  EXPECT_EQ(idle.output.find(zeros), idle.output.rfind(zeros)) << "once";
  for (const std::string kind : {"lora", "loha", "lokr", "oft", "full"}) {
    fs::remove_all(out());
    run_burnish(train("--lr_groups .*=1e-60 --lora_type " + kind));
    const auto file = out() / "step-2.safetensors";
    EXPECT_THAT(run_burnish(sample("--lora " + quoted(file))).output, testing::HasSubstr("adapters hold zeros, and leave their layers"))
        << kind;
    EXPECT_THAT(run_burnish("inspect " + quoted(file)).output, testing::HasSubstr("tensors hold zeros: what they are of was not trained"))
        << kind;
  }
  fs::remove_all(out());
  EXPECT_THAT(run_burnish(train("")).output, testing::Not(testing::HasSubstr(zeros)));
}

TEST_F(Said, OfModels) {
  fs::copy(kGolden / "model", at("model"), fs::copy_options::recursive);
  auto with_model = [&] { return train_with("--model " + quoted(at("model")) + " " + tokenizers() + golden_data(), "--max_steps 1"); };
  auto config = at("model/transformer/config.json");
  auto text = read_file(config);
  auto changed = nlohmann::json::parse(text);
  changed["num_layers"] = 7;
  write("model/transformer/config.json", changed.dump());
  refused(3, with_model(), {"model/transformer: config.json says num_layers = 7"});
  write("model/transformer/config.json", text);
  auto scheduler = at("model/scheduler/scheduler_config.json");
  auto before = read_file(scheduler);
  write("model/scheduler/scheduler_config.json", "{\"_class_name\": \"Other\"}");
  refused(3, with_model(), {"model/scheduler: scheduler_config.json: expected FlowMatchEulerDiscreteScheduler"});
  write("model/scheduler/scheduler_config.json", before);
  fs::remove(config);
  auto inspected = run_burnish("inspect " + quoted(at("model")));
  EXPECT_TRUE(says(inspected, "transformer (")) << inspected.output;
  auto mistyped = run_burnish(train_with("--model md/nothere " + tokenizers() + golden_data(), ""), "HF_HUB_OFFLINE=1 BURNISH_LOG=error");
  expect_one_error(mistyped, 3, {"'md/nothere' is not whole on this machine", "nor is it a path that exists here", "HF_HUB_OFFLINE"});
}

TEST_F(Said, OfTheEnvironment) {
  for (const std::string variable : {"HF_HUB_DOWNLOAD_TIMEOUT=x", "DIFFSYNTH_DOWNLOAD_SOURCE=x", "HF_ENDPOINT=ftp://x"}) {
    SCOPED_TRACE(variable);
    auto outcome = run_burnish("doctor --quick", variable);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_TRUE(says(outcome, "note: " + variable.substr(0, variable.find('=')) + " must be ")) << outcome.output;
    EXPECT_TRUE(says(outcome, "this folder")) << outcome.output;
  }
  auto outcome = run_burnish("inspect " + quoted(kGolden / "model"), "BURNISH_LOG=foo");
  EXPECT_TRUE(says(outcome, "BURNISH_LOG must be trace, debug, info, warning, error, critical or off, not 'foo'")) << outcome.output;
}

TEST_F(Said, BySampleOfItself) {
  refused(2, sample("--height -1"), {"[sample] height must be at least 1"});
  refused(2, sample("a cat"), {"'a' belongs to no option", "quotes"});
  auto outcome = run_burnish(sample(""));
  EXPECT_TRUE(says(outcome, "1 picture in ")) << outcome.output;
}

TEST_F(Said, ByHelpOfAVerb) {
  auto outcome = run_burnish("help sample");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, run_burnish("sample --help").output);
  EXPECT_EQ(run_burnish("help nosuch").exit_code, 2);
}
