-- One group of what nodes ask, in one indivisible step: leases first, then transactions, each whole or not at all.
-- It answers as `Store` of the core does. Nothing is written before all guards of a transaction are known to hold, for
-- Redis does not take back what a script wrote before it failed.
--
-- KEYS: meta, cold heads, cold values, hot heads, hot values, ends, terms, news, and what lives by a lease (a prefix).
-- ARGV: the line, the revision the asker has seen, the roots of hot keys, how far time may step, how many changes are
-- remembered, how many keys are named and how many of them are cold, their names with the cold ones first, then what is
-- asked, which tells keys by their numbers.
local META, ENDS, TERMS, NEWS, OWNED = KEYS[1], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local argv, call = ARGV, redis.call
local ROOTS, STEP, REMEMBERED = argv[3], tonumber(argv[4]), argv[5]
local named, cold_ones = tonumber(argv[6]), tonumber(argv[7])
-- Where what is asked begins, and where it ends.
local at, last = 8 + named, #argv
local find, match, sub = string.find, string.match, string.sub

local meta = call('HMGET', META, 'line', 'revision', 'cold', 'clock', 'wall')
if meta[1] ~= argv[1] or tonumber(meta[2]) < tonumber(argv[2]) then
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
-- Keys by their numbers. Of each the head as it is stored (false when there is none), its parts once they were needed, and
-- the value that was put.
local keys, raw, revisions, births, owners, values = {}, {}, {}, {}, {}, {}
for i = 1, named do keys[i] = argv[7 + i] end

local function is_hot(key)
  for root in string.gmatch(ROOTS, '%S+') do
    if sub(key, 1, #root) == root then return true end
  end
  return false
end

local function places(i)
  if i <= cold_ones or (i > named and not is_hot(keys[i])) then
    return KEYS[2], KEYS[3], true
  end
  return KEYS[4], KEYS[5], false
end

-- Everything that is named is read at once, for each call costs more than what is in it.
local function read(place, from, to)
  -- Lua passes some thousand arguments at once and no more.
  for first = from, to, 1000 do
    local found = call('HMGET', place, unpack(keys, first, math.min(first + 999, to)))
    for i = 1, #found do raw[first + i - 1] = found[i] end
  end
end
read(KEYS[2], 1, cold_ones)
read(KEYS[4], cold_ones + 1, named)

-- The number of a key that was perhaps not named.
local numbers
local function number_of(key)
  if not numbers then
    numbers = {}
    for i = 1, #keys do numbers[keys[i]] = i end
  end
  local i = numbers[key]
  if not i then
    i = #keys + 1
    keys[i], numbers[key] = key, i
    raw[i] = call('HGET', (places(i)), key)
  end
  return i
end

-- The revision of an entry; false when there is none. Its birth and owner ('0' for none) are known after that.
local function revision_of(i)
  local known = revisions[i]
  if known == nil then
    known = false
    if raw[i] then
      known, births[i], owners[i] = match(raw[i], '^(%d+) (%d+) (%d+)$')
    end
    revisions[i] = known
  end
  return known
end

-- Heads and values that were put go out together too.
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
  if n > 2000 then send(place) end
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

local function put(i, value, owner)
  local key, born, before = keys[i], written, '0'
  if revision_of(i) then
    born, before = births[i], owners[i]
  end
  if before ~= owner then
    if before ~= '0' then call('SREM', OWNED .. before, key) end
    if owner ~= '0' then call('SADD', OWNED .. owner, key) end
  end
  local head = written .. ' ' .. born .. ' ' .. owner
  local heads_at, values_at, is_cold = places(i)
  later(heads_at, key, head)
  later(values_at, key, value)
  raw[i], revisions[i], births[i], owners[i], values[i] = head, written, born, owner, value
  if is_cold then note(key) end
end

local function remove(i)
  if not revision_of(i) then return end
  local key = keys[i]
  if owners[i] ~= '0' then call('SREM', OWNED .. owners[i], key) end
  local heads_at, values_at, is_cold = places(i)
  -- It may be among what was put.
  send(heads_at)
  send(values_at)
  call('HDEL', heads_at, key)
  call('HDEL', values_at, key)
  raw[i], revisions[i], values[i] = false, false, nil
  if is_cold then note(key) end
end

local function close(lease)
  if call('ZREM', ENDS, lease) == 0 then return end
  call('HDEL', TERMS, lease)
  local owned = call('SMEMBERS', OWNED .. lease)
  if #owned == 0 then return end
  table.sort(owned)
  next_revision()
  for _, key in ipairs(owned) do remove(number_of(key)) end
end

local function alive(lease)
  return call('ZSCORE', ENDS, lease)
end

-- A revision to be compared has a blank behind it, as in a head.
local function holds(kind, i, value)
  if kind == '=' then return raw[i] and find(raw[i], value, 1, true) == 1 end
  if kind == 'B' then return revision_of(i) and births[i] == value end
  if kind == 'A' then return not raw[i] end
  if kind == 'P' then return raw[i] end
  if kind == 'O' then return alive(value) end
  return false
end

-- Of a transaction that is not made: the heads and values of what it names, in that order.
local function as_they_stand(guards, writes)
  local found, told = {written}, {}
  local function tell(i)
    if i == 0 or told[i] then return end
    told[i] = true
    local _, values_at = places(i)
    found[#found + 1] = raw[i]
    found[#found + 1] = raw[i] and (values[i] or call('HGET', values_at, keys[i]))
  end
  for p = guards, writes - 2, 3 do tell(tonumber(argv[p + 1])) end
  for p = writes, at - 1, 4 do tell(tonumber(argv[p + 1])) end
  return found
end

-- Guards are of a kind, a key and a value; writes of a kind, a key, a value and an owner.
local function transact()
  local guards = at + 1
  local writes = guards + 3 * tonumber(argv[at]) + 1
  at = writes + 4 * tonumber(argv[writes - 1])
  for p = guards, writes - 2, 3 do
    if not holds(argv[p], tonumber(argv[p + 1]), argv[p + 2]) then return as_they_stand(guards, writes) end
  end
  local changes = false
  for p = writes, at - 1, 4 do
    if argv[p] == 'P' then
      -- An entry cannot live by a lease that has ended, so that is refused as if it had been guarded on.
      if argv[p + 3] ~= '0' and not alive(argv[p + 3]) then return as_they_stand(guards, writes) end
      changes = true
    else
      changes = changes or raw[tonumber(argv[p + 1])]
    end
  end
  if changes then next_revision() end
  for p = writes, at - 1, 4 do
    local i = tonumber(argv[p + 1])
    if argv[p] == 'P' then put(i, argv[p + 2], argv[p + 3]) else remove(i) end
  end
  return written
end

local function take()
  at = at + 1
  return argv[at - 1]
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
if #over > 0 or at <= last then call('HSET', META, 'revision', meta[2]) end
table.sort(over, function(a, b) return tonumber(a) < tonumber(b) end)
for _, lease in ipairs(over) do close(lease) end

local answers = {}
while at <= last do
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
