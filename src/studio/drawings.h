#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "studio/files.h"
#include "studio/queue.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Pictures for every combination of what is listed: drawings/NAME holds grid.json (what was asked for, and which picture has which
/// values), prompts.txt (a line for each picture, docs/sample.md) and the pictures as `burnish sample` writes them. One drawing is worked
/// on at a time, by a process that loads its model once.
class Drawings {
 public:
  /// Both must outlive it. Goes on with drawings that wait.
  Drawings(const Workspace& workspace, Files& files, const std::string& program, CheckSettings check = {});

  /// [{"name", "of_run": whose model draws, or "", "state", "exit_code", "done", "total", "says", "written"}], the newest first: pictures
  /// that are there, and what the program said at last.
  nlohmann::json list();
  /// What list() says of one, with its grid.json, and "pictures": the names of those that are there, by their numbers.
  nlohmann::json describe(const std::filesystem::path& drawing) const;

  /// Begins one: {"name", "settings": further options of sample as TOML, "run" or "" , "loras": [{"place", "name", "strength"}], "apart":
  /// whether each LoRA is drawn by itself, "negative_prompt", and lists "prompts", "seeds", "sizes" ([width, height]), "steps",
  /// "guidance", "strengths" (by which those of the LoRAs are multiplied)}. A list that is empty leaves its value to sample. A LoRA may
  /// have "layers", factors on its strength for some of its layers (docs/adapters.md), and "without_blocks" has everything drawn once more
  /// without each of so many groups of the blocks of the only LoRA. A config Error for what is not there, and for too many pictures.
  Job draw(const nlohmann::json& wish);
  /// Ends a drawing that goes on, with the pictures that are finished, or takes one that waits out of the queue. False for others.
  bool stop(const std::string& name);
  /// Takes its job out of the queue. False while it goes on.
  bool forget(const std::string& name);

  /// The file of a picture; nothing for what is no picture's name.
  static std::optional<std::filesystem::path> find_picture(const std::filesystem::path& drawing, const std::string& file);

 private:
  nlohmann::json standing(const std::filesystem::path& drawing) const;
  /// Says how many pictures a grid.json asks for, and of which run, as long as it stays as it was.
  struct KnownGrid {
    double time = 0;
    int64_t total = 0;
    std::string run = {};
  };
  KnownGrid known_of(const std::filesystem::path& drawing);

  const Workspace& workspace_;
  Files& files_;
  CheckSettings check_;
  Queue queue_;
  std::mutex mutex_;
  std::map<std::string, KnownGrid> known_;
};

}  // namespace burnish::studio
