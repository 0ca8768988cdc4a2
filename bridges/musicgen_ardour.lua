ardour {
  ["type"] = "EditorAction", name = "musicgen", license = "MIT", author = "musicgen",
  description = [[Continue, accompany, harmonise or rewrite the selected range or MIDI regions, by musicgen on this machine.
All MIDI regions around it are heard, with tempos and metres; the music becomes new tracks, and nothing else changes.]],
}

function factory () return function ()
-- include midi.lua

local AROUND = 64 -- bars before the selection that are heard, and half as many after it
local PER_QUARTER = Temporal.ticks_per_beat
local ACTIONS = {
  ["Continue after it"] = "continue", ["End after it"] = "end", ["Write a part"] = "accompany",
  ["Harmonise"] = "harmonise", ["Another take of the selected tracks"] = "rewrite",
}

local function say(text)
  LuaDialog.Message("musicgen", text, LuaDialog.MessageType.Info, LuaDialog.ButtonType.Close):run()
end

-- A time in quarter notes; Beats can only be read as text.
local function quarters(beats)
  local whole, ticks = beats:str():match("^(%-?%d+):(%d+)")
  return tonumber(whole) + tonumber(ticks) / PER_QUARTER
end

local tempos = Temporal.TempoMap.read()

local function bar(number) -- from 1
  local first = quarters(tempos:quarters_at_bbt(Temporal.BBT_TIME(number, 1, 0)))
  local last = quarters(tempos:quarters_at_bbt(Temporal.BBT_TIME(number + 1, 1, 0)))
  local at = Temporal.timepos_t.from_ticks(math.floor(first * PER_QUARTER + 0.5))
  local meter = tempos:meter_at(at)
  local top, low = math.floor(meter:divisions_per_bar()), math.floor(meter:note_value())
  return { first = first, last = last, top = top, low = low, tempo = tempos:quarters_per_minute_at(at), at = at }
end

local function bar_at(quarter) return midi.bar_at(bar, 1, quarter) end

-- The selection in quarter notes, and the names of its tracks.
local function selection()
  local chosen, from, to, names = Editor:get_selection(), math.huge, 0, {}
  for region in chosen.regions:regionlist():iter() do
    if region:to_midiregion():isnil() then error({ "Audio cannot be read; select MIDI regions, or a range." }) end
    from = math.min(from, region:position():ticks() / PER_QUARTER)
    to = math.max(to, (region:position():ticks() + region:length():ticks()) / PER_QUARTER)
    names[region:playlist():get_orig_track_id():to_s()] = true
  end
  if to == 0 and chosen.time:start_sample() < chosen.time:end_sample() then
    from, to = chosen.time:start_time():ticks() / PER_QUARTER, chosen.time:end_time():ticks() / PER_QUARTER
  end
  if to <= from then error({ "Select MIDI regions, or a range." }) end
  for route in chosen.tracks:routelist():iter() do names[route:to_stateful():id():to_s()] = true end
  return from, to, names
end

-- The music from one bar to another as a song, and the numbers of its tracks by their ids.
local function song_of(first, last)
  local zero, stop, numbers = bar(first).first, bar(last).last, {}
  local song, tick = midi.empty_song(bar, first, last)
  for route in Session:get_tracks():iter() do
    local track, notes, on_drums = route:to_track(), {}, 0
    for region in track:playlist():region_list():iter() do
      local own = region:to_midiregion()
      if not own:isnil() and not region:muted() then
        local begin = region:position():ticks() / PER_QUARTER
        local finish, origin = begin + region:length():ticks() / PER_QUARTER, begin - region:start():ticks() / PER_QUARTER
        for note in ARDOUR.LuaAPI.note_list(own:midi_source(0):model()):iter() do
          local on = origin + quarters(note:time())
          local off = math.min(finish, on + quarters(note:length()))
          if on >= math.max(begin, zero) - 1e-6 and on < math.min(finish, stop) - 1e-6 then
            notes[#notes + 1] = { math.max(0, tick(on)), tick(off) - tick(on), note:note(), note:velocity() }
            on_drums = on_drums + (note:channel() == 9 and 1 or 0)
          end
        end
      end
    end
    if #notes > 0 then
      local program, is_drum = midi.sound(route:name())
      numbers[route:to_stateful():id():to_s()] = #song.tracks
      song.tracks[#song.tracks + 1] =
        { name = route:name(), program = program, drum = is_drum or 2 * on_drums > #notes, notes = notes }
    end
  end
  return song, numbers
end

local function is_up() -- by the answer, since Ardour's window takes the exit status
  local file = Session:path() .. "/musicgen-server.txt"
  os.execute(midi.ping(file))
  local is_there = midi.read(file) ~= ""
  os.remove(file)
  return is_there
end

local function wait_for_server()
  for try = 0, 60 do
    if is_up() then return end
    if try == 0 then os.execute('"' .. midi.program .. '" app --no-browser >/dev/null 2>&1 &') end
    ARDOUR.LuaAPI.usleep(300000)
  end
  error({ "musicgen does not answer; run `musicgen app --no-browser` in a terminal." })
end

local function main(action, part)
  local from, to, chosen = selection()
  local first, last = bar_at(from), bar_at(to - 1e-5)
  local zero, follows = math.max(1, first - AROUND), action == "continue" or action == "end"
  if follows then
    local count = last - first + 1
    first, last = last + 1, last + (action == "end" and math.min(4, count) or count)
  end
  local song, numbers = song_of(zero, follows and first - 1 or last + AROUND // 2)
  if #song.tracks == 0 then error({ "There are no notes around the selection; select others." }) end
  local wanted = { result = "new", seed = math.random(0, 999999999) }
  wanted["do"], wanted.bars = action, ("%d-%d"):format(first - zero + 1, last - zero + 1)
  if action == "accompany" then
    if part == "" then error({ "Name the part to write, such as bass, drums or strings." }) end
    wanted.parts = "+" .. part:gsub("^%+", "")
  elseif action == "rewrite" then
    local parts = {}
    for id in pairs(chosen) do if numbers[id] then parts[#parts + 1] = numbers[id] end end
    if #parts == 0 then error({ "Select the tracks to write, too." }) end
    table.sort(parts)
    wanted.parts = table.concat(parts, ",")
  end
  wait_for_server()
  local folder = Session:path() .. "/"
  local file, answer = folder .. "musicgen-song.mid", folder .. "musicgen-answer.mid"
  midi.write(file, midi.encode(song))
  os.execute(midi.request(wanted, file, answer, "audio/midi"))
  local text = midi.read(answer)
  os.remove(file)
  os.remove(answer)
  if text:sub(1, 4) ~= "MThd" then error({ midi.answer(text).error or "The server has stopped; nothing was written." }) end
  local files, parts = C.StringVector(), midi.parts(text)
  for n, part in ipairs(parts) do -- tracks are named as their files
    part.path = ("%s%s%s.mid"):format(folder, (part[1]:gsub("[^%w %-]", "_")), n > 1 and " " .. n or "")
    midi.write(part.path, part[2])
    files:push_back(part.path)
  end
  Editor:do_import(files, Editing.ImportDistinctFiles, Editing.ImportAsTrack, ARDOUR.SrcQuality.SrcBest,
    ARDOUR.MidiTrackNameSource.SMFTrackName, ARDOUR.MidiTempoMapDisposition.SMFTempoIgnore,
    bar(zero).at, ARDOUR.PluginInfo(), ARDOUR.Track(), false)
  for _, part in ipairs(parts) do os.remove(part.path) end
end

local asked = LuaDialog.Dialog("musicgen", {
  { type = "dropdown", key = "action", title = "Do", values = ACTIONS, default = "Write a part" },
  { type = "entry", key = "part", title = "Part to write", default = "bass" },
}):run()
if asked then
  math.randomseed(os.time())
  local ok, problem = pcall(main, asked["action"], asked["part"] or "")
  if not ok then say(type(problem) == "table" and problem[1] or tostring(problem)) end
end

end end
