"""Changes of the tracks of a MIDI file: instrument, volume, name, order, and deleting them."""

from __future__ import annotations

from tokenization import changes
from tokenization.midi import reading as midi
from tokenization.midi.events import Lane, OpenMidi
from tokenization.midi.keeping import AMID, BEFORE

CENTRE = 8192  # of a pitch bend
VOLUME, FULL = 7, 100  # the controller, and its value if a channel states none
# Signs of the whole piece, which stay if their track is deleted.
OF_PIECE = {midi.TEMPO, midi.METER, midi.KEY_SIGNATURE, midi.MARKER, midi.CUE}


def set_program(file: OpenMidi, change: changes.Program) -> None:
    """Give a track another instrument, in all its program changes, and a channel of its own if it shares one."""
    sources = file.sources_of([change.track])
    for number in sources:
        source = file.sources[number]
        if file.shares(source.lane, source.channel, sources):
            file.give_own_channel(source)
        lanes = [lane for lane in file.lanes if lane is source.lane or not any(
            one.lane is lane and one.channel == source.channel for one in file.sources)]  # fmt: skip
        is_set = False
        for lane in lanes:
            for event in lane.events:
                if event.status == 0xC0 | source.channel and event.data[0] == source.program:
                    event.data, lane.is_changed = bytes((change.program,)), True
                    is_set = True
        if not is_set:
            source.lane.put(0, BEFORE, 0xC0 | source.channel, (change.program,))
        source.program = change.program


def set_volume(file: OpenMidi, change: changes.Volume) -> None:
    """Set the volume of a track, and scale its later changes."""
    sources, channels = file.sources_of([change.track]), set[int]()
    for number in sources:
        source = file.sources[number]
        if file.shares(source.lane, source.channel, sources):
            file.give_own_channel(source)
        if source.channel in channels:
            continue
        channels.add(source.channel)
        status, first = 0xB0 | source.channel, min((n.start for n in source.notes), default=0)
        found = [
            (lane, event) for lane in file.lanes for event in lane.events
            if event.status == status and event.data[0] == VOLUME
        ]  # fmt: skip
        found.sort(key=lambda one: one[1].tick)
        early = [event.data[1] for _, event in found if event.tick <= first]
        if not early:
            source.lane.put(0, BEFORE, status, (VOLUME, change.volume))
        scale = change.volume / max(1, early[-1] if early else FULL)
        for lane, event in found:
            event.data = bytes((VOLUME, min(127, round(event.data[1] * scale))))
            lane.is_changed = True


def add_controllers(file: OpenMidi, change: changes.Controllers) -> None:
    """Add controllers and pitch bends to a track, which gets a channel of its own if it shares one."""
    sources = file.sources_of([change.track])
    for number in sources[:1]:
        source = file.sources[number]
        if file.shares(source.lane, source.channel, sources):
            file.give_own_channel(source)
        for tick, *move in change.events:
            controller, value = map(int, move)
            status, data = 0xB0, (controller, value)
            if controller == changes.BEND:
                status, data = 0xE0, ((value + CENTRE) & 127, (value + CENTRE) >> 7)
            source.lane.put(file.reading.tick_in_file(tick), BEFORE, status | source.channel, data)


def set_name(file: OpenMidi, change: changes.Name) -> None:
    """Name a track."""
    name = change.name.encode(errors="replace")
    for number in file.sources_of([change.track]):
        lane = file.own_lane(file.sources[number])
        named = [event for event in lane.events if event.status == midi.TRACK_NAME]
        for event in named:
            event.data, lane.is_changed = name, True
        if not named:
            lane.put(0, BEFORE, midi.TRACK_NAME, name)


def reorder(file: OpenMidi, change: changes.Order) -> None:
    """Reorder the tracks."""
    if sorted(change.tracks) != [*range(len(file.reading.sources))]:
        raise ValueError(f"the order must name each of the {len(file.reading.sources)} tracks once")
    ordered: list[Lane] = []
    for track in change.tracks:
        for number in file.sources_of([track]):
            lane = file.own_lane(file.sources[number])
            if not any(lane is one for one in ordered):
                ordered.append(lane)
    places = [n for n, lane in enumerate(file.lanes) if any(lane is one for one in ordered)]
    for place, lane in zip(places, ordered, strict=True):
        file.lanes[place] = lane
    file.reading = file.reading.with_tracks(change.tracks)


def drop(file: OpenMidi, change: changes.Drop) -> None:
    """Delete tracks with their chunks; signs of the whole piece stay."""
    gone = file.sources_of(change.tracks)
    for number in gone:
        file.remove(file.sources[number].notes)
    used = {(id(one.lane), one.channel) for n, one in enumerate(file.sources) if n not in gone}
    for lane in {id(file.sources[n].lane): file.sources[n].lane for n in gone}.values():
        lane.take(
            event for event in lane.events
            if event.status < 0xF0 and (id(lane), event.channel) not in used
        )  # fmt: skip
        is_empty = not any(one.lane is lane for n, one in enumerate(file.sources) if n not in gone)
        if is_empty and lane is not file.lanes[0]:
            for event in lane.events:
                if event.status in OF_PIECE:
                    file.lanes[0].put(event.tick, AMID, event.status, event.data)
            file.lanes[file.lanes.index(lane) - 1].after += lane.after
            file.lanes.remove(lane)
    left = [n for n in range(len(file.reading.sources)) if n not in change.tracks]
    file.reading = file.reading.with_tracks(left)
