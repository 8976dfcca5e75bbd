// What a clip sounds like, to be seen: time from left to right, tones from low to high, the louder the brighter.

const spectrum = {rate: 32000, window: 1024, columns: 480, rows: 96, lowest: 60, highest: 16000, quietest: -80};

/** The bytes behind an address; one that holds them itself is not fetched. */
async function bytesAt(url) {
  if (!url.startsWith("data:")) return (await fetch(url)).arrayBuffer();
  return Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), letter => letter.charCodeAt(0)).buffer;
}

/** The squares of the magnitudes of a real signal's frequencies, whose length is a power of two (Cooley and Tukey 1965). */
function powersOf(signal) {
  const n = signal.length, real = new Float64Array(n), imaginary = new Float64Array(n);
  for (let i = 0, j = 0; i < n; ++i) {
    real[j] = signal[i];
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j |= bit;
  }
  for (let size = 2; size <= n; size *= 2) {
    for (let k = 0; k < size / 2; ++k) {
      const angle = -2 * Math.PI * k / size, c = Math.cos(angle), s = Math.sin(angle);
      for (let a = k; a < n; a += size) {
        const b = a + size / 2, x = real[b] * c - imaginary[b] * s, y = real[b] * s + imaginary[b] * c;
        real[b] = real[a] - x;
        imaginary[b] = imaginary[a] - y;
        real[a] += x;
        imaginary[a] += y;
      }
    }
  }
  return real.subarray(0, n / 2).map((x, i) => x * x + imaginary[i] * imaginary[i]);
}

/** Loudness in decibels of a full tone, by columns of rows from low to high tones. */
function loudness(samples) {
  const {rate, window, columns, rows, lowest, highest} = spectrum;
  const bell = Float64Array.from({length: window}, (_, i) => 0.5 - 0.5 * Math.cos(2 * Math.PI * i / window));
  const edges = Array.from({length: rows + 1}, (_, row) => lowest * (highest / lowest) ** (row / rows) / rate * window);
  return Array.from({length: columns}, (_, column) => {
    const first = Math.round(column / columns * samples.length - window / 2);
    const powers = powersOf(bell.map((weight, i) => weight * (samples[first + i] ?? 0)));
    return Array.from({length: rows}, (_, row) => {
      const from = Math.floor(edges[row]), to = Math.max(from + 1, Math.ceil(edges[row + 1]));
      const most = powers.subarray(from, to).reduce((a, b) => Math.max(a, b), 0);
      return 10 * Math.log10(most / (window / 4) ** 2 + 1e-12);
    });
  });
}

function paintLoudness(canvas, columns) {
  const {rows, quietest} = spectrum, context = canvas.getContext("2d"), image = context.createImageData(columns.length, rows);
  columns.forEach((column, x) => column.forEach((decibels, row) => {
    const share = Math.min(1, Math.max(0, 1 - decibels / quietest)), at = 4 * ((rows - 1 - row) * columns.length + x);
    image.data.set([255 * share ** 1.5, 235 * share ** 3, 60 + 160 * share * (1 - share) + 90 * share ** 6, 255], at);
  }));
  context.putImageData(image, 0, 0);
}

/** A picture of a video's sound, with a mark where it plays; a press goes there. Nothing is shown of one that has no sound. */
function spectrogramOf(video, url) {
  const canvas = h("canvas", {width: spectrum.columns, height: spectrum.rows}), mark = h("span", {class: "mark"});
  const holder = h("button", {type: "button", class: "spectrogram", hidden: true, "aria-label": "spectrogram of the sound: time to the right, high tones above; press to go there",
    onclick: event => { if (event.detail && video.duration) video.currentTime = video.duration * event.offsetX / holder.clientWidth; }}, canvas, mark);
  const follow = () => {
    if (video.duration) mark.style.left = `${100 * video.currentTime / video.duration}%`;
    if (holder.isConnected) requestAnimationFrame(follow);
  };
  const show = async () => {
    const sound = await new OfflineAudioContext(1, 1, spectrum.rate).decodeAudioData(await bytesAt(url));
    const sides = Array.from({length: sound.numberOfChannels}, (_, i) => sound.getChannelData(i));
    paintLoudness(canvas, loudness(sides[0].map((sample, i) => sides.reduce((sum, side) => sum + side[i], 0) / sides.length)));
    holder.hidden = false;
    requestAnimationFrame(follow);
  };
  show().catch(() => {});  // a clip without sound, or one that this browser cannot hear
  return holder;
}
