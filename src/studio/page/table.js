// Tables of captions, as datasets of hubs have them: metadata.csv and metadata.jsonl.

const isTable = name => /\.(csv|jsonl)$/i.test(name);
const pictureColumns = ["image", "file_name", "file", "video", "path"], captionColumns = ["prompt", "caption", "text"];

/** Rows of a CSV (RFC 4180), each a list of texts. */
function csvRows(text) {
  const rows = [[]];
  let cell = "", isQuoted = false;
  const end = () => { rows.at(-1).push(cell); cell = ""; };
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (isQuoted) {
      if (c !== "\"") cell += c;
      else if (text[i + 1] === "\"") cell += text[++i];
      else isQuoted = false;
    } else if (c === "\"" && cell === "") isQuoted = true;
    else if (c === ",") end();
    else if (c === "\n") { end(); rows.push([]); }
    else if (c !== "\r") cell += c;
  }
  end();
  return rows.filter(row => row.length > 1 || row[0] !== "");
}

/** Captions by the names of pictures that a table holds; an Error where it has no such columns. */
function captionsOfTable(name, text) {
  const isLines = /\.jsonl$/i.test(name), lines = isLines ? text.split("\n").filter(line => line.trim()).map(line => JSON.parse(line)) : null;
  const [head = [], ...rows] = isLines ? [] : csvRows(text.replace(/^\uFEFF/, "")), records = lines ?? rows.map(row => Object.fromEntries(head.map((column, i) => [column.trim(), row[i] ?? ""])));
  const columnOf = names => names.find(column => records.some(record => typeof record[column] === "string")), picture = columnOf(pictureColumns), caption = columnOf(captionColumns);
  if (!picture || !caption) throw new Error(words.noColumns(name));
  return new Map(records.filter(record => record[picture]).map(record => [record[picture], String(record[caption] ?? "")]));
}

/** Those of a table that are of items: by their whole name, or by its last part where that is of one item alone. */
function captionsOfItems(table, items) {
  const found = {};
  for (const [file, caption] of table) {
    const exact = items.find(item => item.file === file), last = items.filter(item => lastOf(item.file) === lastOf(file)), item = exact ?? (last.length === 1 ? last[0] : null);
    if (item) found[item.file] = caption;
  }
  return found;
}
