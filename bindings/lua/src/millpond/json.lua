--- JSON for LuaJIT: what Lua can hold becomes JSON and back, exactly, or there is an error that says where.
--
-- Lua has one table for two things, so arrays that come from JSON carry the metatable `Array`, and an empty table
-- without it is an object. JSON null is the value `null`, since nil cannot stand in a table. A whole number beyond
-- 2^53 becomes a 64-bit integer of the FFI instead of a nearby double, and such integers are written as they are.
--
-- Not here: reading JSON piece by piece. A result of millpond is bounded and arrives whole.

local ffi = require("ffi")

local byte, char, find, sub = string.byte, string.char, string.find, string.sub
local format, gsub = string.format, string.gsub
local concat = table.concat

local json = {}

--- Nothing in JSON may be nested deeper, in either direction; a table that contains itself ends here too.
json.DEPTH_MAX = 512

--- JSON null.
json.null = setmetatable({}, { __tostring = function() return "null" end, __newindex = function()
    error("millpond.null cannot be changed", 2)
end })

local Array = { __name = "millpond.array" }

--- Marks a table as an array, so that it is one in JSON even when it is empty.
function json.array(items)
    return setmetatable(items or {}, Array)
end

local EXACT_MAX = 2 ^ 53
local signed, unsigned = ffi.typeof("int64_t"), ffi.typeof("uint64_t")

-- Both directions stop at the first mistake, however deep: it travels as a table, so that a mistake of this file,
-- which would be a string with a line number, is not taken for one of the caller.
local function refuse(message)
    error({ refused = message }, 0)
end

local function guarded(work, ...)
    local well, value = pcall(work, ...)
    if well then
        return value
    elseif type(value) == "table" and value.refused then
        return nil, value.refused
    end
    error(value, 0)
end

local function continues(value)
    return value and value >= 0x80 and value <= 0xBF
end

--- How many bytes the character at `at` has in UTF-8, or nil if it is none (RFC 3629: no surrogates, shortest form).
local function character_bytes(text, at)
    local first, second, third, fourth = byte(text, at, at + 3)
    if first < 0x80 then
        return 1
    elseif first >= 0xC2 and first <= 0xDF then
        return continues(second) and 2 or nil
    elseif first >= 0xE0 and first <= 0xEF then
        local low, high = first == 0xE0 and 0xA0 or 0x80, first == 0xED and 0x9F or 0xBF
        return second and second >= low and second <= high and continues(third) and 3 or nil
    elseif first >= 0xF0 and first <= 0xF4 then
        local low, high = first == 0xF0 and 0x90 or 0x80, first == 0xF4 and 0x8F or 0xBF
        return second and second >= low and second <= high and continues(third) and continues(fourth) and 4 or nil
    end
    return nil
end

--- The first byte of `text` that is not UTF-8, or nil.
local function not_utf8_at(text)
    local at = find(text, "[\128-\255]")
    while at do
        local bytes = character_bytes(text, at)
        if not bytes then
            return at
        end
        at = find(text, "[\128-\255]", at + bytes)
    end
    return nil
end

-- Writing ----------------------------------------------------------------------------------------------------------

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
setmetatable(ESCAPES, { __index = function(_, control) return format("\\u%04x", byte(control)) end })

--- Where the writer is, as one would write it in Lua: `args.items[3]`.
local function shown(path)
    local words = {}
    for index, key in ipairs(path) do
        if type(key) == "number" then
            words[#words + 1] = "[" .. key .. "]"
        else
            words[#words + 1] = (index > 1 and "." or "") .. key
        end
    end
    return #words > 0 and concat(words) .. ": " or ""
end

local function written_string(text, path)
    local wrong = not_utf8_at(text)
    if wrong then
        refuse(format("%sexpected UTF-8, got the byte 0x%02x at %d; bytes travel as base64",
            shown(path), byte(text, wrong), wrong))
    end
    return '"' .. gsub(text, '[%z\1-\31"\\]', ESCAPES) .. '"'
end

local function written_number(number, path)
    if number ~= number or number == math.huge or number == -math.huge then
        refuse(format("%sexpected a number that JSON has, got %s", shown(path), tostring(number)))
    elseif number % 1 == 0 and number > -EXACT_MAX and number < EXACT_MAX then
        return format("%.0f", number)
    end
    -- The shortest of three that reads back as the same number.
    for digits = 15, 16 do
        local text = format("%." .. digits .. "g", number)
        if tonumber(text) == number then
            return text
        end
    end
    return format("%.17g", number)
end

--- How many items `items` has if its keys are 1, 2, 3 and so on, or nil and a key that is not among them.
local function items_of(items)
    local count, length = 0, #items
    for key in pairs(items) do
        if type(key) ~= "number" or key % 1 ~= 0 or key < 1 or key > length then
            return nil, key
        end
        count = count + 1
    end
    if count == length then
        return length
    end
    return nil, "a hole"
end

local write

local function write_array(items, out, path)
    local length, stranger = items_of(items)
    if not length then
        refuse(format("%sexpected an array without holes, got the key %s", shown(path), tostring(stranger)))
    end
    out[#out + 1] = "["
    for index = 1, length do
        out[#out + 1] = index > 1 and "," or nil
        path[#path + 1] = index
        write(items[index], out, path)
        path[#path] = nil
    end
    out[#out + 1] = "]"
end

local function write_object(object, out, path)
    local separator = "{"
    for key, value in pairs(object) do
        if type(key) ~= "string" then
            refuse(format("%sexpected strings as keys, got %s", shown(path), tostring(key)))
        end
        path[#path + 1] = key
        out[#out + 1] = separator .. written_string(key, path) .. ":"
        write(value, out, path)
        path[#path] = nil
        separator = ","
    end
    out[#out + 1] = separator == "{" and "{}" or "}"
end

function write(value, out, path)
    local kind = type(value)
    if kind == "string" then
        out[#out + 1] = written_string(value, path)
    elseif kind == "number" then
        out[#out + 1] = written_number(value, path)
    elseif kind == "boolean" then
        out[#out + 1] = value and "true" or "false"
    elseif value == json.null then
        out[#out + 1] = "null"
    elseif kind == "table" then
        if #path >= json.DEPTH_MAX then
            refuse(format("expected at most %d levels of nesting, got more; does a table contain itself?",
                json.DEPTH_MAX))
        elseif getmetatable(value) == Array or value[1] ~= nil then
            write_array(value, out, path)
        else
            write_object(value, out, path)
        end
    elseif kind == "cdata" and (ffi.istype(signed, value) or ffi.istype(unsigned, value)) then
        out[#out + 1] = (gsub(tostring(value), "U?LL$", ""))
    else
        refuse(format("%sexpected a value that JSON has, got a %s", shown(path), kind))
    end
end

local function encoded(value)
    local out = {}
    write(value, out, {})
    return concat(out)
end

--- `value` as JSON; or nil and what cannot be said in JSON.
function json.encode(value)
    return guarded(encoded, value)
end

-- Reading ----------------------------------------------------------------------------------------------------------

local UNESCAPED = {
    ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}
local REPLACEMENT = "\239\191\189"

local function stop_at(text, at, expected)
    local came = at > #text and "the end" or format("%q", sub(text, at, at + 9))
    refuse(format("JSON, byte %d: expected %s, got %s", at, expected, came))
end

local function utf8_of(code)
    if code < 0x80 then
        return char(code)
    elseif code < 0x800 then
        return char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
    elseif code < 0x10000 then
        return char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    return char(0xF0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64,
        0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

--- The character of `\uXXXX` at `at`, with its second half if it needs one, and what follows. Half a pair alone is
--- no character and becomes U+FFFD, so that one such string does not cost a whole result.
local function unicode_escape(text, at)
    local digits = text:match("^\\u(%x%x%x%x)", at)
    if not digits then
        stop_at(text, at, "\\u and four hexadecimal digits")
    end
    local code = tonumber(digits, 16)
    if code < 0xD800 or code > 0xDFFF then
        return utf8_of(code), at + 6
    end
    local low = code < 0xDC00 and tonumber(text:match("^\\u([dD][c-fC-F]%x%x)", at + 6) or "0", 16) or 0
    if low == 0 then
        return REPLACEMENT, at + 6
    end
    return utf8_of(0x10000 + (code - 0xD800) * 1024 + (low - 0xDC00)), at + 12
end

--- The string whose opening quote is at `at`, and what follows its closing one.
local function read_string(text, at)
    local parts, from = nil, at + 1
    while true do
        local stop = find(text, '["\\%z\1-\31]', from)
        local mark = stop and byte(text, stop)
        if mark == 34 then
            local rest = sub(text, from, stop - 1)
            if not parts then
                return rest, stop + 1
            end
            parts[#parts + 1] = rest
            return concat(parts), stop + 1
        elseif mark ~= 92 then
            stop_at(text, stop or #text + 1, "the end of a string, or an escape for a control character")
        end
        parts = parts or {}
        parts[#parts + 1] = sub(text, from, stop - 1)
        local simple = UNESCAPED[sub(text, stop + 1, stop + 1)]
        if simple then
            parts[#parts + 1], from = simple, stop + 2
        else
            parts[#parts + 1], from = unicode_escape(text, stop)
        end
    end
end

--- A whole number that a double cannot hold, as a 64-bit integer if it is one, else as the nearest double.
local function wide_integer(literal)
    local negative = byte(literal) == 45
    local digits = negative and sub(literal, 2) or literal
    local largest = negative and "9223372036854775808" or "18446744073709551615"
    if #digits > #largest or (#digits == #largest and digits > largest) then
        return tonumber(literal)
    end
    local value = 0ULL
    for index = 1, #digits do
        value = value * 10ULL + (byte(digits, index) - 48)
    end
    if negative then
        return ffi.cast(signed, 0ULL - value)
    end
    return value <= 9223372036854775807ULL and ffi.cast(signed, value) or value
end

local function read_number(text, at)
    local _, stop = find(text, "^-?%d+", at)
    if not stop or find(text, "^-?0%d", at) then
        stop_at(text, at, "a number without leading zeros")
    end
    local whole = stop
    for _, pattern in ipairs({ "^%.%d+", "^[eE][+-]?%d+" }) do
        local _, longer = find(text, pattern, stop + 1)
        stop = longer or stop
    end
    local literal = sub(text, at, stop)
    if stop == whole and #literal > 15 then
        local near = tonumber(literal)
        return (near >= EXACT_MAX or near <= -EXACT_MAX) and wide_integer(literal) or near, stop + 1
    end
    return tonumber(literal), stop + 1
end

local function after_space(text, at)
    return find(text, "[^ \t\n\r]", at) or #text + 1
end

local read

local function read_array(text, at, depth)
    local items = json.array()
    at = after_space(text, at + 1)
    if byte(text, at) == 93 then
        return items, at + 1
    end
    while true do
        items[#items + 1], at = read(text, at, depth)
        at = after_space(text, at)
        local mark = byte(text, at)
        if mark == 93 then
            return items, at + 1
        elseif mark ~= 44 then
            stop_at(text, at, "',' or ']'")
        end
        at = after_space(text, at + 1)
    end
end

local function read_object(text, at, depth)
    local object = {}
    at = after_space(text, at + 1)
    if byte(text, at) == 125 then
        return object, at + 1
    end
    while true do
        if byte(text, at) ~= 34 then
            stop_at(text, at, "a key")
        end
        local key
        key, at = read_string(text, at)
        at = after_space(text, at)
        if byte(text, at) ~= 58 then
            stop_at(text, at, "':'")
        end
        object[key], at = read(text, after_space(text, at + 1), depth)
        at = after_space(text, at)
        local mark = byte(text, at)
        if mark == 125 then
            return object, at + 1
        elseif mark ~= 44 then
            stop_at(text, at, "',' or '}'")
        end
        at = after_space(text, at + 1)
    end
end

local LITERALS = { { "true", true }, { "false", false }, { "null", json.null } }

--- The value at `at`, and what follows it.
function read(text, at, depth)
    local mark = byte(text, at)
    if mark == 123 or mark == 91 then
        if depth >= json.DEPTH_MAX then
            refuse(format("JSON, byte %d: expected at most %d levels of nesting, got more", at, json.DEPTH_MAX))
        end
        return (mark == 123 and read_object or read_array)(text, at, depth + 1)
    elseif mark == 34 then
        return read_string(text, at)
    elseif mark == 45 or (mark and mark >= 48 and mark <= 57) then
        return read_number(text, at)
    end
    for _, literal in ipairs(LITERALS) do
        if sub(text, at, at + #literal[1] - 1) == literal[1] then
            return literal[2], at + #literal[1]
        end
    end
    stop_at(text, at, "a value")
end

local function decoded(text)
    local wrong = not_utf8_at(text)
    if wrong then
        refuse(format("JSON, byte %d: expected UTF-8, got 0x%02x", wrong, byte(text, wrong)))
    end
    local value, at = read(text, after_space(text, 1), 0)
    at = after_space(text, at)
    if at <= #text then
        stop_at(text, at, "the end")
    end
    return value
end

--- The value that `text` says; or nil, what is wrong and where. `false` and `null` are values.
function json.decode(text)
    if type(text) ~= "string" then
        return nil, "JSON: expected a string, got a " .. type(text)
    end
    return guarded(decoded, text)
end

return json
