-- One group of what nodes ask, in one indivisible step: leases first, then transactions, each whole or not at all.
-- It answers as `Store` of the core does. Nothing is written before all guards of a transaction are known to hold, for
-- Redis does not take back what a script wrote before it failed.
--
-- KEYS: meta, cold heads, cold values, hot heads, hot values, ends, terms, news, and what lives by a lease (a prefix).
-- ARGV: the line, the revision the asker has seen, the root of hot keys, how far time may step, how many changes are
-- remembered, then what is asked.
local META, ENDS, TERMS, NEWS, OWNED = KEYS[1], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local HOT, STEP, REMEMBERED = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local call = redis.call

local meta = call('HMGET', META, 'line', 'revision', 'cold', 'clock', 'wall')
if meta[1] ~= ARGV[1] or tonumber(meta[2]) < tonumber(ARGV[2]) then
  return {'moved'}
end

-- Lua writes large numbers as 1e+15.
local function int(number)
  return string.format('%.0f', number)
end

-- Redis has no clock but the wall's, which people and time servers set. So the registry keeps a time of its own, which
-- goes on as the wall's does but never back, and never by more than STEP at once: whoever is connected acts more often.
local time = call('TIME')
local wall = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local passed = wall - tonumber(meta[5])
local now = tonumber(meta[4]) + math.max(0, math.min(passed, STEP))

local revision, cold = tonumber(meta[2]), tonumber(meta[3])
-- The revision as it is written, and how many changes it has had.
local written, nth = int(revision), 0
-- What is known of entries, and the values that were put.
local heads, values = {}, {}

local sub, hot = string.sub, #HOT
local function places(key)
  if sub(key, 1, hot) == HOT then
    return KEYS[4], KEYS[5], false
  end
  return KEYS[2], KEYS[3], true
end

-- Heads and values that were put go out together, for each call costs more than what is in it.
local waiting = {}
for i = 2, 5 do waiting[KEYS[i]] = {} end

local function send(place)
  if #waiting[place] == 0 then return end
  call('HSET', place, unpack(waiting[place]))
  waiting[place] = {}
end

local function later(place, key, value)
  local fields = waiting[place]
  local n = #fields
  fields[n + 1], fields[n + 2] = key, value
  -- Lua passes some thousand arguments at once and no more.
  if n > 2000 then send(place) end
end

-- What is known of an entry: revision, birth and owner ('0' for none); false when there is none.
local function head(key)
  local known = heads[key]
  if known == nil then
    local raw = call('HGET', places(key), key)
    known = false
    if raw then
      local at, born, owner = string.match(raw, '^(%d+) (%d+) (%d+)$')
      known = {at, born, owner}
    end
    heads[key] = known
  end
  return known
end

local function next_revision()
  revision = revision + 1
  written, nth = int(revision), 0
end

local function note(key)
  call('XADD', NEWS, 'MAXLEN', '~', REMEMBERED, written .. '-' .. nth, 'key', key)
  nth = nth + 1
  cold = revision
end

local function put(key, value, owner)
  local old = head(key)
  if old and old[3] ~= '0' and old[3] ~= owner then
    call('SREM', OWNED .. old[3], key)
  end
  if owner ~= '0' and not (old and old[3] == owner) then
    call('SADD', OWNED .. owner, key)
  end
  local new = {written, old and old[2] or written, owner}
  local heads_at, values_at, is_cold = places(key)
  later(heads_at, key, new[1] .. ' ' .. new[2] .. ' ' .. owner)
  later(values_at, key, value)
  heads[key], values[key] = new, value
  if is_cold then note(key) end
end

local function remove(key)
  local old = head(key)
  if not old then return end
  if old[3] ~= '0' then call('SREM', OWNED .. old[3], key) end
  local heads_at, values_at, is_cold = places(key)
  -- It may be among what was put.
  send(heads_at)
  send(values_at)
  call('HDEL', heads_at, key)
  call('HDEL', values_at, key)
  heads[key], values[key] = false, nil
  if is_cold then note(key) end
end

local function close(lease)
  if call('ZREM', ENDS, lease) == 0 then return end
  call('HDEL', TERMS, lease)
  local owned = call('SMEMBERS', OWNED .. lease)
  if #owned == 0 then return end
  table.sort(owned)
  next_revision()
  for _, key in ipairs(owned) do remove(key) end
end

local function alive(lease)
  return call('ZSCORE', ENDS, lease)
end

local at = 6
local function take()
  at = at + 1
  return ARGV[at - 1]
end

local function take_keys()
  local keys = {}
  for i = 1, tonumber(take()) do keys[i] = take() end
  return keys
end

local function as_they_stand(keys)
  local found = {written, ''}
  for _, key in ipairs(keys) do
    local entry = head(key)
    local _, values_at = places(key)
    found[#found + 1] = entry and table.concat(entry, ' ') or false
    found[#found + 1] = entry and (values[key] or call('HGET', values_at, key)) or false
  end
  return found
end

local function holds(kind, key, value)
  if kind == 'O' then return alive(value) end
  if kind == 'N' then return false end
  local entry = head(key)
  if kind == 'A' then return not entry end
  if kind == 'P' then return entry end
  if kind == '=' then return entry and entry[1] == value end
  return entry and entry[2] == value
end

local function transact()
  local keys, made, writes, changes = take_keys(), true, {}, false
  for _ = 1, tonumber(take()) do
    local kind, key, value = take(), keys[tonumber(take())], take()
    made = made and holds(kind, key, value)
  end
  for i = 1, tonumber(take()) do
    local kind, key = take(), keys[tonumber(take())]
    if kind == 'P' then
      local value, owner = take(), take()
      -- An entry cannot live by a lease that has ended, so that is refused as if it had been guarded on.
      made = made and (owner == '' or alive(owner))
      writes[i] = {key, value, owner == '' and '0' or owner}
      changes = true
    else
      writes[i] = {key}
      changes = changes or head(key)
    end
  end
  if not made then return as_they_stand(keys) end
  if changes then next_revision() end
  for _, write in ipairs(writes) do
    if write[2] then put(write[1], write[2], write[3]) else remove(write[1]) end
  end
  return {written}
end

local function open()
  local ttl = take()
  local lease = int(call('HINCRBY', META, 'lease', 1))
  call('ZADD', ENDS, int(now + tonumber(ttl)), lease)
  call('HSET', TERMS, lease, ttl)
  return {lease, ttl}
end

local function renew()
  local lease = take()
  local ttl = call('HGET', TERMS, lease)
  if not ttl then return {} end
  call('ZADD', ENDS, int(now + tonumber(ttl)), lease)
  return {lease, ttl}
end

-- Every group first ends the leases whose time is over, in the order of their numbers.
local over = call('ZRANGEBYSCORE', ENDS, '-inf', int(now))
-- When the memory is full Redis still deletes, but puts nothing: whoever puts first is told so before anything is deleted.
if #over > 0 or at <= #ARGV then call('HSET', META, 'revision', meta[2]) end
table.sort(over, function(a, b) return tonumber(a) < tonumber(b) end)
for _, lease in ipairs(over) do close(lease) end

local answers = {}
while at <= #ARGV do
  local verb, answer = take(), {}
  if verb == 'T' then
    answer = transact()
  elseif verb == 'R' then
    answer = renew()
  elseif verb == 'O' then
    answer = open()
  else
    close(take())
  end
  answers[#answers + 1] = answer
end

for i = 2, 5 do send(KEYS[i]) end
if revision ~= tonumber(meta[2]) then
  call('HSET', META, 'revision', written, 'cold', int(cold))
end
-- Each writing of the time costs a sync of the disk, so small steps are put together.
if passed < 0 or passed > 150 then
  call('HSET', META, 'clock', int(now), 'wall', int(wall))
end
local first = call('ZRANGE', ENDS, 0, 0, 'WITHSCORES')
local next_end = first[2] and int(math.max(0, tonumber(first[2]) - now)) or ''
return {'ok', written, int(cold), int(wall), next_end, answers}
