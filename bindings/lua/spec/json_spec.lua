--- JSON is where other people's bytes meet Lua's values: what is read is what was written, or it is refused.

local promise = ...
local ffi = require("ffi")
local json = require("millpond.json")

local function reads(text, expected)
    local value, why = json.decode(text)
    assert(value == expected, string.format("%s was read as %s (%s)", text, tostring(value), tostring(why)))
end

local function refuses_to_read(text, word)
    local value, why = json.decode(text)
    assert(value == nil, text .. " was read as " .. tostring(value))
    assert(why:find(word, 1, true), why .. ": expected the word " .. word)
end

local function refuses_to_write(value, word)
    local text, why = json.encode(value)
    assert(text == nil, "it was written as " .. tostring(text))
    assert(why:find(word, 1, true), why .. ": expected the word " .. word)
end

promise("literals are read with space around them", function()
    reads(" true ", true)
    reads("\t\n\rfalse", false)
    reads("null", json.null)
    assert(tostring(json.null) == "null")
end)

promise("numbers are read as JSON writes them and in no other way", function()
    for text, value in pairs({ ["0"] = 0, ["-0"] = 0, ["10"] = 10, ["-1.5"] = -1.5, ["1e3"] = 1000, ["2E-2"] = 0.02,
        ["1.25e+2"] = 125, ["5e-324"] = 5e-324, ["9007199254740991"] = 9007199254740991 }) do
        reads(text, value)
    end
    for _, text in ipairs({ "01", "-", "+1", ".5", "1.", "1e", "0x10", "1_000", "NaN", "Infinity", "-01", "1e+",
        "--1" }) do
        refuses_to_read(text, "expected")
    end
end)

promise("whole numbers beyond 2^53 keep every digit", function()
    for _, text in ipairs({ "9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775808",
        "18446744073709551615", "12345678901234567890" }) do
        local value = assert(json.decode(text))
        assert(type(value) == "cdata", text)
        assert(json.encode(value) == text, tostring(json.encode(value)))
    end
    assert(json.decode("9007199254740993") == 9007199254740993LL)
    assert(json.decode("-9007199254740993") < 0)
    assert(type(json.decode("18446744073709551616")) == "number", "what fits nowhere becomes the nearest double")
    assert(json.decode("18446744073709551616") == 18446744073709551616)
    assert(json.decode("-9223372036854775809") == -9223372036854775809)
end)

promise("every double that is written reads back as itself", function()
    local seed = tonumber(os.getenv("MILLPOND_SEED")) or os.time()
    math.randomseed(seed)
    local place = ffi.new("union { double number; uint32_t half[2]; }")
    for _ = 1, 20000 do
        place.half[0], place.half[1] = math.random(0, 0xFFFFFFFF), math.random(0, 0xFFFFFFFF)
        local number = place.number
        if number == number and math.abs(number) ~= math.huge then
            local text = assert(json.encode(number))
            local back = assert(json.decode(text))
            assert(tonumber(back) == number, "MILLPOND_SEED=" .. seed .. ": " .. text)
        end
    end
    assert(json.encode(0.1) == "0.1" and json.encode(1e15) == "1000000000000000" and json.encode(-3) == "-3")
end)

promise("what JSON has no number for is refused", function()
    refuses_to_write({ args = { x = 0 / 0 } }, "args.x: expected a number")
    refuses_to_write(math.huge, "inf")
    refuses_to_write(-math.huge, "inf")
end)

promise("strings keep their characters, escaped or not", function()
    reads([["a\"b\\c\/d\b\f\n\r\t"]], "a\"b\\c/d\b\f\n\r\t")
    reads([["\u0041\u00e9\u20ac\ud83d\ude00\u0000"]], "Aé€😀\0")
    reads('"é€😀\127"', "é€😀\127")
    for _, text in ipairs({ "", "plain", "é€😀", "\0\1\31", "\"\\/", "\127", "line\nbreak", "\u{10FFFF}" }) do
        assert(json.decode(json.encode(text)) == text, text)
    end
    assert(json.encode("\0\n\"") == [["\u0000\n\""]])
end)

promise("half a surrogate pair costs one character and not the result", function()
    local replacement = "\239\191\189"
    reads([["\ud800"]], replacement)
    reads([["\udc00x"]], replacement .. "x")
    reads([["\ud800\u0041"]], replacement .. "A")
    reads([["\ud800\ud83d\ude00"]], replacement .. "😀")
end)

promise("a string that is not one is refused with its place", function()
    refuses_to_read('"abc', "byte 5: expected the end of a string")
    refuses_to_read('"a\nb"', "byte 3: expected the end of a string, or an escape")
    refuses_to_read([["\x41"]], "byte 2: expected \\u")
    refuses_to_read([["\u12g4"]], "byte 2: expected \\u")
    refuses_to_read('"\\', "expected")
end)

promise("bytes that are not UTF-8 are refused in both directions", function()
    for _, bytes in ipairs({ "\128", "\192\175", "\224\159\191", "\237\160\128", "\240\143\191\191", "\244\144\128\128",
        "\245\128\128\128", "\195", "\226\130", "\240\159\152" }) do
        refuses_to_read('"' .. bytes .. '"', "byte 2: expected UTF-8")
        refuses_to_write({ name = "ab" .. bytes }, "name: expected UTF-8")
        refuses_to_write({ [bytes] = 1 }, "expected UTF-8")
    end
end)

promise("arrays and objects are told apart, also when they are empty", function()
    assert(json.encode(json.decode("[]")) == "[]")
    assert(json.encode(json.decode("{}")) == "{}")
    assert(json.encode({}) == "{}" and json.encode(json.array()) == "[]")
    assert(json.encode({ 1, { 2 }, json.null, false }) == "[1,[2],null,false]")
    local value = json.decode([[{"a": [1, {"b": null}], "c": {}}]])
    assert(#value.a == 2 and value.a[1] == 1 and value.a[2].b == json.null and next(value.c) == nil)
    assert(json.decode([[{"a":1,"a":2}]]).a == 2, "the last of two wins")
end)

promise("a table that is neither is refused with its place", function()
    refuses_to_write({ args = { 1, 2, nil, 4 } }, "args: expected an array without holes")
    refuses_to_write({ 1, 2, x = 3 }, "got the key x")
    refuses_to_write({ [2] = "two" }, "expected strings as keys, got 2")
    refuses_to_write({ args = { f = print } }, "args.f: expected a value that JSON has, got a function")
    refuses_to_write({ { {}, io.stdout } }, "[1][2]: expected a value that JSON has, got a userdata")
    refuses_to_write(nil, "got a nil")
end)

promise("what is cut short or followed by more is refused", function()
    for _, text in ipairs({ "", " ", "[", "[1", "[1,", "[1 2]", "[,1]", "[1,]", "{", '{"a"', '{"a":', '{"a":1',
        '{"a":1,', '{"a":1,}', "{a:1}", '{"a" 1}', "{1:2}", "tru", "nul", "truex", "1 2", "[] []", "'a'", "]" }) do
        refuses_to_read(text, "expected")
    end
    assert(json.decode(17) == nil and json.decode(nil) == nil)
end)

promise("nesting ends at the limit, and not with the stack", function()
    local deep = json.DEPTH_MAX
    assert(json.decode(("["):rep(deep) .. ("]"):rep(deep)))
    refuses_to_read(("["):rep(deep + 1) .. ("]"):rep(deep + 1), "512 levels")
    refuses_to_read(('{"a":'):rep(1000000), "512 levels")
    local knot = {}
    knot.again = knot
    refuses_to_write(knot, "does a table contain itself?")
    local tower = json.array()
    for _ = 2, deep do
        tower = json.array({ tower })
    end
    assert(json.encode(tower))
    refuses_to_write(json.array({ tower }), "512 levels")
end)

promise("null cannot be changed by accident", function()
    assert(not pcall(function() json.null.x = 1 end))
end)
