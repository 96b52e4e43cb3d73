-- Said once on each new connection: whether what is here is what we know, and who has it now. A history that may have
-- gone back in time gets a new name (its line) and a higher generation, and with it revisions and leases that no
-- earlier generation can have given.
--
-- KEYS: meta, ends, terms.
-- ARGV: the layout, our line ('' when we have none), the revision and the generation we have seen, a name for a new
-- line, then of the server: its run id, its second replication id, and whether it keeps all that it answered ('1').
local META, ENDS, TERMS = KEYS[1], KEYS[2], KEYS[3]
local LAYOUT, ours, seen, known, fresh = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local run, second, safe = ARGV[6], ARGV[7], ARGV[8]
local EACH = 4294967296
local call = redis.call

local function int(number)
  return string.format('%.0f', number)
end

local time = call('TIME')
local wall = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local names = {'layout', 'line', 'generation', 'revision', 'cold', 'lease', 'clock', 'run', 'second', 'safe'}
local got, meta = call('HMGET', META, unpack(names)), {}
for i, name in ipairs(names) do meta[name] = got[i] end

if meta.layout and meta.layout ~= LAYOUT then
  return {'layout', meta.layout}
end

-- Four hours a generation since 2026: so one that begins on an emptied server is above those before the loss, even
-- when nobody is left who knew them.
local by_date = math.floor((wall - 1767225600000) / 14400000)

local function begin()
  local generation = tonumber(meta.generation or 0)
  generation = math.min(65535, math.max(generation + 1, known + 1, meta.layout and 0 or by_date))
  local floor = generation * EACH
  local revision = math.max(floor, tonumber(meta.revision or 0))
  local clock = tonumber(meta.clock or wall)
  call('HSET', META, 'layout', LAYOUT, 'line', fresh, 'generation', int(generation), 'revision', int(revision),
    'cold', int(revision), 'lease', int(math.max(floor, tonumber(meta.lease or 0))), 'clock', int(clock),
    'wall', int(wall))
  -- Renewals may be among what was lost: every holder gets its term again.
  local terms = call('HGETALL', TERMS)
  for i = 1, #terms, 2 do call('ZADD', ENDS, int(clock + tonumber(terms[i + 1])), terms[i]) end
  meta.line, meta.generation, meta.revision, meta.cold = fresh, int(generation), int(revision), int(revision)
end

local function may_be_older()
  if not meta.layout then return true end
  if ours ~= '' and meta.line == ours and tonumber(meta.revision) < seen then return true end
  if ours ~= '' and meta.line ~= ours and tonumber(meta.generation) <= known then return true end
  -- A server that has a second replication id which it did not have was a replica meanwhile, and was promoted.
  local promoted = second ~= meta.second and string.find(second, '[^0]') ~= nil
  return promoted or (run ~= meta.run and meta.safe ~= '1')
end

local older = may_be_older()
if older then begin() end
if older or run ~= meta.run or second ~= meta.second or safe ~= meta.safe then
  call('HSET', META, 'run', run, 'second', second, 'safe', safe)
end
local lost = ours ~= '' and meta.line ~= ours
return {lost and 'lost' or 'ok', meta.line, meta.generation, meta.revision, meta.cold}
