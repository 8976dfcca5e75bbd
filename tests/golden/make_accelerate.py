"""Files that `accelerate config` writes: DeepSpeed's stage 2 with offload as DiffSynth-Studio's examples have it, and FSDP."""

from pathlib import Path

from accelerate.commands.config.config_args import ClusterConfig

HERE = Path(__file__).parent / "accelerate"
COMMON = dict(compute_environment="LOCAL_MACHINE", mixed_precision="bf16", use_cpu=False, debug=False, num_processes=8)


def main():
    HERE.mkdir(exist_ok=True)
    deepspeed = dict(
        zero_stage=2,
        offload_optimizer_device="cpu",
        offload_param_device="cpu",
        gradient_accumulation_steps=1,
        zero3_init_flag=False,
    )
    ClusterConfig(distributed_type="DEEPSPEED", deepspeed_config=deepspeed, **COMMON).to_yaml_file(HERE / "zero2offload.yaml")
    fsdp = dict(
        fsdp_version=2,
        fsdp_reshard_after_forward=True,
        fsdp_offload_params=False,
        fsdp_activation_checkpointing=True,
        fsdp_auto_wrap_policy="TRANSFORMER_BASED_WRAP",
    )
    ClusterConfig(distributed_type="FSDP", fsdp_config=fsdp, **COMMON).to_yaml_file(HERE / "fsdp.yaml")


if __name__ == "__main__":
    main()
