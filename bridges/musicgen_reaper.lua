-- musicgen in REAPER: select MIDI items, or bars and tracks by a time selection, and run this action.
--
-- All MIDI items around the selection go to `musicgen app` on this machine, with tempos and metres. New music becomes
-- another take of an item, which is split at the selection if it is longer, an item in a gap, or a new track below;
-- nothing else changes, and undo is one step.
-- include midi.lua

local AROUND = 64 -- bars before the selection that are heard, and half as many after it
local LONGEST = 660 -- seconds for a request, which ends by itself before
local ACTIONS = { "Fill the selection", "Continue after it", "End after it", "Write a part …", "Harmonise" }
local EMPTY, AUDIO = "Select MIDI items, or bars by a time selection.", "Audio cannot be read; select MIDI items."

local function say(text) reaper.MB(text, "musicgen", 0) end

-- What is selected.

local function name_of(track)
  local _, name = reaper.GetTrackName(track)
  return name
end

local function span(item)
  local start = reaper.GetMediaItemInfo_Value(item, "D_POSITION")
  return start, start + reaper.GetMediaItemInfo_Value(item, "D_LENGTH")
end

-- The start and the end in seconds, and the tracks in their order.
local function selection()
  local start, stop, found, is_audio = math.huge, 0, {}, false
  for n = 0, reaper.CountSelectedMediaItems(0) - 1 do
    local item = reaper.GetSelectedMediaItem(0, n)
    local take = reaper.GetActiveTake(item)
    if take and not reaper.TakeIsMIDI(take) then
      is_audio = true
    else
      local from, to = span(item)
      start, stop = math.min(start, from), math.max(stop, to)
      found[reaper.GetMediaItem_Track(item)] = true
    end
  end
  if not next(found) then
    if is_audio then error({ AUDIO }) end
    start, stop = reaper.GetSet_LoopTimeRange(false, false, 0, 0, false)
    if stop <= start then error({ EMPTY }) end
    for n = 0, reaper.CountSelectedTracks(0) - 1 do found[reaper.GetSelectedTrack(0, n)] = true end
  end
  local tracks = {}
  for n = 0, reaper.CountTracks(0) - 1 do
    local track = reaper.GetTrack(0, n)
    if found[track] then tracks[#tracks + 1] = track end
  end
  return start, stop, tracks
end

-- Bars from 0: their start and end in quarter notes, and their metre.
local function bar(number)
  local _, first, last, top, low, tempo = reaper.TimeMap_GetMeasureInfo(0, number)
  local is_cut = math.abs(last - first - 4 * top / low) > 1e-6
  return { first = first, last = last, top = top, low = low, tempo = tempo, is_cut = is_cut }
end

local function bar_at(quarter) return midi.bar_at(bar, 0, quarter) end

-- The music from one bar to another as a song, and its tracks: those with notes.
local function song_of(from, to)
  local zero, stop = bar(from).first, bar(to).last
  local tracks, song, tick = {}, midi.empty_song(bar, from, to)
  for n = 0, reaper.CountTracks(0) - 1 do
    local track, notes, on_drums = reaper.GetTrack(0, n), {}, 0
    for i = 0, reaper.CountTrackMediaItems(track) - 1 do
      local item = reaper.GetTrackMediaItem(track, i)
      local take = reaper.GetActiveTake(item)
      local begin, finish = span(item)
      begin, finish = reaper.TimeMap2_timeToQN(0, begin), reaper.TimeMap2_timeToQN(0, finish)
      if take and reaper.TakeIsMIDI(take) and reaper.GetMediaItemInfo_Value(item, "B_MUTE") == 0 then
        local _, count = reaper.MIDI_CountEvts(take)
        for k = 0, count - 1 do
          local _, _, muted, on, off, channel, pitch, velocity = reaper.MIDI_GetNote(take, k)
          on, off = reaper.MIDI_GetProjQNFromPPQPos(take, on), reaper.MIDI_GetProjQNFromPPQPos(take, off)
          off = math.min(off, finish)
          if not muted and on >= math.max(begin, zero) - 1e-6 and on < math.min(finish, stop) - 1e-6 then
            notes[#notes + 1] = { math.max(0, tick(on)), tick(off) - tick(on), pitch, velocity }
            on_drums = on_drums + (channel == 9 and 1 or 0)
          end
        end
      end
    end
    if #notes > 0 then
      local name = name_of(track)
      local program, is_drum = midi.sound(name)
      is_drum = is_drum or 2 * on_drums > #notes
      song.tracks[#song.tracks + 1] = { name = name, program = program, drum = is_drum, notes = notes }
      tracks[#tracks + 1] = track
    end
  end
  return song, tracks
end

-- Writing.

local function below(track, name)
  local index = math.floor(reaper.GetMediaTrackInfo_Value(track, "IP_TRACKNUMBER"))
  reaper.InsertTrackAtIndex(index, true)
  local new = reaper.GetTrack(0, index)
  reaper.GetSetMediaTrackInfo_String(new, "P_NAME", name, true)
  return new
end

local function another_take(item)
  local take = reaper.AddTakeToMediaItem(item)
  reaper.SetMediaItemTake_Source(take, reaper.PCM_Source_CreateFromType("MIDI"))
  reaper.SetActiveTake(take)
  return take
end

-- A new take of the item that fills a span, or of what a longer one has there, or a new item in a gap, or one on a new
-- track below.
local function room(track, from, to, name)
  local there = {}
  for n = 0, reaper.CountTrackMediaItems(track) - 1 do
    local item = reaper.GetTrackMediaItem(track, n)
    local start, stop = span(item)
    if math.abs(start - from) < 1e-3 and math.abs(stop - to) < 1e-3 then return another_take(item) end
    if stop > from + 1e-6 and start < to - 1e-6 then there[#there + 1] = item end
  end
  local item = there[1]
  local take = #there == 1 and reaper.GetActiveTake(item)
  if take and reaper.TakeIsMIDI(take) then
    local start, stop = span(item)
    if start < from + 1e-3 and stop > to - 1e-3 then
      if stop > to + 1e-3 then reaper.SplitMediaItem(item, to) end
      if start < from - 1e-3 then item = reaper.SplitMediaItem(item, from) end
      return another_take(item)
    end
  end
  if item then track = below(track, name) end
  return reaper.GetActiveTake(reaper.CreateNewMIDIItemInProj(track, from, to, false))
end

local function put(take, notes, zero, from, to, channel)
  for _, note in ipairs(notes) do
    local on = zero + note.tick / midi.tpb
    local off = math.min(on + note.length / midi.tpb, to)
    if on >= from - 1e-6 and on < to - 1e-6 then
      local first, last = reaper.MIDI_GetPPQPosFromProjQN(take, on), reaper.MIDI_GetPPQPosFromProjQN(take, off)
      reaper.MIDI_InsertNote(take, false, false, first, last, channel, note.pitch, note.velocity, true)
    end
  end
  reaper.MIDI_Sort(take)
end

-- Write a take of the server; `targets` are the tracks by the number of their chunk in the file.
local function write(take, job)
  local from, to = job.from, job.to
  local begin, finish = reaper.TimeMap2_QNToTime(0, from), reaper.TimeMap2_QNToTime(0, to)
  local by_track, numbers = {}, {}
  for _, note in ipairs(take.notes) do
    if not by_track[note.track] then numbers[#numbers + 1] = note.track end
    by_track[note.track] = by_track[note.track] or {}
    table.insert(by_track[note.track], note)
  end
  if #numbers == 0 then error({ "musicgen wrote no notes; ask again." }) end
  table.sort(numbers)
  reaper.Undo_BeginBlock2(0)
  reaper.PreventUIRefresh(1)
  for _, number in ipairs(numbers) do
    local about, track = take.tracks[number + 1] or { name = "musicgen" }, job.targets[number]
    if not track then
      track = job.new_on or below(job.last, about.name)
    end
    put(room(track, begin, finish, name_of(track) .. " (musicgen)"), by_track[number], job.zero, from, to, about.drum and 9 or 0)
  end
  reaper.PreventUIRefresh(-1)
  reaper.UpdateArrange()
  reaper.Undo_EndBlock2(0, "musicgen: " .. job.title, -1)
end

-- Asking, without blocking REAPER.

-- Whether the server is there; a busy one does not answer in time, a missing one is noticed at once.
local function is_up()
  local file = reaper.GetResourcePath() .. "/musicgen-server.txt"
  local status = (reaper.ExecProcess(midi.ping(file, 2), 3000) or "1"):match("^(%-?%d+)")
  os.remove(file)
  return status == "0" or status == "28"
end

local function ask(job)
  local folder = reaper.GetResourcePath()
  local file, answer, ended = folder .. "/musicgen-song.mid", folder .. "/musicgen-answer.json", folder .. "/musicgen-end.txt"
  local tries, changes, looked, asked = 0, reaper.GetProjectStateChangeCount(0), reaper.time_precise(), nil
  local function finish(text)
    os.remove(file)
    os.remove(answer)
    os.remove(ended)
    if text then say(text) end
  end
  local function wait()
    local has_ended = midi.read(ended) ~= ""
    local said = midi.answer(midi.read(answer))
    if not has_ended then
      if said.of then reaper.TrackCtl_SetToolTip(("musicgen: bar %d of %d"):format(said.done, said.of), 100, 100, true) end
      if reaper.time_precise() < looked + 2 then return reaper.defer(wait) end
      looked = reaper.time_precise()
      local is_complete = said.take or said.error
      if not is_complete and looked < asked + LONGEST and is_up() then return reaper.defer(wait) end
    end
    if said.error then return finish(said.error) end
    if not said.take then return finish("The server has stopped; nothing was written.") end
    reaper.TrackCtl_SetToolTip("", 0, 0, true)
    if reaper.GetProjectStateChangeCount(0) ~= changes then
      return finish("The project has changed meanwhile; nothing was written: ask again.")
    end
    local ok, problem = pcall(write, said.take, job)
    finish(not ok and (type(problem) == "table" and problem[1] or problem) or nil)
  end
  local function begin()
    if not is_up() then
      if tries == 0 then reaper.ExecProcess('"' .. midi.program .. '" app --no-browser', -2) end
      tries = tries + 1
      if tries > 60 then return finish("musicgen does not answer; run `musicgen app --no-browser` in a terminal.") end
      local since = reaper.time_precise()
      local function pause()
        if reaper.time_precise() < since + 0.3 then return reaper.defer(pause) end
        begin()
      end
      return reaper.defer(pause)
    end
    os.remove(answer)
    os.remove(ended)
    midi.write(file, midi.encode(job.song))
    asked = reaper.time_precise()
    reaper.ExecProcess(midi.request(job.wanted, file, answer, nil, ended), -2)
    reaper.defer(wait)
  end
  begin()
end

local function instrument(title)
  local is_given, text = reaper.GetUserInputs("musicgen", 1, title .. ",extrawidth=120", "")
  text = is_given and text:match("^%s*(.-)%s*$") or ""
  if text == "" then error({ "An instrument is needed, such as bass, drums or strings." }) end
  return text
end

local function main(action)
  local start, stop, selected = selection()
  local from, to = reaper.TimeMap2_timeToQN(0, start), reaper.TimeMap2_timeToQN(0, stop)
  local first, last = bar_at(from), bar_at(to - 1e-5)
  local zero = math.max(0, first - AROUND)
  local wanted = { seed = math.random(0, 999999999), result = "new" }
  local count = last - first + 1
  if action == 2 or action == 3 then -- bars as many as selected, or an ending of four at most
    wanted["do"] = action == 2 and "continue" or "end"
    count = action == 3 and math.min(4, count) or count
    first, last = last + 1, last + count
    from, to = bar(first).first, bar(last).last
    if #song_of(first, last).tracks > 0 then
      error({ "The bars after the selection have notes; select them, and choose Fill the selection." })
    end
  end
  local song, tracks = song_of(zero, action ~= 2 and action ~= 3 and last + AROUND // 2 or first - 1)
  if #song.tracks == 0 then error({ "There are no notes around the selection to write to; select other bars." }) end
  wanted.bars = ("%d-%d"):format(first - zero + 1, last - zero + 1)
  local job = { song = song, wanted = wanted, zero = bar(zero).first, from = from, to = to, targets = {} }
  job.title = ACTIONS[action]:lower():gsub(" …", "")
  job.last = selected[#selected] or tracks[#tracks]
  local numbers = {}
  for n, track in ipairs(tracks) do numbers[track], job.targets[n] = n - 1, track end
  if action == 1 then
    local parts = {}
    wanted["do"] = "rewrite"
    for _, track in ipairs(selected) do
      if numbers[track] then
        parts[#parts + 1] = numbers[track]
      elseif job.new_on then
        error({ "Select one empty track at a time." })
      else
        parts[#parts + 1] = "+" .. instrument("Instrument of " .. name_of(track):gsub(",", " "))
        job.new_on = track
      end
    end
    if #parts == 0 then error({ "Select the tracks to write, too." }) end
    wanted.parts = table.concat(parts, ",")
  elseif action == 4 then
    wanted["do"], wanted.parts = "accompany", "+" .. instrument("Part to write (bass, drums …)"):gsub("^%+", "")
  elseif action == 5 then
    wanted["do"] = "harmonise"
  end
  ask(job)
end

gfx.init("musicgen", 0, 0)
local action = gfx.showmenu(table.concat(ACTIONS, "|"))
gfx.quit()
if action > 0 then
  math.randomseed(os.time())
  local ok, problem = pcall(main, action)
  if not ok then say(type(problem) == "table" and problem[1] or tostring(problem)) end
end
