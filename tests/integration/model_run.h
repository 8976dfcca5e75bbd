#pragma once
#include "tests/golden.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

// Runs of one small model in the whole program, and its adapter under other programs' names.
namespace burnish::test {

class ModelRun : public BadInput {
 protected:
  /// `size` is that of its pictures.
  explicit ModelRun(std::string model, std::string size = "--height 48 --width 64 ") : model_(std::move(model)), size_(std::move(size)) {}
  std::string train_command(const std::string& name, const std::string& options) const {
    return "train " + model_ + "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " " + size_ +
           "--learning_rate 1e-3 --max_steps 3 " + options + " --output_path " + quoted(at(name));
  }
  std::string train(const std::string& name, const std::string& options) const { return run_ok(train_command(name, options)); }
  std::vector<double> of_log(const std::string& name, const char* key) const {
    std::vector<double> values;
    for (auto& line : read_log(at(name))) values.push_back(line[key]);
    return values;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const char* key : {"loss", "grad_norm"}) EXPECT_EQ(of_log(a, key), of_log(b, key));
    EXPECT_EQ(read_file(at(a) / "step-3.safetensors"), read_file(at(b) / "step-3.safetensors"));
  }
  /// Runs that train so give the same losses with four captions of unequal length in a batch and with one after the other.
  void expect_captions_batched(const std::vector<std::string>& runs) const {
    const std::string long_one =
        "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";
    std::string rows = "image,prompt\n";
    for (int i = 0; i < 4; ++i)
      rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? long_one : "cat") + "\n";
    const auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " ";
    for (const auto& options : runs) {
      train("together", data + options + "--overwrite --batch_size 4");
      train("apart", data + options + "--overwrite --gradient_accumulation_steps 4");
      const auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
      ASSERT_EQ(together.size(), 3u);
      for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
    }
  }
  at::Tensor latents(const std::string& model, const std::string& options) const {
    auto file = at("latents.safetensors");
    run_ok("sample " + model + size_ + "--prompt 'red apple' --seed 3 --num_inference_steps 2 --save_latents " + quoted(file) +
           " --output_path " + quoted(at("pictures")) + " " + options);
    return io::SafetensorsFile::open(file)->tensor("latents").clone();
  }

 private:
  std::string model_, size_;
};

/// An adapter file of diffusers' names, which begin with "transformer.", under others: of each layer's lower or upper half, what `rename`
/// makes of its path.
inline void rename_lora(const fs::path& from, const fs::path& to,
                        const std::function<std::string(const std::string& layer, bool down)>& rename) {
  auto source = io::TensorSource::open({from.string()});
  io::NamedTensors renamed;
  const std::string prefix = "transformer.", down = ".lora_A.weight", up = ".lora_B.weight", alpha = ".alpha";
  for (const auto& name : source.names()) {
    auto layer = name.substr(prefix.size());
    auto cut = [&](const std::string& ending) { return layer.substr(0, layer.size() - ending.size()); };
    if (layer.ends_with(down)) {
      renamed.emplace_back(rename(cut(down), true), source.tensor(name));
    } else if (layer.ends_with(up)) {
      renamed.emplace_back(rename(cut(up), false), source.tensor(name));
    } else {
      auto half = rename(cut(alpha), true);
      renamed.emplace_back(half.substr(0, half.rfind(".lora")) + alpha, source.tensor(name));
    }
  }
  io::save_safetensors(to, renamed);
}

}  // namespace burnish::test
