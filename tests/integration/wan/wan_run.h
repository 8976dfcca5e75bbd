#pragma once
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/wan/wan.h"

// Runs of small models of Wan that read further columns.
namespace burnish::test {

/// What hears by a golden folder, without the last of its three layers, in another.
inline fs::path of_two_layers(const fs::path& hearing, const fs::path& folder) {
  fs::copy(hearing, folder, fs::copy_options::recursive);
  auto weights = io::TensorSource::open({hearing / "model.safetensors"});
  io::NamedTensors fewer;
  for (const auto& name : weights.names()) {
    if (name.find("encoder.layers.2.") == name.npos) fewer.emplace_back(name, weights.tensor(name).clone());
  }
  io::save_safetensors(folder / "model.safetensors", fewer);
  auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  config["num_hidden_layers"] = 2;
  std::ofstream(folder / "config.json") << config.dump();
  return folder;
}

class WanRun : public BadInput {
 protected:
  std::string ok(const std::string& arguments) const {
    auto out = run_burnish(arguments);
    EXPECT_EQ(out.exit_code, 0) << arguments << "\n" << out.output;
    return out.output;
  }
  /// Four steps by the draws of `replay` have the losses and gradient norms `name` of `golden`; `options` say the model and the data.
  void expect_replayed(const fs::path& golden, const fs::path& replay, const std::string& name, const std::string& options) const {
    ok("train --max_steps 4 --learning_rate 1e-3 --loss_weighting uniform " + option("replay", replay) +
       option("output_path", at("replayed")) + options);
    auto log = read_log(at("replayed"));
    expect_logged(log, "loss", expected_in(golden).tensor(name + ".loss"), 2e-6);
    expect_logged(log, "grad_norm", expected_in(golden).tensor(name + ".grad_norm"), 1e-4);
  }
  /// The bytes of an adapter after three steps; "" where something else trained.
  std::string trained(const std::string& name, const std::string& more) const {
    ok("train --max_steps 3 --learning_rate 1e-3 " + option("output_path", at(name)) + more);
    return fs::exists(at(name) / "step-3.safetensors") ? read_file(at(name) / "step-3.safetensors") : "";
  }
  /// A GIF whose frames are each seen for so many hundredths of a second, and the last one so long.
  fs::path paced(const fs::path& clip, const std::string& name, char delay, char of_last) const {
    auto bytes = read_file(clip);
    const std::string_view mark("\x21\xF9\x04", 3);
    for (auto place = bytes.find(mark); place != bytes.npos; place = bytes.find(mark, place + 1)) bytes[place + 4] = delay;
    bytes[bytes.rfind(mark) + 4] = of_last;
    return write(name, bytes);
  }
  /// A clip of ten frames a second that plays at the sixteen of what is drawn, as well as hundredths of a second allow.
  fs::path faster(const fs::path& clip, const std::string& name) const { return paced(clip, name, 6, 8); }
  /// What `sample` draws of the golden noise, before it is decoded. `options` say the model and what it is given.
  at::Tensor latents_of(const fs::path& noise_in, const std::string& options) const {
    ok(drawing_of(noise_in, options));
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  }
  std::string drawing_of(const fs::path& noise_in, const std::string& options) const {
    io::save_safetensors(at("noise.safetensors"), {{"noise", expected_in(noise_in).tensor("noise").clone()}});
    return "sample --prompt 'red apple' --height 48 --width 64 --num_frames 5 --num_inference_steps 4 " +
           option("noise", at("noise.safetensors")) + option("save_latents", at("latents.safetensors")) +
           option("output_path", at("drawn")) + options;
  }
};

}  // namespace burnish::test
