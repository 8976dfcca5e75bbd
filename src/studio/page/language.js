// Which language the studio speaks: the one that was chosen here, or the browser's; English where it has no table of words.

const languages = {en: {name: "English", table: english}, de: {name: "Deutsch", table: german}, ja: {name: "日本語", table: japanese}, zh: {name: "中文", table: chinese}};
const languageKey = "burnish.language";
const language = [localStorage.getItem(languageKey), ...navigator.languages].map(one => (one ?? "").slice(0, 2).toLowerCase()).find(one => one in languages) ?? "en";
const words = languages[language].table;

document.documentElement.lang = language;
Object.assign(stateTitles, words.stateTitles);

/** The choice of a language, which the page is read anew for. */
const languageChoice = () => h("select", {id: "language", onchange: event => { localStorage.setItem(languageKey, event.target.value); location.reload(); }},
  ...Object.entries(languages).map(([code, {name}]) => h("option", {value: code, lang: code, selected: code === language}, name)));
