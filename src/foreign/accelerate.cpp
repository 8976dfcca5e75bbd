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
  auto more_than_one = [](const Value& value, const Settings&) {
    return left_out(number_of(value).value_or(1) > 1 ? "one process trains" : "");
  };
  table << rewritten("num_processes", "", more_than_one) << rewritten("num_machines", "", more_than_one);
  table << no_place({"distributed_type", "deepspeed_config.*", "fsdp_config.*", "megatron_lm_config.*", "parallelism_config.*"},
                    "one process trains, and nothing is sharded");
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
