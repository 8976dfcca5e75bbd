// The pages and the way from one to the other.

let leave = () => {}, turns = 0;

function connected(is) {
  $("link").className = `status ${is ? "" : "lost"}`;
  $("link").textContent = is ? "" : words.lost;
}

/** Asks again and again until the page is left; what cannot be had is said once. */
function poll(refresh, pause) {
  let timer = null, left = false;
  const turn = async () => {
    try {
      if (!document.hidden) await refresh();
      connected(true);
    } catch (error) {
      connected(!(error instanceof TypeError));
      if (error instanceof Refused) say(error.message, "bad");
    }
    if (!left) timer = setTimeout(turn, pause);
  };
  turn();
  return () => { left = true; clearTimeout(timer); };
}

const pages = [
  {hash: "#/", title: words.runs, show: showRuns},
  {hash: "#/data", title: words.datasets, show: showData},
  {hash: "#/draw", title: words.drawing.title, show: showDraw},
  {hash: "#/models", title: words.modelsPage.title, show: showModels},
  {hash: "#/files", title: words.fileWords.title, show: showFiles},
  {hash: "#/new", title: words.newRun, show: showForm, of: "#/"},
  {hash: "#/machine", title: words.machine.title, show: showMachine},
  {hash: "#/bin", title: words.binPage.title, show: showBin},
];

async function route() {
  const [hash, query = ""] = (location.hash || "#/").split("?"), page = pages.find(one => one.hash === hash) ?? pages[0];
  const turn = ++turns;
  leave();
  leave = () => {};
  document.title = `${page.title} · Burnish Studio`;
  $("tabs").replaceChildren(...menuLinks(page.of ?? page.hash));
  try {
    const left = await page.show($("view"), new URLSearchParams(query)) ?? (() => {});
    if (turn === turns) leave = left;
    else left();  // somebody went on meanwhile
  } catch (error) {
    connected(!(error instanceof TypeError));
    say(error.message, "bad");
  }
}

document.querySelector(".skip").textContent = words.skip;
$("tabs").setAttribute("aria-label", words.pages);
addEventListener("hashchange", route);
route();
