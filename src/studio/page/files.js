// Files with weights: what they are, and what they are converted into.

const fileUrl = (what, file) => `${what}/${file.place.split("/").map(named).join("/")}/${file.name.split("/").map(named).join("/")}`;

/** Puts a file into a folder of the workspace; the name that it has there. */
async function upload(place, name, file) {
  const response = await fetch(`${root}api/${fileUrl("files", {place, name})}`, {method: "PUT", body: file}), answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(answer, response.status);
  return answer.name;
}

/** What a file is, as `burnish inspect` says it. */
function reportOf(report) {
  const t = words.fileWords, fact = (name, value) => value === undefined || value === "" ? [] : [h("dt", {}, name), h("dd", {}, value)];
  const adapter = report.adapter ? Object.entries(report.adapter).map(([kind, count]) => t.onLayers(kind, count)).join(", ") : undefined, metadata = Object.entries(report.metadata ?? {});
  return h("section", {class: "report"}, report.problem ? h("p", {class: "problem"}, report.problem) : null,
    h("dl", {class: "settings-of"}, ...fact(t.what, adapter ? `${report.what}: ${adapter}` : report.what), ...fact(t.names, report.names), ...fact(t.readBy, report.read_by && `burnish, ${report.read_by}`), ...fact(t.packed, report.packed_as),
      ...fact(t.step, report.step === undefined ? undefined : whole(report.step)), ...fact(t.tensors, report.tensors === undefined ? undefined : t.tensorsOf(whole(report.tensors), report.values < 1e6 ? whole(report.values) : t.millions(number(report.values / 1e6, 4)), report.dtypes.join(", "))),
      ...fact(t.size, report.bytes === undefined ? undefined : bytes(report.bytes))),
    metadata.length === 0 ? null : h("details", {}, h("summary", {}, t.metadata(metadata.length)), h("dl", {class: "settings-of"}, ...metadata.flatMap(([key, value]) => fact(key, value.length > 2000 ? `${value.slice(0, 2000)} …` : value)))));
}

/** The form that converts one file, alone or with others. */
function convertForm(file, isAdapter, files, schema, started) {
  const t = words.fileWords, others = files.filter(one => !(one.place === file.place && one.name === file.name));
  const offered = schema.options.filter(option => !["path", "overwrite"].includes(option.name) && !(isAdapter && option.group === "Model"));
  const fields = new OptionFields("convert", offered, option => option.name === "lora" ? {list: "adapters"} : {});
  const adapters = h("datalist", {id: "adapters"}, ...files.filter(one => one.is_adapter).map(one => h("option", {value: `${one.place}/${one.name}`})));
  const beside = h("select", {id: "convert-beside", multiple: true, size: Math.min(5, Math.max(2, others.length)), "aria-describedby": "convert-beside-note"}, ...others.map((one, i) => h("option", {value: i}, `${one.name} · ${one.place}`)));
  const stem = file.name.replace(/^.*\//, "").replace(/\.[a-z]+$/, ""), name = h("input", {id: "convert-name", value: `${stem}-converted.safetensors`, autocomplete: "off", spellcheck: "false", "aria-describedby": "convert-name-note"});
  const start = doing(async () => {
    const inputs = [file, ...[...beside.selectedOptions].map(option => others[Number(option.value)])].map(({place, name: called}) => ({place, name: called}));
    await post("conversions", {inputs, name: name.value.trim(), settings: fields.toml()});
    say(t.started);
    started();
  });
  return h("form", {class: "convert", onsubmit: event => event.preventDefault()}, h("h2", {}, t.convert), adapters,
    h("div", {class: "field"}, h("label", {for: "convert-name"}, t.output), name, h("p", {class: "explain", id: "convert-name-note"}, t.outputNote)),
    others.length === 0 ? null : h("details", {}, h("summary", {}, t.beside), h("div", {class: "field"}, h("label", {for: "convert-beside", class: "hidden"}, t.beside), beside, h("p", {class: "explain", id: "convert-beside-note"}, t.besideNote))),
    fields.element, h("button", {class: "primary", onclick: start}, t.start));
}

function conversionRow(job, refresh) {
  const t = words.fileWords, state = job.state !== "ended" ? job.state : job.exit_code === 0 ? "done" : job.exit_code === null ? "" : "failed", file = {place: "files", name: job.name};
  return h("li", {}, h("span", {class: "file"}, state === "done" ? h("a", {href: `#/files?place=files&name=${named(job.name)}`}, job.name) : job.name,
    h("span", {class: state === "failed" ? "problem" : "explain"}, state === "done" ? "" : ` ${plainSentence(job.says)}`)), h("span", {class: `state ${state}`}, words.drawing.states[state] ?? state),
  h("span", {class: "actions"}, job.state === "running" ? h("button", {type: "button", onclick: doing(async () => { await post(`conversions/${named(job.id)}/stop`); await refresh(); })}, words.drawing.stop) :
    h("button", {type: "button", "aria-label": `${words.remove}: ${job.name}`, onclick: doing(async () => { await ask("DELETE", `conversions/${named(job.id)}`); await refresh(); })}, words.remove),
  state === "done" && /\./.test(job.name) ? h("a", {class: "button", href: `${root}api/${fileUrl("files", file)}`, download: job.name}, words.drawing.download) : null));
}

/** A file of weights as people know it: saves of a run by its name. */
const calledBy = file => file.place.startsWith("runs/") ? `${file.place.slice(5)}-${file.name}` : file.name;

function fileRow(file, isShown, remove) {
  const address = `#/files?place=${named(file.place)}&name=${named(file.name)}`, name = calledBy(file);
  return h("li", {}, h("a", {class: "file", href: address, "aria-current": isShown ? "true" : undefined}, name), h("span", {class: "explain number"}, bytes(file.bytes)),
    h("span", {class: "actions"}, file.is_folder ? null : h("a", {class: "button", href: `${root}api/${fileUrl("files", file)}`, download: name, "aria-label": `${words.drawing.download}: ${name}`}, "↓"),
      file.place.startsWith("runs/") ? null : h("button", {type: "button", title: words.bin, "aria-label": `${words.bin}: ${name}`, onclick: doing(() => remove(file))}, "×")));
}

/** Files by where they lie; of many runs the newest is open. */
class FileList {
  constructor(isShown, remove) {
    this.isShown = isShown;
    this.element = h("div", {});
    this.groups = new KeptList(this.element, ({place}) => place, ({place, files, isOpen}) => h("details", {open: isOpen}, h("summary", {}, place, h("span", {class: "explain number"}, ` ${whole(files.length)}`)),
      h("ul", {class: "sets"}, ...files.map(file => fileRow(file, isShown(file), remove)))));
  }

  show(files, wish) {
    const found = files.filter(file => calledBy(file).toLowerCase().includes(wish)), places = [...new Set(found.map(file => file.place))], newest = places.find(place => place.startsWith("runs/"));
    this.groups.show(places.map(place => {
      const those = found.filter(file => file.place === place);
      return {place, files: those, isOpen: wish !== "" || !place.startsWith("runs/") || place === newest || those.some(this.isShown)};
    }));
  }
}

/** What one file is, and the form that converts it. */
async function showFile(place, file, files, refresh) {
  place.replaceChildren(h("h2", {}, file.name), h("p", {class: "explain", role: "status"}, words.check));
  const [said, schema] = await Promise.all([get(fileUrl("inspect", file)), get("options/convert")]);
  const isAdapter = said.reports.some(report => report.adapter), canConvert = said.reports.some(report => report.tensors !== undefined);
  place.replaceChildren(h("h2", {}, file.name), said.sentence && !said.reports.some(report => report.problem) ? h("p", {class: "problem"}, said.sentence) : "",
    ...said.reports.map(reportOf), canConvert ? convertForm(file, isAdapter, files, schema, refresh) : "");
}

async function showFiles(view, query) {
  const t = words.fileWords, wanted = {place: query.get("place"), name: query.get("name")}, isShown = file => file.place === wanted.place && file.name === wanted.name;
  const undo = new Undo(), remove = file => throwAway(fileUrl("files", file), file.name, undo, () => refresh()), list = new FileList(isShown, remove), none = h("p", {class: "explain"}, t.none);
  const search = h("input", {type: "search", placeholder: t.search, "aria-label": t.search, oninput: () => list.show(files, search.value.trim().toLowerCase())}), jobs = h("ul", {class: "sets"}), jobBox = h("section", {hidden: true}, h("h2", {}, t.conversions), jobs), detail = h("div", {class: "detail", "aria-live": "polite"}), standing = h("p", {class: "explain", role: "status"});
  const add = async found => {
    let last = "";
    for (const [i, [name, file]] of found.entries()) {
      standing.textContent = t.adding(name, i + 1, found.length);
      last = await upload("files", name, file).catch(error => { say(error.message, "bad"); return last; });
    }
    standing.textContent = "";
    const top = found.length > 0 && found[0][0].includes("/") ? found[0][0].split("/")[0] : last;
    if (top) location.hash = `#/files?place=files&name=${named(top)}`;
    await refresh();
  };
  let text = "", files = [];
  const refresh = async () => {
    const [all, conversions] = await Promise.all([get("files"), get("conversions")]), now = JSON.stringify([all, conversions]);
    if (now === text) return;
    text = now;
    files = all;
    none.hidden = all.length > 0;
    search.hidden = all.length < 6;
    list.show(all, search.value.trim().toLowerCase());
    jobBox.hidden = conversions.length === 0;
    jobs.replaceChildren(...conversions.reverse().map(job => conversionRow(job, refresh)));
  };
  const picker = h("input", {type: "file", multiple: true, hidden: true, id: "add-files", onchange: event => add([...event.target.files].map(file => [file.name, file]))});
  view.replaceChildren(h("div", {class: "files-page", ondragover: event => event.preventDefault(), ondrop: event => { event.preventDefault(); droppedFiles(event.dataTransfer).then(add).catch(error => say(error.message, "bad")); }},
    h("div", {class: "section-head"}, h("h1", {}, t.title), h("span", {class: "actions"}, h("button", {type: "button", onclick: () => picker.click()}, words.add), picker)), h("p", {class: "explain"}, t.drop), standing,
    h("div", {class: "drawer"}, h("div", {class: "file-list"}, search, none, list.element, jobBox), detail)));
  await refresh();
  const file = files.find(isShown) ?? (wanted.place && wanted.name ? wanted : null);
  if (file) showFile(detail, file, files, refresh).catch(error => detail.replaceChildren(h("p", {class: "problem"}, error.message)));
  const stop = poll(refresh, 1500);
  return () => { stop(); undo.leave(); };
}
