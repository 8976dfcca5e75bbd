// Every word that the studio says, in one table, so that another language is another table.

const words = {
  runs: "Runs", newRun: "New run", queue: "Queue", settings: "Settings", lost: "burnish studio has ended",
  noRuns: "No run yet.", noRunsHint: "A run begins from a recipe, from another run's settings, or from nothing.",
  begin: "Make the first run", waiting: "Waiting", paused: "The queue is paused: what waits is not started.", pause: "Pause the queue", go: "Go on with the queue",
  atOnce: "At once", up: "Earlier", down: "Later", remove: "Take out", open: "Open", stop: "Stop and save", stopEpoch: "Stop after this epoch",
  saveNow: "Save now", previewNow: "Preview now", resume: "Go on", clone: "Use its settings", rename: "Rename", bin: "Move to the bin",
  binSure: name => `Move the run ${name} to the bin of the workspace?`, renameTo: "A new name for the run", files: "Files", log: "What it printed",
  asked: {preview: "Previews are drawn after this step.", save: "It is saved after this step.", stop_after_epoch: "It ends with this epoch.", stop: "It ends after this step, and saves."},
  step: (step, total) => total > 0 ? `step ${whole(step)} of ${whole(total)}` : `step ${whole(step)}`, left: text => `${text} left`, loss: value => `loss ${value}`,
  formTitle: "A new run", from: "Begin from", recipes: "A recipe", ofRun: "The settings of a run", empty: "Nothing", name: "Name", model: "Model", data: "Dataset",
  firstRun: "First", usual: "Usual", all: "All", search: "Search options", toml: "Settings as a file", start: "Put into the queue", check: "Looking …",
  fits: "It fits.", fitsNot: "It does not fit.", wouldFit: "What would fit", apply: "Take", unplanned: "Nothing is planned until model and data are named.",
  ofDevice: (planned, there) => `${planned} of ${there}`, planTitle: "Memory of a step", isDefault: "Default", moot: text => `Decides nothing here: it belongs to ${text}.`,
  datasets: "Datasets", newDataset: "Name of a new dataset", make: "Make", noData: "No dataset yet. Make one, and drop pictures on it.", add: "Add files", undo: "Undo",
  drop: "Drop pictures, clips and captions anywhere on this page.", searchCaptions: "Search captions", order: "Order", filter: "Show", tags: "Tags", find: "Find, or a prefix",
  replacement: "Replace by", replace: "Replace in all shown", prefix: "Put before all shown", caption: "Caption", noCaption: "No caption", clip: "Clip", leaveOut: "Leave out",
  takeIn: "Take in again", orders: {name: "by name", size: "largest first", shape: "by shape", caption: "shortest caption first"},
  filters: {all: "all", captionless: "without a caption", left: "left out", unreadable: "unreadable"},
  countOf: (all, shown, without) => `${whole(all)} pictures and clips${shown < all ? `, ${whole(shown)} shown` : ""}${without > 0 ? `, ${whole(without)} without a caption` : ""}`,
  ofSet: (items, captions) => `${whole(items)} pictures and clips, ${whole(captions)} captions`, changed: count => `${whole(count)} captions were changed.`,
  adding: (count, all) => `${whole(count)} of ${whole(all)} files are there`, notAdded: name => `${name} was not added.`,
  queued: name => `${name} is in the queue.`, noMatch: "No option matches.", fitTitle: "Look for what fits",
};

const machineWords = {
  title: "Machine", processor: "Processor", memory: "Memory", disk: "Disk of the workspace", gpuMemory: name => `Memory of ${name}`, onGpu: "On the GPU", run: "Run", process: "Process",
  threads: count => `${whole(count)} threads`, of: total => `of ${total}`, free: size => `${size} free`, full: share => `${share} of the disk are taken`,
  spoken: (name, last, most) => `${name}: now ${last}, at most ${most} in the last five minutes`, runs: "What runs take", noRuns: "No run of this studio goes on.", notes: "What burnish doctor notes",
  close: "Close the studio", closeHint: "Runs are programs of their own: they go on without the studio, and are there when it is opened again.", closeOnly: "Close, runs go on",
  closeAll: "Close, and stop the runs", closeSure: "Close the studio? Its runs go on; what waits starts when it is opened again.",
  closeAllSure: "Stop the runs of the studio, each after its step and saved, and close it?",
  asking: "Asking …", fine: "Nothing on this machine slows a run that this program knows of.",
};
