#include <fmt/core.h>

#include "foreign/program.h"

// Names: the file that `accelerate config` writes.
namespace burnish::foreign {

namespace of_accelerate {
namespace {

bool recognises(const Value& tree) { return tree.is_object() && tree.contains("distributed_type") && tree.contains("compute_environment"); }

Arranged arrange(Value tree, const Open&) { return {.tree = std::move(tree), .whole = false}; }

Table table() {
  Table table;
  table << words("mixed_precision", "dtype", {{"no", "fp32"}, {"false", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}},
                 "a dtype is fp32, bf16 or fp16; frozen weights are stored in FP8 with fp8_models");
  table << same("gradient_accumulation_steps", "gradient_accumulation_steps");
  table << same("deepspeed_config.gradient_accumulation_steps", "gradient_accumulation_steps");
  table << same("deepspeed_config.gradient_clipping", "max_grad_norm");
  table << rewritten("use_cpu", "device",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried("cpu") : left_out(""); });
  table << rewritten("deepspeed_config.zero_stage", "zero_stage", [](const Value& value, const Settings&) {
    auto stage = static_cast<int64_t>(number_of(value).value_or(0));
    return stage < 3 ? carried(stage) : carried(int64_t{2}, "weights are not divided among processes, so this is stage 2");
  });
  table << rewritten("deepspeed_config.offload_optimizer_device", "enable_optimizer_cpu_offload", [](const Value& value, const Settings&) {
    return asks_for_something(value) && value != "none" ? carried(true) : left_out("");
  });
  auto launched = [](const Value& value, const Settings&) {
    auto count = number_of(value).value_or(1);
    return left_out(count > 1 ? fmt::format("who starts the processes says how many: burnish launch -n {:.0f} -- train", count) : "");
  };
  auto more_than_one = [](const Value& value, const Settings&) {
    return left_out(number_of(value).value_or(1) > 1 ? "on several machines torchrun, srun or mpirun starts burnish train" : "");
  };
  table << rewritten("num_processes", "", launched) << rewritten("num_machines", "", more_than_one);
  table << no_place({"deepspeed_config.offload_param_device"}, "frozen blocks wait in main memory with blocks_to_swap");
  table << no_place({"fsdp_config.*", "megatron_lm_config.*", "parallelism_config.*"},
                    "zero_stage 1 and 2 divide states and gradients among processes; weights are not divided");
  table << looked_at({"distributed_type"}) << needless({"deepspeed_config.*"});
  table << needless({"*"});
  return table;
}

}  // namespace
}  // namespace of_accelerate

Program accelerate() {
  using namespace of_accelerate;
  return {"accelerate", "accelerate", recognises, arrange, table};
}

}  // namespace burnish::foreign
