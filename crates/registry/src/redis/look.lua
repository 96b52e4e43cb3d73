-- Reads at one moment: some entries, a page of the cold ones, or what changed among them since a revision.
--
-- KEYS: meta, cold heads, cold values, hot heads, hot values, news.
-- ARGV: the line, the revision the asker has seen, the roots of hot keys, what to read, and of what.
local META, COLD, HOT, NEWS = KEYS[1], {KEYS[2], KEYS[3]}, {KEYS[4], KEYS[5]}, KEYS[6]
local call = redis.call
local ROOTS = {}
for root in string.gmatch(ARGV[3], '%S+') do ROOTS[#ROOTS + 1] = root end

local meta = call('HMGET', META, 'line', 'revision', 'cold')
if meta[1] ~= ARGV[1] or tonumber(meta[2]) < tonumber(ARGV[2]) then
  return {'moved'}
end

local function places_of(key)
  for _, root in ipairs(ROOTS) do
    if string.sub(key, 1, #root) == root then return HOT end
  end
  return COLD
end

local function entry(key)
  local places = places_of(key)
  local head = call('HGET', places[1], key)
  return head, head and call('HGET', places[2], key)
end

-- Entries by their keys: head and value, or twice nothing.
local function read()
  local found = {}
  for i = 5, #ARGV do
    found[#found + 1], found[#found + 2] = entry(ARGV[i])
  end
  return found
end

-- A page of cold entries: where the next one begins, then key, head and value of each.
local function page()
  local scanned = call('HSCAN', COLD[1], ARGV[5], 'COUNT', ARGV[6])
  local found, fields = {scanned[1]}, scanned[2]
  for i = 1, #fields, 2 do
    found[#found + 1] = fields[i]
    found[#found + 1] = fields[i + 1]
    found[#found + 1] = call('HGET', COLD[2], fields[i])
  end
  return found
end

-- What changed after a revision: each key once, at its last change, as it stands: revision, key, head and value. Nothing
-- at all when the oldest of it is forgotten already.
local function changes()
  local after, most = tonumber(ARGV[5]), tonumber(ARGV[6])
  if call('XLEN', NEWS) >= most then
    local oldest = call('XRANGE', NEWS, '-', '+', 'COUNT', 1)[1]
    if after < tonumber(string.match(oldest[1], '^%d+')) then return false end
  end
  local news = call('XRANGE', NEWS, ARGV[7], '+')
  local last, found = {}, {}
  for i, change in ipairs(news) do last[change[2][2]] = i end
  for i, change in ipairs(news) do
    local key = change[2][2]
    if last[key] == i then
      local n = #found
      found[n + 1], found[n + 2] = string.match(change[1], '^%d+'), key
      found[n + 3], found[n + 4] = entry(key)
    end
  end
  return found
end

local verbs = {read = read, page = page, changes = changes}
return {'ok', meta[2], meta[3], verbs[ARGV[4]]()}
