// The base of the desk and the player: notifies watchers of changes.
export class Watched {
  watchers = [];

  watch(act) {
    this.watchers.push(act);
  }

  tell(what, more = {}) {
    for (const act of this.watchers) act(what, more);
  }
}
