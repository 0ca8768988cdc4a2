-- Runs musicgen_ardour.lua in a headless session of Ardour; only the editor's selection, import and dialogs are stand-ins.
-- Variables: SCRIPT, SESSION, KEPT (the folder for imported files), ACTION, PART, RANGE (quarters), TRACKS by name, and
-- AUDIO if a region of audio is selected.
local function var(name) return os.getenv("MUSICGEN_" .. name) end

local execute = os.execute
os.execute = function(command) -- as in the window, which ignores the ends of other processes
  execute(command)
  return nil, "No child processes", 10
end

load_session(var("SESSION"), "song")
local chosen, from, to = {}, var("RANGE"):match("(%d+)-(%d+)")

local function list(items)
  return { iter = function()
    local n = 0
    return function()
      n = n + 1
      return items[n]
    end
  end }
end

for route in Session:get_tracks():iter() do
  if ("," .. var("TRACKS") .. ","):find("," .. route:name() .. ",", 1, true) then chosen[#chosen + 1] = route end
end

local function place(quarters) return Temporal.timepos_t.from_ticks(quarters * Temporal.ticks_per_beat) end

local audio = { to_midiregion = function() return { isnil = function() return true end } end } -- a region of audio

Editing = { ImportDistinctFiles = 0, ImportAsTrack = 0 }
Editor = {
  get_selection = function()
    return {
      regions = { regionlist = function() return list(var("AUDIO") and { audio } or {}) end },
      tracks = { routelist = function() return list(chosen) end },
      time = {
        start_sample = function() return tonumber(from) end,
        end_sample = function() return tonumber(to) end,
        start_time = function() return place(tonumber(from)) end,
        end_time = function() return place(tonumber(to)) end,
      },
    }
  end,
  do_import = function(_, files, _, _, _, _, _, at)
    for n = 0, files:size() - 1 do os.rename(files:at(n), var("KEPT") .. "/" .. files:at(n):match("[^/]+$")) end
    print("at|" .. at:ticks() // Temporal.ticks_per_beat)
  end,
}
LuaDialog = {
  MessageType = {}, ButtonType = {},
  Message = function(_, text) return { run = function() print("said|" .. text) end } end,
  Dialog = function()
    return { run = function() return { action = var("ACTION"), part = var("PART") } end }
  end,
}
ardour = function() end
dofile(var("SCRIPT"))
factory()()
Session:save_state("")
close_session()
