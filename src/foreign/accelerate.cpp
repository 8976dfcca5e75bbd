#include <fmt/core.h>

#include "foreign/program.h"
#include "foreign/row_files.h"

// Names: the file that `accelerate config` writes.
namespace burnish::foreign {

namespace of_accelerate {
namespace {

bool recognises(const Value& tree) { return tree.is_object() && tree.contains("distributed_type") && tree.contains("compute_environment"); }

/// Reads DeepSpeed's own file under the names that accelerate has for it; "auto" leaves a value to the script.
Value of_deepspeed_file(const Value& file) {
  const std::pair<const char*, const char*> names[] = {{"/zero_optimization/stage", "zero_stage"},
                                                       {"/zero_optimization/offload_optimizer/device", "offload_optimizer_device"},
                                                       {"/zero_optimization/offload_param/device", "offload_param_device"},
                                                       {"/gradient_accumulation_steps", "gradient_accumulation_steps"},
                                                       {"/gradient_clipping", "gradient_clipping"}};
  auto values = Value::object();
  for (const auto& [theirs, name] : names) {
    auto at = Value::json_pointer(theirs);
    if (file.contains(at)) values[name] = file.at(at);
  }
  return values;
}

Arranged arrange(Value tree, const Open& open) {
  Arranged arranged{.tree = std::move(tree), .whole = false};
  auto at = Value::json_pointer("/deepspeed_config/deepspeed_config_file");
  if (!arranged.tree.contains(at)) return arranged;
  auto name = text_of(arranged.tree.at(at));
  auto file = open(name);
  auto& deepspeed = arranged.tree["deepspeed_config"];
  if (file.is_null()) arranged.not_carried.push_back("deepspeed_config.deepspeed_config_file = " + name + ": the file is not there");
  else deepspeed.update(of_deepspeed_file(file));
  return arranged;
}

/// Converts a value unless DeepSpeed's file leaves it to the script.
Convert unless_auto(const Convert& convert) {
  return [convert](const Value& value, const Settings& all) { return text_of(value) == "auto" ? left_out("") : convert(value, all); };
}

Outcome stage_of_deepspeed(const Value& value, const Settings&) { return carried(static_cast<int64_t>(number_of(value).value_or(0))); }

/// FSDP's first version has words for it, the second a truth value.
Outcome stage_of_fsdp(const Value& value, const Settings&) {
  auto word = lower(text_of(value));
  if (word == "no_shard" || word == "3") return carried(int64_t{0});
  bool is_hybrid = word.starts_with("hybrid_shard") || word == "4" || word == "5";
  bool keeps_weights = word == "shard_grad_op" || word == "hybrid_shard_zero2" || word == "2" || word == "5" || word == "false";
  return carried(int64_t{keeps_weights ? 2 : 3}, is_hybrid ? "among the processes of a machine: shard_size says how many these are" : "");
}

Outcome offloaded(const Value& value, const Settings&) {
  return asks_for_something(value) ? carried(true, value == "nvme" ? "states wait in main memory" : "") : left_out("");
}

Outcome offloaded_weights(const Value& value, const Settings& all) {
  if (!asks_for_something(value)) return left_out("");
  bool is_ignored = all.number("deepspeed_config.zero_stage").value_or(0) < 3;
  return left_out(std::string(is_ignored ? "DeepSpeed ignores it below stage 3; " : "") +
                  "frozen blocks wait in main memory with blocks_to_swap");
}

/// Tells what DeepSpeed does unasked when accelerate starts it (Accelerator._prepare_deepspeed).
Outcome of_kind(const Value& value, const Settings& all) {
  bool clips = value == "DEEPSPEED" && !all.has("deepspeed_config.gradient_clipping");
  return left_out(clips ? "DeepSpeed clips gradients at a norm of 1 where nothing is said; max_grad_norm 1 does" : "");
}

/// Context and sequence parallelism both share the tokens of a sample out, over rings or by changing heads for tokens.
Outcome sequence_of(const Value& value, const Settings&) {
  auto size = static_cast<int64_t>(number_of(value).value_or(1));
  return size > 1 ? carried(size, "heads and tokens change places, as in Ulysses") : left_out("");
}

Outcome divided_in(const Value& value, const Settings&) {
  return left_out(number_of(value).value_or(1) > 1 ? "shard_size says among how many neighbours zero_stage divides" : "");
}

Outcome launched(const Value& value, const Settings&) {
  auto count = number_of(value).value_or(1);
  return left_out(count > 1 ? fmt::format("who starts the processes says how many: burnish launch -n {:.0f} -- train", count) : "");
}

Outcome on_machines(const Value& value, const Settings&) {
  return left_out(number_of(value).value_or(1) > 1 ? "on several machines torchrun, srun or mpirun starts burnish train" : "");
}

Table table() {
  Table table;
  table << rows_in("accelerate");
  auto steps = [](const Value& value, const Settings&) { return carried(value, "under accelerate the training script's own is ignored"); };
  table << rewritten("deepspeed_config.gradient_accumulation_steps", "gradient_accumulation_steps", unless_auto(steps));
  auto clipped = [](const Value& value, const Settings&) { return carried(value); };
  table << rewritten("deepspeed_config.gradient_clipping", "max_grad_norm", unless_auto(clipped));
  table << rewritten("deepspeed_config.zero_stage", "zero_stage", unless_auto(stage_of_deepspeed));
  for (const char* name : {"fsdp_config.fsdp_sharding_strategy", "fsdp_config.fsdp_reshard_after_forward"})
    table << rewritten(name, "zero_stage", stage_of_fsdp);
  table << rewritten("deepspeed_config.offload_optimizer_device", "enable_optimizer_cpu_offload", offloaded);
  table << rewritten("deepspeed_config.offload_param_device", "", offloaded_weights);
  table << rewritten("num_processes", "", launched) << rewritten("num_machines", "", on_machines);
  for (const char* name : {"sp_size", "cp_size"})
    table << rewritten(fmt::format("parallelism_config.parallelism_config_{}", name), "sequence_size", sequence_of);
  for (const char* name : {"dp_shard_size", "dp_replicate_size"})
    table << rewritten(fmt::format("parallelism_config.parallelism_config_{}", name), "", divided_in);
  table << rewritten("distributed_type", "", of_kind);
  return table;
}

}  // namespace
}  // namespace of_accelerate

Program accelerate() {
  using namespace of_accelerate;
  return {"accelerate", "accelerate", recognises, arrange, table};
}

}  // namespace burnish::foreign
