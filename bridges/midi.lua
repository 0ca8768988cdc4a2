-- MIDI files and requests to `musicgen app`, for scripts in Lua; `musicgen bridge install` puts this into each of them.
local midi = { tpb = 480, program = "musicgen" }

-- What a track with no program of its own may be, by its name: words, and the program of General MIDI.
local SOUNDS = {
  { "bass", 33 }, { "organ", 16 }, { "guitar", 25 }, { "violin", 40 }, { "viola", 41 }, { "cello", 42 },
  { "string", 48 }, { "choir", 52 }, { "voice", 53 }, { "vocal", 53 }, { "trumpet", 56 }, { "trombone", 57 },
  { "tuba", 58 }, { "horn", 60 }, { "brass", 61 }, { "sax", 65 }, { "oboe", 68 }, { "clarinet", 71 },
  { "flute", 73 }, { "lead", 80 }, { "pad", 88 }, { "marimba", 12 }, { "harp", 46 },
}

function midi.sound(name)
  local plain = name:lower()
  for _, word in ipairs { "drum", "perc", "kit", "beat" } do
    if plain:find(word, 1, true) then return 0, true end
  end
  for _, sound in ipairs(SOUNDS) do
    if plain:find(sound[1], 1, true) then return sound[2], false end
  end
  return 0, false
end

local function vlq(value)
  local bytes = string.char(value & 127)
  while value > 127 do
    value = value >> 7
    bytes = string.char(128 | (value & 127)) .. bytes
  end
  return bytes
end

local function meta(kind, data) return "\xff" .. string.char(kind) .. vlq(#data) .. data end

-- Events: {tick, rank, bytes}; a note ends before another one starts.
local function chunk(events)
  table.sort(events, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  local parts, now = {}, 0
  for _, event in ipairs(events) do
    parts[#parts + 1] = vlq(event[1] - now) .. event[3]
    now = event[1]
  end
  local body = table.concat(parts) .. "\0" .. meta(0x2f, "")
  return "MTrk" .. string.pack(">I4", #body) .. body
end

-- The number of the bar at a quarter note; bar(number), from `first` on: its start and end in quarter notes.
function midi.bar_at(bar, first, quarter)
  while bar(first).last <= quarter + 1e-6 do first = first + 1 end
  return first
end

-- A song with the tempos and metres from one bar to another, and what gives the tick of a quarter note in it.
function midi.empty_song(bar, first, last)
  local zero, song, before = bar(first).first, { tempos = {}, meters = {}, tracks = {} }, nil
  local function tick(quarter) return math.floor((quarter - zero) * midi.tpb + 0.5) end
  for number = first, last do
    local now = bar(number)
    if not before or before.is_cut or now.top ~= before.top or now.low ~= before.low then
      song.meters[#song.meters + 1] = { tick(now.first), now.top, now.low }
    end
    if not before or now.tempo ~= before.tempo then song.tempos[#song.tempos + 1] = { tick(now.first), now.tempo } end
    before = now
  end
  return song, tick
end

-- song: tempos {tick, bpm}, meters {tick, top, low}, tracks {name, program, drum, notes {tick, length, pitch, velocity}}
function midi.encode(song)
  local first = {}
  for _, tempo in ipairs(song.tempos) do
    first[#first + 1] = { tempo[1], 1, meta(0x51, string.pack(">I3", math.floor(6e7 / tempo[2] + 0.5))) }
  end
  for _, meter in ipairs(song.meters) do
    local power = math.floor(math.log(meter[3], 2) + 0.5)
    first[#first + 1] = { meter[1], 0, meta(0x58, string.char(meter[2], power, 24, 8)) }
  end
  local chunks = { chunk(first) }
  for number, track in ipairs(song.tracks) do
    local channel = track.drum and 9 or (number - 1) % 15
    if not track.drum and channel > 8 then channel = channel + 1 end
    local events = { { 0, 0, meta(3, track.name) }, { 0, 1, string.char(0xc0 | channel, track.program) } }
    for _, note in ipairs(track.notes) do
      events[#events + 1] = { note[1], 3, string.char(0x90 | channel, note[3], math.max(1, note[4])) }
      events[#events + 1] = { note[1] + math.max(1, note[2]), 2, string.char(0x80 | channel, note[3], 0) }
    end
    chunks[#chunks + 1] = chunk(events)
  end
  return "MThd" .. string.pack(">I4I2I2I2", 6, 1, #chunks, midi.tpb) .. table.concat(chunks)
end

local function number_at(text, at) -- of variable length, and what follows it
  local value, byte = 0, nil
  repeat
    byte = text:byte(at)
    value, at = (value << 7) | (byte & 127), at + 1
  until byte < 128
  return value, at
end

-- The name of a track, and whether it has notes.
local function described(track)
  local at, status, name, has_notes = 1, 0, "", false
  while at <= #track do
    local size
    _, at = number_at(track, at)
    if track:byte(at) >= 128 then status, at = track:byte(at), at + 1 end
    if status >= 0xf0 then
      local kind = track:byte(at)
      size, at = number_at(track, status == 0xff and at + 1 or at)
      if status == 0xff and kind == 3 then name = track:sub(at, at + size - 1) end
    else
      size, has_notes = status & 0xe0 == 0xc0 and 1 or 2, has_notes or status & 0xf0 == 0x90
    end
    at = at + size
  end
  return name, has_notes
end

-- The tracks of a file that have notes, each as a file of its own: {name, bytes}.
function midi.parts(file)
  local found, at = {}, 15
  while at + 8 <= #file do
    local size = string.unpack(">I4", file, at + 4)
    local name, has_notes = described(file:sub(at + 8, at + 7 + size))
    if has_notes then
      local head = "MThd" .. string.pack(">I4I2I2", 6, 0, 1) .. file:sub(13, 14)
      found[#found + 1] = { name, head .. file:sub(at, at + 7 + size) }
    end
    at = at + 8 + size
  end
  return found
end

-- The content of a file; empty if it is missing.
function midi.read(path)
  local file = io.open(path, "rb")
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text
end

function midi.write(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end

function midi.home() return os.getenv("HOME") or os.getenv("USERPROFILE") or "." end

-- The address of the server and its token: as its file says, or else the usual port.
function midi.server()
  local said = midi.read(midi.home() .. "/.musicgen/server.json")
  return (said:match('"address": "(.-)/?"') or "http://127.0.0.1:7860"), said:match('"token": "(.-)"') or ""
end

local function quoted(text) return '"' .. text .. '"' end

local function encoded(value)
  return (tostring(value):gsub("[^%w%-_.]", function(c) return ("%%%02X"):format(c:byte()) end))
end

-- The command that sends a file and writes the answer to another one: a MIDI file, or lines with the progress. When it has
-- ended, for whatever reason, a server that is there answers to the file `ended`.
function midi.request(wanted, file, answer, accept, ended)
  local address, token = midi.server()
  local query = {}
  for name, value in pairs(wanted) do query[#query + 1] = name .. "=" .. encoded(value) end
  table.sort(query)
  return table.concat({
    "curl -sN -m 620 -H", quoted("Accept: " .. (accept or "application/x-ndjson")),
    token ~= "" and "-H " .. quoted("Authorization: Bearer " .. token) or "",
    "-H", quoted("Content-Type: audio/midi"), "--data-binary", quoted("@" .. file), "-o", quoted(answer),
    quoted(address .. "/write?" .. table.concat(query, "&")),
    ended and "--next " .. midi.ping(ended):gsub("^curl ", "") or "",
  }, " ")
end

-- The command that asks whether the server is there, for up to 20 seconds if it is busy; its answer goes to a file.
function midi.ping(answer, seconds)
  return ("curl -s -m %d -o %s %s"):format(seconds or 20, quoted(answer), quoted(midi.server() .. "/robots.txt"))
end

local function text_of(json)
  json = json:gsub("\\u(%x%x%x%x)", function(code) return utf8.char(tonumber(code, 16)) end)
  return (json:gsub("\\(.)", "%1"))
end

-- What an answer says so far: a take, or an error, or else the progress.
function midi.answer(text)
  local detail = text:match('"detail":"(.-)"}')
  if detail then return { error = text_of(detail) } end
  local takes = text:match('"takes":(.*)}%s*$')
  if not takes then
    local done, of
    for a, b in text:gmatch('"bars":(%d+),"of":(%d+)') do done, of = tonumber(a), tonumber(b) end
    return { done = done, of = of }
  end
  local remark = takes:match('"remark":"(.-)"[,}]')
  if remark then return { error = text_of(remark) } end
  local take = { notes = {}, tracks = {}, chords = {} }
  for name, program, drum in (takes:match('"tracks":(%b[])') or ""):gmatch('{"name":"(.-)","program":(%d+),"drum":(%a+)}') do
    take.tracks[#take.tracks + 1] = { name = text_of(name), program = tonumber(program), drum = drum == "true" }
  end
  for track, tick, length, pitch, velocity in (takes:match('"notes":(%b[])') or ""):gmatch("%[(%d+),(%d+),(%d+),(%d+),(%d+)%]") do
    take.notes[#take.notes + 1] = {
      track = tonumber(track), tick = tonumber(tick), length = tonumber(length),
      pitch = tonumber(pitch), velocity = tonumber(velocity),
    }
  end
  for tick, name in (takes:match('"chords":(%b[])') or ""):gmatch('%[(%d+),"(.-)"%]') do
    take.chords[#take.chords + 1] = { tick = tonumber(tick), name = text_of(name) }
  end
  return { take = take }
end
