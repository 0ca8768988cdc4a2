-- A stand-in of REAPER's functions that musicgen_reaper.lua calls: `lua reaper.lua SCRIPT PROJECT CHOICE [TEXT]`.
--
-- PROJECT is a Lua file that returns bars {top, low, tempo}, tracks with items {from, to, audio, notes {on, off, pitch,
-- velocity, channel}} in quarter notes, and the selection. The project is printed at the end, one line for each thing.
local script, path, choice, text = arg[1], arg[2], tonumber(arg[3]), arg[4]
local project = dofile(path)
local changes, undo, open_blocks, later, begun = 0, 0, 0, {}, os.time()
math.randomseed(tonumber(os.getenv("MUSICGEN_SEED") or 1))
math.randomseed = function() end -- the script takes one by the clock
local WITHIN = 60 -- seconds

local function bar(number)
  local quarter, time = 0, 0
  for n = 0, number do
    local one = project.bars[n + 1] or project.bars[#project.bars]
    local length = one.length or 4 * one[1] / one[2]
    if n == number then return quarter, quarter + length, one[1], one[2], one[3], time end
    quarter, time = quarter + length, time + length * 60 / one[3]
  end
end

local function to_time(quarter)
  local n = 0
  while true do
    local first, last, _, _, tempo, time = bar(n)
    if quarter < last then return time + (quarter - first) * 60 / tempo end
    n = n + 1
  end
end

local function to_quarter(seconds)
  local n = 0
  while true do
    local first, last, _, _, tempo, time = bar(n)
    local quarter = first + (seconds - time) * tempo / 60
    if quarter < last then return quarter end
    n = n + 1
  end
end

for _, track in ipairs(project.tracks) do
  for _, item in ipairs(track.items) do
    item.track, item.takes = track, { { notes = item.notes or {}, audio = item.audio } }
    item.active = item.takes[1]
    item.active.item = item
  end
end

local function changed() changes = changes + 1 end

local function selected(list)
  local found = {}
  for _, one in ipairs(list) do if one.selected then found[#found + 1] = one end end
  return found
end

local function items()
  local found = {}
  for _, track in ipairs(project.tracks) do for _, item in ipairs(track.items) do found[#found + 1] = item end end
  return found
end

local PPQ = 960
local function ppq_origin(take) return take.item.from end

reaper = {
  MB = function(said) print("said|" .. said) end,
  CountSelectedMediaItems = function() return #selected(items()) end,
  GetSelectedMediaItem = function(_, n) return selected(items())[n + 1] end,
  CountSelectedTracks = function() return #selected(project.tracks) end,
  GetSelectedTrack = function(_, n) return selected(project.tracks)[n + 1] end,
  CountTracks = function() return #project.tracks end,
  GetTrack = function(_, n) return project.tracks[n + 1] end,
  GetTrackName = function(track) return true, track.name end,
  GetMediaItem_Track = function(item) return item.track end,
  CountTrackMediaItems = function(track) return #track.items end,
  GetTrackMediaItem = function(track, n) return track.items[n + 1] end,
  GetActiveTake = function(item) return item.active end,
  TakeIsMIDI = function(take) return not take.audio end,
  GetMediaItemInfo_Value = function(item, name)
    if name == "D_POSITION" then return to_time(item.from) end
    if name == "D_LENGTH" then return to_time(item.to) - to_time(item.from) end
    return item.muted and 1 or 0
  end,
  GetMediaTrackInfo_Value = function(track)
    for n, one in ipairs(project.tracks) do if one == track then return n end end
  end,
  GetSet_LoopTimeRange = function()
    local range = project.range
    if not range then return 0, 0 end
    return to_time(range[1]), to_time(range[2])
  end,
  TimeMap_GetMeasureInfo = function(_, number)
    local first, last, top, low, tempo, time = bar(number)
    return time, first, last, top, low, tempo
  end,
  TimeMap2_timeToQN = function(_, time) return to_quarter(time) end,
  TimeMap2_QNToTime = function(_, quarter) return to_time(quarter) end,
  MIDI_CountEvts = function(take) return true, #take.notes, 0, 0 end,
  MIDI_GetNote = function(take, n)
    local note, origin = take.notes[n + 1], ppq_origin(take)
    return true, false, false, (note[1] - origin) * PPQ, (note[2] - origin) * PPQ, note[5] or 0, note[3], note[4]
  end,
  MIDI_GetProjQNFromPPQPos = function(take, ppq) return ppq_origin(take) + ppq / PPQ end,
  MIDI_GetPPQPosFromProjQN = function(take, quarter) return (quarter - ppq_origin(take)) * PPQ end,
  MIDI_InsertNote = function(take, _, _, on, off, channel, pitch, velocity)
    changed()
    local origin = ppq_origin(take)
    table.insert(take.notes, { origin + on / PPQ, origin + off / PPQ, pitch, velocity, channel })
  end,
  MIDI_Sort = function() end,
  InsertTrackAtIndex = function(n)
    changed()
    table.insert(project.tracks, n + 1, { name = "", items = {} })
  end,
  GetSetMediaTrackInfo_String = function(track, _, name) track.name = name end,
  CreateNewMIDIItemInProj = function(track, from, to)
    changed()
    local item = { track = track, from = to_quarter(from), to = to_quarter(to), takes = { { notes = {} } } }
    item.active, item.takes[1].item = item.takes[1], item
    table.insert(track.items, item)
    return item
  end,
  SplitMediaItem = function(item, time)
    changed()
    assert(open_blocks == 1, "an item is split outside an undo block")
    local at = to_quarter(time)
    if at <= item.from or at >= item.to then return nil end
    local right = { track = item.track, from = at, to = item.to, takes = {} }
    for n, take in ipairs(item.takes) do
      local all, other = take.notes, { notes = {}, audio = take.audio, item = right }
      take.notes, right.takes[n] = {}, other
      for _, note in ipairs(all) do table.insert(note[1] < at and take.notes or other.notes, note) end
      if take == item.active then right.active = other end
    end
    item.to = at
    for n, one in ipairs(item.track.items) do
      if one == item then table.insert(item.track.items, n + 1, right) break end
    end
    return right
  end,
  AddTakeToMediaItem = function(item)
    changed()
    local take = { notes = {}, audio = true, item = item }
    table.insert(item.takes, take)
    return take
  end,
  PCM_Source_CreateFromType = function(kind) return kind end,
  SetMediaItemTake_Source = function(take, source) take.audio = source ~= "MIDI" end,
  SetActiveTake = function(take) take.item.active = take end,
  Undo_BeginBlock2 = function() open_blocks = open_blocks + 1 end,
  Undo_EndBlock2 = function(_, title)
    open_blocks, undo = open_blocks - 1, undo + 1
    print("undo|" .. title)
  end,
  PreventUIRefresh = function() end,
  UpdateArrange = function() end,
  TrackCtl_SetToolTip = function(said) if said ~= "" then print("tip|" .. said) end end,
  GetResourcePath = function() return os.getenv("HOME") end,
  GetProjectStateChangeCount = function()
    if project.edited_meanwhile then changed() end
    return changes
  end,
  time_precise = function() return os.time() end,
  GetUserInputs = function() return text ~= nil, text or "" end,
  ExecProcess = function(command, timeout)
    if timeout == -2 then
      os.execute(command .. " >/dev/null 2>&1 &")
      return nil
    end
    local _, _, code = os.execute(command .. " >/dev/null 2>&1")
    return code .. "\n"
  end,
  defer = function(what) later[#later + 1] = what end,
}
gfx = { init = function() end, quit = function() end, showmenu = function() return choice end }

dofile(script)
while #later > 0 do
  if os.time() > begun + WITHIN then error("the script has not finished") end
  os.execute("sleep 0.02")
  table.remove(later, 1)()
end
assert(open_blocks == 0, "an undo block is open")
for _, track in ipairs(project.tracks) do
  print("track|" .. track.name)
  for _, item in ipairs(track.items) do
    print(("item|%.4f|%.4f"):format(item.from, item.to))
    for _, take in ipairs(item.takes) do
      print("take|" .. (take == item.active and "active" or "kept"))
      for _, note in ipairs(take.notes) do
        print(("note|%.4f|%.4f|%d|%d|%d"):format(note[1], note[2], note[3], note[4], note[5] or 0))
      end
    end
  end
end
