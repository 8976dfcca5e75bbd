#include <fmt/core.h>

#include "foreign/program.h"

// Names: the file that `accelerate config` writes.
namespace burnish::foreign {

namespace of_accelerate {
namespace {

bool recognises(const Value& tree) { return tree.is_object() && tree.contains("distributed_type") && tree.contains("compute_environment"); }

/// What DeepSpeed's own file says, under the names that accelerate has for it; "auto" leaves a value to the script.
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

/// Nothing where DeepSpeed's file leaves a value to the script.
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

/// What DeepSpeed does unasked when accelerate starts it (Accelerator._prepare_deepspeed).
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

/// What changes nothing of what is learned.
void needless_rows(Table& table) {
  table << needless({"compute_environment",
                     {"debug", false},
                     {"machine_rank", 0},
                     "main_process_ip",
                     "main_process_port",
                     {"rdzv_backend", "static"},
                     {"same_network", false},
                     {"main_training_function", "main"},
                     {"enable_cpu_affinity", false},
                     "mpirun_config",
                     "mpirun_config.mpirun_hostfile",
                     "mpirun_config.mpirun_ccl",
                     {"downcast_bf16", false},
                     "tpu_name",
                     "tpu_zone",
                     {"tpu_use_cluster", false},
                     {"tpu_use_sudo", false},
                     "command_file",
                     "commands",
                     "tpu_vm",
                     "tpu_env",
                     "ec2_instance_type",
                     "iam_role_name",
                     "image_uri",
                     "profile",
                     "region",
                     "base_job_name",
                     "pytorch_version",
                     "transformers_version",
                     "py_version",
                     "sagemaker_inputs_file",
                     "sagemaker_metrics_file",
                     "additional_args",
                     "use_mps_device",
                     "ipex_config",
                     "ipex_config.ipex"},
                    "says where and how processes start");
  table << needless({"deepspeed_config", "deepspeed_config.deepspeed_config_file", "deepspeed_config.deepspeed_exclusion_filter",
                     "deepspeed_config.deepspeed_hostfile", "deepspeed_config.deepspeed_inclusion_filter",
                     "deepspeed_config.deepspeed_moe_layer_cls_names", "deepspeed_config.deepspeed_multinode_launcher",
                     "deepspeed_config.offload_optimizer_nvme_path", "deepspeed_config.offload_param_nvme_path",
                     "deepspeed_config.zero3_init_flag", "deepspeed_config.zero3_save_16bit_model"},
                    "says where DeepSpeed starts and how it reads and writes");
  table << needless({"fsdp_config", "fsdp_config.fsdp_auto_wrap_policy", "fsdp_config.fsdp_backward_prefetch",
                     "fsdp_config.fsdp_cpu_ram_efficient_loading", "fsdp_config.fsdp_forward_prefetch", "fsdp_config.fsdp_min_num_params",
                     "fsdp_config.fsdp_state_dict_type", "fsdp_config.fsdp_sync_module_states",
                     "fsdp_config.fsdp_transformer_layer_cls_to_wrap", "fsdp_config.fsdp_use_orig_params", "fsdp_config.fsdp_version"},
                    "says how FSDP cuts and gathers the same weights");
  table << needless({"parallelism_config"}, "its keys are told");
}

Table table() {
  Table table;
  table << words("mixed_precision", "dtype", {{"no", "fp32"}, {"false", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}},
                 "a dtype is fp32, bf16 or fp16; frozen weights are stored in FP8 with fp8_models");
  table << same("gradient_accumulation_steps", "gradient_accumulation_steps");
  auto steps = [](const Value& value, const Settings&) { return carried(value, "under accelerate the training script's own is ignored"); };
  table << rewritten("deepspeed_config.gradient_accumulation_steps", "gradient_accumulation_steps", unless_auto(steps));
  auto clipped = [](const Value& value, const Settings&) { return carried(value); };
  table << rewritten("deepspeed_config.gradient_clipping", "max_grad_norm", unless_auto(clipped));
  table << rewritten("use_cpu", "device",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried("cpu") : left_out(""); });
  table << rewritten("deepspeed_config.zero_stage", "zero_stage", unless_auto(stage_of_deepspeed));
  for (const char* name : {"fsdp_config.fsdp_sharding_strategy", "fsdp_config.fsdp_reshard_after_forward"})
    table << rewritten(name, "zero_stage", stage_of_fsdp);
  table << same("fsdp_config.fsdp_activation_checkpointing", "use_gradient_checkpointing");
  table << rewritten("deepspeed_config.offload_optimizer_device", "enable_optimizer_cpu_offload", offloaded);
  table << rewritten("deepspeed_config.offload_param_device", "", offloaded_weights);
  table << no_place({"fsdp_config.fsdp_offload_params"},
                    "enable_optimizer_cpu_offload has optimizer states wait in main memory, blocks_to_swap frozen blocks");
  table << rewritten("num_processes", "", launched) << rewritten("num_machines", "", on_machines);
  for (const char* name : {"sp_size", "cp_size"})
    table << rewritten(fmt::format("parallelism_config.parallelism_config_{}", name), "sequence_size", sequence_of);
  for (const char* name : {"dp_shard_size", "dp_replicate_size"})
    table << rewritten(fmt::format("parallelism_config.parallelism_config_{}", name), "", divided_in);
  table << no_place({"megatron_lm_config.*", "megatron_lm_config", {"parallelism_config.parallelism_config_tp_size", 1}},
                    "processes divide batches, tokens (sequence_size), and what zero_stage says");
  table << needless(
      {"parallelism_config.parallelism_config_cp_comm_strategy", "parallelism_config.parallelism_config_cp_backend",
       "parallelism_config.parallelism_config_sp_backend", "parallelism_config.parallelism_config_sp_seq_length",
       "parallelism_config.parallelism_config_sp_seq_length_is_variable", "parallelism_config.parallelism_config_sp_attn_implementation"},
      "says how tokens are shared out, which is one way here");
  table << no_place({"fp8_config.*", "fp8_config"}, "frozen weights are stored in FP8 with fp8_models, and multiplied so with fp8_compute");
  table << no_place({"gpu_ids"}, "the environment variable CUDA_VISIBLE_DEVICES chooses among GPUs")
        << no_place({"dynamo_config.*", "dynamo_config"}, "nothing is compiled when a run starts");
  table << rewritten("distributed_type", "", of_kind);
  needless_rows(table);
  return table;
}

}  // namespace
}  // namespace of_accelerate

Program accelerate() {
  using namespace of_accelerate;
  return {"accelerate", "accelerate", recognises, arrange, table};
}

}  // namespace burnish::foreign
