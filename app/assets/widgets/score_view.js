// The score of the piece, in place of the roll: from the MusicXML that was opened, or notated from the notes.
// OpenSheetMusicDisplay engraves it; it is loaded when a score is first shown.
import { barAt, barCount } from "../music/piece.js";
import { count, make, marked } from "./parts.js";
import { asKept, isNotated } from "./save_menu.js";

const UNIT = 10; // pixels per unit of the engraver
const STAFF = 4; // units from the top to the bottom line of a staff
const MARGIN = 20; // pixels above a bar that is scrolled to
const SIZES = { wide: 0.85, small: 0.6 };
const SMALL = 640; // pixels of width
const PAUSE = 150; // milliseconds from a change of width to a new layout
const SIMPLIFIED = "Rhythms are simplified for reading.";
const OPTIONS = {
  autoResize: false,
  autoBeam: true,
  drawTitle: false,
  disableCursor: true, // this class marks the bars itself
  autoGenerateMultipleRestMeasuresFromRestMeasures: false, // keep one bar of the score per bar of the piece
};

// The MusicXML of an entry: that from which the piece was opened, with new notes if they are written into it, and otherwise
// one with the bars of the page. The engraver gets it as a document, since unrecognised text would be fetched as a URL.
async function scoreOf(app, entry) {
  const kept = asKept(entry),
    isOwn = isNotated(kept);
  const score = await app.requests.made(isOwn ? kept : { ...entry, file: null }, "score");
  return { score: new DOMParser().parseFromString(await score.text(), "application/xml"), isOwn };
}

export class ScoreView {
  // `changed` is called when the score is shown or hidden.
  constructor(app, changed) {
    Object.assign(this, { app, on: false, zoom: 1 });
    this.engraver = null;
    this.asked = null; // the entry whose score is loading or shown
    this.isOwn = false;
    this.marked = null; // the number of the marked bar
    this.status = make("p", "mg-why", "", { role: "status" });
    this.drawn = make("div", "", "", { role: "img" });
    this.bar = make("div", "mg-score-bar", "", { hidden: true });
    this.sheet = make("div", "mg-sheet", [this.drawn, this.bar]);
    const named = { hidden: true, tabIndex: 0, ariaLabel: "Score", role: "region" };
    this.box = make("div", "mg-score", [this.status, this.sheet], named);
    this.toggle = marked("score", "Score", () => ((this.on = !this.on), changed()));
    this.sheet.addEventListener("click", (event) => this.#seek(event));
    let timer = null;
    const sized = new ResizeObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(() => this.sheet.clientWidth !== this.width && this.#draw(), PAUSE);
    });
    sized.observe(this.sheet);
  }

  // The take that plays, or the piece.
  get chosen() {
    const { desk, player } = this.app;
    const take = desk.takes.find(({ id }) => id === player.entry?.id);
    return take && take.state !== "running" ? take : desk.current;
  }

  show() {
    const { box, toggle, chosen: entry } = this;
    toggle.ariaPressed = this.on;
    box.hidden = !this.on || !entry;
    if (!box.hidden && entry.piece !== this.asked?.piece) this.#load(entry);
  }

  async #load(entry) {
    const { status, drawn } = this;
    this.asked = entry;
    drawn.hidden = true;
    this.#mark(null);
    status.textContent = entry.piece.notes.length ? "Engraving…" : "There are no notes yet.";
    if (!entry.piece.notes.length) return;
    try {
      const [{ score, isOwn }, { OpenSheetMusicDisplay }] = await Promise.all([
        scoreOf(this.app, entry),
        import("../vendor/osmd/osmd.js"),
      ]);
      if (this.asked !== entry) return;
      this.engraver ??= new OpenSheetMusicDisplay(drawn, OPTIONS);
      await this.engraver.load(score);
      if (this.asked !== entry) return;
      this.isOwn = isOwn;
      drawn.hidden = false;
      this.#draw();
      const name = entry === this.app.desk.current ? "" : `${entry.title}. `;
      status.textContent = isOwn ? name : name + SIMPLIFIED;
      drawn.ariaLabel = `Score of ${entry.title}: ${count(this.#count, "bar")}`;
    } catch (error) {
      if (this.asked === entry) status.textContent = `The score cannot be shown: ${error.message}`;
    }
  }

  get #count() {
    return this.engraver.Sheet.SourceMeasures.length;
  }

  #draw() {
    const { engraver, sheet, drawn } = this;
    this.width = sheet.clientWidth;
    if (drawn.hidden || !this.width) return;
    const isSmall = this.width < SMALL;
    engraver.setOptions({ drawPartNames: !isSmall });
    engraver.zoom = this.zoom * (isSmall ? SIZES.small : SIZES.wide);
    engraver.render();
    this.#mark(this.marked);
  }

  scale(factor) {
    this.zoom = factor === null ? 1 : Math.min(3, Math.max(0.4, this.zoom * factor));
    this.#draw();
  }

  // The box of a bar on the sheet: [left, top, width, height].
  #placeOf(number) {
    const staves = this.engraver.GraphicSheet.MeasureList[number]?.filter(Boolean);
    if (!staves?.length) return null;
    const [first, last] = [staves[0], staves.at(-1)].map((one) => one.PositionAndShape);
    const { x, y } = first.AbsolutePosition;
    const high = last.AbsolutePosition.y + STAFF - y;
    return [x, y - 1, first.Size.width, high + 2].map((units) => units * UNIT * this.engraver.zoom);
  }

  #mark(number) {
    const { bar, box } = this;
    this.marked = number;
    const place = number === null || this.drawn.hidden ? null : this.#placeOf(number);
    bar.hidden = !place;
    if (!place) return;
    const [left, top, width, height] = place;
    Object.assign(bar.style, { width: `${width}px`, height: `${height}px` });
    bar.style.transform = `translate(${left}px, ${top}px)`;
    const over = this.sheet.offsetTop - box.offsetTop + top;
    if (over < box.scrollTop || over + height > box.scrollTop + box.clientHeight)
      box.scrollTop = over - MARGIN;
  }

  // Whether the bars of the score match those of the piece: a file may have repeats, or begin with rests.
  get #isAlike() {
    return !this.isOwn || this.#count === barCount(this.asked.piece);
  }

  // Mark the bar that plays.
  follow(entry, tick) {
    if (this.box.hidden || this.drawn.hidden) return;
    const isSeen = entry?.piece === this.asked.piece && this.#isAlike;
    const number = isSeen ? barAt(entry.piece, tick) : null;
    if (number !== this.marked) this.#mark(number);
  }

  // Go to the bar that was clicked.
  #seek(event) {
    if (this.drawn.hidden || !this.#isAlike) return;
    const { left, top } = this.sheet.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const number = this.engraver.GraphicSheet.MeasureList.findIndex((_, one) => {
      const [from, over, width, height] = this.#placeOf(one) ?? [0, 0, 0, 0];
      return x >= from && x < from + width && y >= over && y < over + height;
    });
    if (number < 0) return;
    this.app.player.load(this.asked);
    this.app.player.seek(this.asked.piece.lines[number]);
  }
}
