--- The codes here are the codes of the table in Rust, from which docs/errors.md is made.

local promise, folder = ...
local codes = require("millpond.codes")

promise("every code of the table is here, under its number and its name, and no other", function()
    local page = assert(io.open(folder .. "/../../../docs/errors.md"))
    local rows = 0
    for line in page:lines() do
        local number, name = line:match("^| (%-?%d+) | `([%l-]+)`")
        if number then
            rows = rows + 1
            assert(codes[(name:gsub("-", "_"))] == tonumber(number), line)
            assert(codes.name(tonumber(number)) == name, line)
        end
    end
    page:close()
    local here = 0
    for _, number in pairs(codes) do
        here = here + (type(number) == "number" and 1 or 0)
    end
    assert(rows > 20 and rows == here, rows .. " rows on the page, " .. here .. " here")
    assert(codes.name(-9999) == nil)
end)
