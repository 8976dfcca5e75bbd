#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "studio/annotations.h"
#include "studio/claim.h"
#include "studio/datasets.h"
#include "studio/demo.h"
#include "studio/drawings.h"
#include "studio/fetches.h"
#include "studio/files.h"
#include "studio/guard.h"
#include "studio/looks.h"
#include "studio/machine.h"
#include "studio/program.h"
#include "studio/queue.h"
#include "studio/runs.h"
#include "studio/thumbnails.h"
#include "studio/workspace.h"

namespace burnish::studio {

class Routes;

struct Options {
  std::filesystem::path folder;
  std::string address = "127.0.0.1";
  int64_t port = 0;
  Access access = {};
  std::string program = {};  ///< path of burnish, which is started for jobs and plans
  std::string schema = {};   ///< the options of train, as config::to_json writes them
  /// What a text of settings says, before a file is opened: {"values": {option: value}, "problems": [{"option", "sentence"}], "idle":
  /// [{"option", "belongs_to"}]}.
  std::function<nlohmann::json(const std::string& settings)> form = {};
  /// What is wrong with settings of a verb, before a file is opened, and of those that say where to write whether that is within the
  /// workspace: [{"option", "sentence"}]. None: nothing is checked.
  std::function<nlohmann::json(const std::string& verb, const std::string& settings)> problems = {};
  std::filesystem::path recipes = {};  ///< folder of settings to begin with
  std::filesystem::path demo = {};     ///< folder of what comes with the program to try it with (demo.h)
  std::string webhook = {};            ///< address that is told when a run starts, saves and ends; "": none but those of settings
  bool trusts_settings = false;        ///< whether settings may name commands to run (config::Row::acts_outside)
};

/// Says where a studio works; one at a time.
struct StudioFolder {
  Options options;
  Workspace workspace;
  Claim claim;

  /// Takes the workspace, and removes what a studio that was killed left half-written in it.
  StudioFolder(Options given, int port);

  /// Throws a Refusal with what is wrong with settings of a verb.
  void check(const std::string& verb, const std::string& settings) const;
  /// Returns that check for the jobs of a queue; "": the verb is the first word of a job's name.
  CheckSettings check_of(const std::string& verb) const;
};

/// Holds what it knows of the pictures of datasets.
struct Pictures {
  Datasets datasets;
  Thumbnails thumbnails;
  Looks looks;

  explicit Pictures(const Workspace& workspace)
      : datasets(workspace), thumbnails(workspace.root() / ".thumbnails"), looks(workspace.root() / ".thumbnails", thumbnails) {}
};

/// Holds what the routes of a studio work with.
struct Studio : StudioFolder, Pictures {
  Queue queue;
  Runs runs;
  Files files;
  Drawings drawings;
  Annotations annotations;
  Program program;
  Fetches fetches;
  Machine machine;
  Guard guard;

  /// Opens the workspace; its queues go on.
  Studio(Options given, int port)
      : StudioFolder(std::move(given), port),
        Pictures(workspace),
        queue(training(workspace, options.program, options.trusts_settings, check_of("train"), options.webhook)),
        runs(workspace, queue, options.program),
        files(workspace, options.program, check_of("convert")),
        drawings(workspace, files, options.program, check_of("sample")),
        annotations(workspace, options.program, check_of("")),
        program(workspace, options.program, options.trusts_settings),
        fetches(workspace, options.program),
        machine(workspace, queue, program),
        guard(workspace.root() / ".token", port, options.access) {}
};

// Each answers for a part of the interface (docs/studio-api.md). The studio must outlive the routes.
void add_run_routes(Routes& routes, Studio& studio);
void add_queue_routes(Routes& routes, Studio& studio);
void add_bin_routes(Routes& routes, Studio& studio);
void add_form_routes(Routes& routes, Studio& studio);
void add_first_run_routes(Routes& routes, Studio& studio);
void add_model_routes(Routes& routes, Studio& studio);
void add_about_run_routes(Routes& routes, Studio& studio);
void add_dataset_routes(Routes& routes, Studio& studio);
void add_drawing_routes(Routes& routes, Studio& studio);
void add_file_routes(Routes& routes, Studio& studio);
void add_annotation_routes(Routes& routes, Studio& studio);
void add_mask_routes(Routes& routes, Studio& studio);
void add_picture_routes(Routes& routes, Studio& studio);
void add_look_routes(Routes& routes, Studio& studio);
void add_cut_routes(Routes& routes, Studio& studio);
void add_machine_routes(Routes& routes, Studio& studio);

}  // namespace burnish::studio
