-- Copyright 2026 The llm_cache Authors
-- SPDX-License-Identifier: Apache-2.0

-- Makes a count, see Count in sessioncache/counters.go.
--
-- KEYS[1] has the last batch of the process, then come the sums, then the reservations by process.
-- ARGV begins with the process, the number, the batch and how long it is kept, the lease, and the
-- number of units, sums, reservations and limits. Then each sum has its expiry, its floor and its
-- addition; each reservation the open amount and the added one; each limit its sum, its reservation,
-- its unit and its maximum. Times are in milliseconds. The result is whether a limit was reached, the
-- sums, and the others' reservations.
--
-- Leases run by the server's clock. Lua's numbers are exact up to 2^53; sums are added by the server,
-- and exact beyond it.
local process, number, batch = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local lease, units = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sums, reserved, limits = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local fields, result = {}, {0}
for u = 1, units do
  fields[u] = tostring(u)
end
local first = 10
local at = first
for i = 1, sums do
  local key = KEYS[1 + i]
  local sum = redis.call('HMGET', key, unpack(fields))
  for u = 1, units do
    local floor = ARGV[at + u]
    if tonumber(floor) > tonumber(sum[u] or '0') then
      redis.call('HSET', key, fields[u], floor)
      redis.call('PEXPIREAT', key, ARGV[at])
      sum[u] = floor
    end
    result[#result + 1] = sum[u] or '0'
  end
  at = at + 1 + 2 * units
end

local form = '^(%S+) (%S+)' .. string.rep(' (%S+)', units) .. '$'
local later = {}
for i = 1, reserved do
  local key = KEYS[1 + sums + i]
  local others = {}
  for u = 1, units do
    others[u] = 0
  end
  local all = redis.call('HGETALL', key)
  for j = 1, #all, 2 do
    local part = {string.match(all[j + 1], form)} -- the number, the end of the lease, the units
    if all[j] == process then
      later[i] = tonumber(part[1]) > number
    elseif tonumber(part[2]) < now then
      redis.call('HDEL', key, all[j])
    else
      for u = 1, units do
        others[u] = others[u] + part[2 + u]
      end
    end
  end
  for u = 1, units do
    result[#result + 1] = string.format('%.0f', others[u])
  end
end
local opens = at
at = at + 2 * units * reserved
for i = 1, limits do
  local s, r, u, max = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local sum = tonumber(result[1 + units * s + u])
  local open = tonumber(result[1 + units * (sums + r) + u]) + tonumber(ARGV[opens + 2 * units * r + u - 1])
  if sum >= max or sum + open >= max then
    result[1] = 1
    return result
  end
  at = at + 4
end

if batch == 0 or batch > tonumber(redis.call('GET', KEYS[1]) or '0') then
  if batch > 0 then
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
  end
  at = first
  for i = 1, sums do
    local added = false
    for u = 1, units do
      local add = ARGV[at + units + u]
      if add ~= '0' then
        redis.call('HINCRBY', KEYS[1 + i], fields[u], add)
        added = true
      end
    end
    if added then
      redis.call('PEXPIREAT', KEYS[1 + i], ARGV[at])
    end
    at = at + 1 + 2 * units
  end
end

for i = 1, reserved do
  if not later[i] then
    local key = KEYS[1 + sums + i]
    local words, open = {ARGV[2], string.format('%.0f', now + lease)}, false
    for u = 1, units do
      local all = tonumber(ARGV[opens + u - 1]) + tonumber(ARGV[opens + units + u - 1])
      open = open or all ~= 0
      words[2 + u] = string.format('%.0f', all)
    end
    if open then
      redis.call('HSET', key, process, table.concat(words, ' '))
      redis.call('PEXPIRE', key, ARGV[5])
    else
      redis.call('HDEL', key, process)
    end
  end
  opens = opens + 2 * units
end
return result
