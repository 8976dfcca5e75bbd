// The commands of DiffSynth-Studio's examples/flux/model_training, with `burnish train` in front, on small models that lie where theirs do.
// Left out: what fetches data, repeats of the dataset, and epochs after the first.
#include <algorithm>

#include "tests/integration/families/flux_extras.h"
#include "tests/integration/refused.h"

namespace burnish::flux_commands_test {
using namespace burnish::test;

namespace {

const std::string kDev = "black-forest-labs/FLUX.1-dev:", kFill = "black-forest-labs/FLUX.1-Fill-dev:";
const std::string kLora =
    "--learning_rate 1e-4 --lora_base_model \"dit\" --lora_target_modules "
    "\"a_to_qkv,b_to_qkv,ff_a.0,ff_a.2,ff_b.0,ff_b.2,a_to_out,b_to_out,"
    "proj_out,norm.linear,norm1_a.linear,norm1_b.linear,to_qkv_mlp\" --lora_rank 32 --align_to_opensource_format ";

std::string encoders(const std::string& model) {
  return model + "text_encoder/model.safetensors," + model + "text_encoder_2/*.safetensors," + model + "ae.safetensors";
}
std::string whole(const std::string& components, const std::string& prefix) {
  return "--learning_rate 1e-5 --trainable_models \"" + components + "\" --remove_prefix_in_ckpt \"" + prefix + "\" ";
}

struct Command {
  std::string name, models, keys = {}, extra_inputs = {}, trained = {};
  std::string metadata = "metadata.csv";
};

/// A command that the examples have with a LoRA and in full: what trains in full, and the prefix that is taken out of its names.
void add(std::vector<Command>& all, Command command, const std::string& component = "dit", const std::string& prefix = "pipe.dit.") {
  auto name = command.name;
  command.name = "lora/" + name;
  command.trained = kLora + "--remove_prefix_in_ckpt \"pipe.dit.\" ";
  all.push_back(command);
  command.name = "full/" + name;
  command.trained = whole(component, prefix);
  all.push_back(command);
}

std::vector<Command> commands() {
  std::vector<Command> all;
  const auto dev = kDev + "flux1-dev.safetensors," + encoders(kDev);
  const auto fill = kFill + "flux1-fill-dev.safetensors," + encoders(kFill);
  const auto kontext = "black-forest-labs/FLUX.1-Kontext-dev:flux1-kontext-dev.safetensors," + encoders(kDev);
  const std::string redux =
      ",black-forest-labs/FLUX.1-Redux-dev:image_encoder/model.safetensors,"
      "black-forest-labs/FLUX.1-Redux-dev:image_embedder/diffusion_pytorch_model.safetensors";
  const std::string control = "pipe.controlnet.models.0.";
  add(all, {"FLUX.1-dev", dev});
  add(all, {"FLUX.1-Krea-dev", "black-forest-labs/FLUX.1-Krea-dev:flux1-krea-dev.safetensors," + encoders(kDev)});
  add(all, {"FLUX.1-Kontext-dev", kontext, "image,kontext_images", "kontext_images"});
  add(all, {"FLEX.2-preview", "ostris/Flex.2-preview:Flex.2-preview.safetensors," + encoders(kDev)});
  add(all, {"FLUX.1-Fill-dev", fill, "image,flux_fill_image,flux_fill_mask", "flux_fill_image,flux_fill_mask"});
  add(all, {"FLUX.1-Redux-dev", dev + redux, "image,flux_redux_image", "flux_redux_image"});
  add(all,
      {"FLUX.1-dev-Controlnet-Inpainting-Beta",
       dev + ",alimama-creative/FLUX.1-dev-Controlnet-Inpainting-Beta:diffusion_pytorch_model.safetensors",
       "image,controlnet_image,controlnet_inpaint_mask", "controlnet_image,controlnet_inpaint_mask"},
      "controlnet", control);
  add(all,
      {"FLUX.1-dev-Controlnet-Union-alpha", dev + ",InstantX/FLUX.1-dev-Controlnet-Union-alpha:diffusion_pytorch_model.safetensors",
       "image,controlnet_image", "controlnet_image,controlnet_processor_id"},
      "controlnet", control);
  add(all,
      {"FLUX.1-dev-Controlnet-Upscaler", dev + ",jasperai/Flux.1-dev-Controlnet-Upscaler:diffusion_pytorch_model.safetensors",
       "image,controlnet_image", "controlnet_image"},
      "controlnet", control);
  add(all,
      {"FLUX.1-dev-IP-Adapter", dev + ",InstantX/FLUX.1-dev-IP-Adapter:ip-adapter.bin,google/siglip-so400m-patch14-384:model.safetensors",
       "image,ipadapter_images", "ipadapter_images"},
      "ipadapter", "pipe.ipadapter.");
  add(all,
      {"FLUX.1-dev-AttriCtrl", dev + ",DiffSynth-Studio/AttriCtrl-FLUX.1-Dev:models/brightness.safetensors", "image",
       "value_controller_inputs"},
      "value_controller", "pipe.value_controller.encoders.0.");
  all.push_back({"full/FLUX.1-dev-LoRA-Encoder", dev + ",DiffSynth-Studio/LoRA-Encoder-FLUX.1-Dev:model.safetensors", "image",
                 "lora_encoder_inputs", whole("lora_encoder", "pipe.lora_encoder.")});
  all.push_back({"lora/FLUX.1-dev-EliGen", dev, "image,eligen_entity_masks", "eligen_entity_masks,eligen_entity_prompts",
                 kLora + "--remove_prefix_in_ckpt \"pipe.dit.\" ", "metadata.json"});
  add(all,
      {"FLUX.1-dev-InfiniteYou",
       dev + ",ByteDance/InfiniteYou:infu_flux_v1.0/aes_stage2/image_proj_model.bin,"
             "ByteDance/InfiniteYou:infu_flux_v1.0/aes_stage2/InfuseNetModel/*.safetensors",
       "image,controlnet_image,infinityou_id_image", "controlnet_image,infinityou_id_image,infinityou_guidance"},
      "controlnet,image_proj_model", "pipe.");
  add(all, {"Step1X-Edit",
            "Qwen/Qwen2.5-VL-7B-Instruct:model-*.safetensors,stepfun-ai/Step1X-Edit:step1x-edit-i1258.safetensors,"
            "stepfun-ai/Step1X-Edit:vae.safetensors",
            "image,step1x_reference_image", "step1x_reference_image"});
  const auto dit = whole("dit", "pipe.dit.");
  all.push_back({"special/npu_training/FLUX.1-dev-NPU", dev, "", "", dit});
  all.push_back({"special/npu_training/FLUX.1-Kontext-dev-NPU", kontext, "image,kontext_images", "kontext_images", dit});
  return all;
}

class FluxCommands : public BadInput {
 protected:
  FluxCommands() {
    put_model("black-forest-labs/FLUX.1-dev", "flux1-dev.safetensors");
    put_model("black-forest-labs/FLUX.1-Fill-dev", "flux1-fill-dev.safetensors");
    widen_transformer_file(at("models/black-forest-labs/FLUX.1-Fill-dev/flux1-fill-dev.safetensors"), "fill.safetensors");
    const auto transformer = kGolden / "model/transformer/diffusion_pytorch_model.safetensors";
    put(transformer, "black-forest-labs/FLUX.1-Krea-dev/flux1-krea-dev.safetensors");
    put(transformer, "black-forest-labs/FLUX.1-Kontext-dev/flux1-kontext-dev.safetensors");
    put(transformer, "ostris/Flex.2-preview/Flex.2-preview.safetensors");
    widen_transformer_file(at("models/ostris/Flex.2-preview/Flex.2-preview.safetensors"), "flex.safetensors");
    const auto siglip = kExtras / "siglip/model.safetensors";
    put(siglip, "black-forest-labs/FLUX.1-Redux-dev/image_encoder/model.safetensors");
    put(siglip, "google/siglip-so400m-patch14-384/model.safetensors");
    put(kExtras / "redux.safetensors", "black-forest-labs/FLUX.1-Redux-dev/image_embedder/diffusion_pytorch_model.safetensors");
    put(kExtras / "ipadapter.bin", "InstantX/FLUX.1-dev-IP-Adapter/ip-adapter.bin");
    put(kExtras / "value_controller.safetensors", "DiffSynth-Studio/AttriCtrl-FLUX.1-Dev/models/brightness.safetensors");
    put(kExtras / "lora_encoder.safetensors", "DiffSynth-Studio/LoRA-Encoder-FLUX.1-Dev/model.safetensors");
    put(kFaces / "image_proj_model.bin", "ByteDance/InfiniteYou/infu_flux_v1.0/aes_stage2/image_proj_model.bin");
    fs::create_directories(at("models/ByteDance/InfiniteYou/infu_flux_v1.0/aes_stage2/InfuseNetModel"));
    write_face_control_net(
        at("models/ByteDance/InfiniteYou/infu_flux_v1.0/aes_stage2/InfuseNetModel/diffusion_pytorch_model-00001-of-00001.safetensors"));
    put(kStep1x / "step1x.safetensors", "stepfun-ai/Step1X-Edit/step1x-edit-i1258.safetensors");
    put(kGolden / "model/vae/diffusion_pytorch_model.safetensors", "stepfun-ai/Step1X-Edit/vae.safetensors");
    put(kStep1x / "qwen/model.safetensors", "Qwen/Qwen2.5-VL-7B-Instruct/model-00001-of-00001.safetensors");
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
      put(kStep1x / "qwen" / name, "Qwen/Qwen2.5-VL-7B-Instruct/" + std::string(name));
    put_control_nets();
    put_data();
  }

  void put(const fs::path& file, const std::string& name) const {
    fs::create_directories((at("models") / name).parent_path());
    fs::copy(file, at("models") / name);
  }

  void put_model(const std::string& name, const std::string& transformer) const {
    put(kGolden / "model/transformer/diffusion_pytorch_model.safetensors", name + "/" + transformer);
    put(kGolden / "model/vae/diffusion_pytorch_model.safetensors", name + "/ae.safetensors");
    for (const char* folder : {"text_encoder", "text_encoder_2"}) fs::copy(kGolden / "model" / folder, at("models") / name / folder);
    for (const char* folder : {"tokenizer", "tokenizer_2"}) fs::copy(kAssets / folder, at("models") / name / folder);
  }

  /// Jasper's Upscaler is InstantX's without its kinds and single blocks.
  void put_control_nets() const {
    const std::string file = "diffusion_pytorch_model.safetensors";
    put(kExtras / "controlnet" / file, "InstantX/FLUX.1-dev-Controlnet-Union-alpha/" + file);
    put(kExtras / "inpaint" / file, "alimama-creative/FLUX.1-dev-Controlnet-Inpainting-Beta/" + file);
    io::NamedTensors tensors;
    auto all = io::SafetensorsFile::open(kExtras / "controlnet" / file);
    for (const auto& [name, info] : all->tensors()) {
      bool is_more = name.starts_with("controlnet_mode") || name.find("single") != name.npos;
      if (!is_more) tensors.emplace_back(name, all->tensor(name).clone());
    }
    fs::create_directories(at("models/jasperai/Flux.1-dev-Controlnet-Upscaler"));
    io::save_safetensors(at("models/jasperai/Flux.1-dev-Controlnet-Upscaler") / file, tensors);
  }

  /// The rows of kExtras as the examples have them: in csv, and in JSON where cells hold lists.
  void put_data() const {
    auto rows = nlohmann::json::parse(read_file(kExtras / "metadata.json"));
    std::vector<std::string> columns{"image",
                                     "prompt",
                                     "controlnet_image",
                                     "controlnet_inpaint_mask",
                                     "controlnet_processor_id",
                                     "flux_fill_image",
                                     "flux_fill_mask",
                                     "flux_redux_image",
                                     "value_controller_inputs",
                                     "ipadapter_images",
                                     "kontext_images",
                                     "lora_encoder_inputs",
                                     "infinityou_id_image",
                                     "infinityou_guidance",
                                     "step1x_reference_image"};
    std::string csv;
    for (const auto& column : columns) csv += (csv.empty() ? "" : ",") + column;
    for (auto& row : rows) {
      row["lora_encoder_inputs"] = (kExtras / row["lora_encoder_inputs"].get<std::string>()).string();
      row["kontext_images"] = "../references/a.png";
      row["infinityou_id_image"] = "../infinite_you/face_0.safetensors";
      row["infinityou_guidance"] = 1.0;
      row["step1x_reference_image"] = row["controlnet_image"];
      row["ipadapter_images"] = "../references/b.png";
      csv += "\n";
      for (const auto& column : columns) {
        auto cell = row[column].is_string() ? row[column].get<std::string>() : row[column].dump();
        csv += (column == "image" ? "" : ",") + ("\"" + cell + "\"");
      }
    }
    write("metadata.csv", csv + "\n");
    write("metadata.json", rows.dump());
  }
};

}  // namespace

TEST_F(FluxCommands, OfDiffSynthStudiosExamplesRun) {
  int number = 0;
  for (const auto& command : commands()) {
    SCOPED_TRACE(command.name);
    auto folder = at("out-" + std::to_string(number++));
    auto outcome = run_burnish("train --dataset_base_path " + quoted(kExtras) + " --dataset_metadata_path " + quoted(at(command.metadata)) +
                                   (command.keys.empty() ? "" : " --data_file_keys \"" + command.keys + "\"") +
                                   " --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths \"" + command.models +
                                   "\" --num_epochs 1 --output_path " + quoted(folder) + " " + command.trained +
                                   (command.extra_inputs.empty() ? "" : "--extra_inputs \"" + command.extra_inputs + "\" ") +
                                   "--use_gradient_checkpointing --num_threads 1",
                               "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    auto is_saved = [](const std::string& file) { return file.starts_with("step-4") && file.ends_with(".safetensors"); };
    bool trains_two = command.trained.find("controlnet,image_proj_model") != std::string::npos;
    EXPECT_EQ(std::ranges::count_if(files_below(folder), is_saved), trains_two ? 2 : 1) << outcome.output;
  }
  EXPECT_EQ(number, 30) << "of the 33";
}

}  // namespace burnish::flux_commands_test
