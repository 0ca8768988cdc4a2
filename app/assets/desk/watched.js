// What tells those that watch it of every change: the desk, and the player.
export class Watched {
  watchers = [];

  watch(act) {
    this.watchers.push(act);
  }

  tell(what, more = {}) {
    for (const act of this.watchers) act(what, more);
  }
}
