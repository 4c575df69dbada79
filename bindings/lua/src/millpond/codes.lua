--- The error codes of millpond: numbers by name, and names by number.
--
-- `codes.queue_full` is -102 and `codes.name(-102)` is "queue-full". The numbers keep their meaning for ever. The one
-- table of them is in the Rust source; `spec/codes_spec.lua` holds this file against the page made from it,
-- docs/errors.md.

local NUMBERS = {
    ["ok"] = 0,
    ["unknown-handler"] = -1,
    ["invalid-request"] = -2,
    ["unknown-symbol"] = -3,
    ["out-of-memory"] = -4,
    ["handler-crashed"] = -5,
    ["timed-out"] = -6,
    ["cancelled"] = -101,
    ["queue-full"] = -102,
    ["draining"] = -103,
    ["expired"] = -104,
    ["dropped"] = -105,
    ["result-gone"] = -106,
    ["not-allowed"] = -107,
    ["bad-arguments"] = -108,
    ["handler-error"] = -109,
    ["too-large"] = -110,
    ["duplicate-id"] = -111,
    ["not-found"] = -112,
    ["already-ended"] = -113,
    ["key-reused"] = -114,
    ["retries-exhausted"] = -115,
    ["not-ended"] = -116,
    ["daemon-died"] = -117,
    ["journal-full"] = -118,
    ["journal-failed"] = -119,
    ["postponed"] = -120,
    ["internal"] = -199,
}

local codes, names = {}, {}
for name, number in pairs(NUMBERS) do
    codes[(name:gsub("-", "_"))] = number
    names[number] = name
end

--- The name of a number, or nil if no code has it.
function codes.name(number)
    return names[number]
end

return codes
