// Stores desks between visits in the browser's database. A desk belongs to one tab; another tab gets a copy.
import { Desk, interrupted, isUnbegun, newId } from "./state.js";

const NAME = "musicgen",
  DESKS = "desks",
  ENTRIES = "entries";
const MOST_DESKS = 24; // older ones are deleted
const PAUSE = 200; // milliseconds from a change until it is saved

// A promise of the result of a request, or of the end of a transaction.
const settled = (work) =>
  new Promise((done, failed) => {
    work.onsuccess = work.oncomplete = () => done(work.result);
    work.onerror = work.onabort = () => failed(work.error);
  });

async function database() {
  const asked = indexedDB.open(NAME, 1);
  asked.onupgradeneeded = () => {
    asked.result.createObjectStore(DESKS, { keyPath: "id" });
    asked.result.createObjectStore(ENTRIES, { keyPath: "id" });
  };
  return settled(asked);
}

const lockOf = (id) => `musicgen ${id}`;

// Lock a desk for as long as this tab is open; false if another tab has it. Without TLS there are no locks: then the desk
// belongs to the tab that had it before.
function lockDesk(id, own) {
  if (!navigator.locks) return Promise.resolve(id === own);
  return new Promise((done) => {
    navigator.locks.request(lockOf(id), { ifAvailable: true }, (lock) => {
      done(Boolean(lock));
      return lock ? new Promise(() => {}) : undefined;
    });
  });
}

export class Store {
  unsaved = new Set();
  latest = 0; // the time of the last save, by a clock that may have been set back since

  // Open the desk of this tab, a copy of the last one used, or an empty one.
  async open() {
    try {
      this.base = await database();
    } catch {
      this.base = null; // missing in private windows of some browsers
      return new Desk();
    }
    const desks = await settled(this.base.transaction(DESKS).objectStore(DESKS).getAll());
    desks.sort((a, b) => b.saved - a.saved);
    this.latest = desks[0]?.saved ?? 0;
    const own = sessionStorage.getItem("musicgen-desk");
    let saved = desks.find((one) => one.id === own) ?? desks[0];
    if (saved && !(await lockDesk(saved.id, own))) saved = { ...saved, id: newId() };
    const entries = saved ? await this.entriesOf(new Desk(saved).needed) : [],
      desk = new Desk(saved, entries);
    desk.withdraw(entries.filter(isUnbegun).map((entry) => entry.id));
    if (desk.id !== own) await lockDesk(desk.id);
    sessionStorage.setItem("musicgen-desk", desk.id);
    this.sweep(desk).catch(() => {}); // the next visit tries again
    return desk;
  }

  async entriesOf(ids) {
    const entries = this.base.transaction(ENTRIES).objectStore(ENTRIES);
    const found = await Promise.all([...ids].map((id) => settled(entries.get(id))));
    return found.filter(Boolean).map(interrupted);
  }

  // Save a desk from now on whenever it changes.
  keep(desk) {
    this.desk = desk;
    desk.watch((what, { entry }) => {
      if (entry) this.unsaved.add(entry.id);
      this.soon();
    });
    addEventListener("pagehide", () => this.save());
    document.addEventListener("visibilitychange", () => document.hidden && this.save());
    this.soon();
  }

  soon() {
    this.timer ??= setTimeout(() => this.save(), PAUSE);
  }

  async save() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!this.base || !this.desk) return;
    const ids = [...this.unsaved];
    this.unsaved.clear();
    try {
      const work = this.base.transaction([DESKS, ENTRIES], "readwrite", { durability: "relaxed" });
      for (const id of ids) work.objectStore(ENTRIES).put(this.desk.entries.get(id));
      this.latest = Math.max(Date.now(), this.latest + 1);
      work.objectStore(DESKS).put({ ...this.desk.plain(), saved: this.latest });
      work.commit(); // a page that is closing gets no event to commit at
      await settled(work);
      this.failed = false;
    } catch {
      for (const id of ids) this.unsaved.add(id);
      if (!this.failed) this.desk.tell("unsaved"); // the disk is full; report it once
      this.failed = true;
    }
  }

  // Delete the oldest desks, and entries that no desk needs: drawing notes leaves a piece for every note, and undo has
  // limited steps. Open desks of other tabs stay. One transaction does it all, so that nothing that another tab saves
  // meanwhile is lost.
  async sweep(desk) {
    const locks = (await navigator.locks?.query())?.held ?? [],
      open = new Set(locks.map((lock) => lock.name));
    const work = this.base.transaction([DESKS, ENTRIES], "readwrite");
    const desks = await settled(work.objectStore(DESKS).getAll());
    desks.sort((a, b) => b.saved - a.saved);
    const old = desks.slice(MOST_DESKS).filter((one) => !open.has(lockOf(one.id)));
    const needed = new Set(desk.needed);
    for (const one of desks)
      if (!old.includes(one)) for (const id of new Desk(one).needed) needed.add(id);
    for (const one of old) work.objectStore(DESKS).delete(one.id);
    const keys = await settled(work.objectStore(ENTRIES).getAllKeys());
    for (const key of keys) if (!needed.has(key)) work.objectStore(ENTRIES).delete(key);
  }
}
