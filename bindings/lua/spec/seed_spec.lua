--- The snippet of the specification (section 13.3) runs against libmillpond. `seed_snippet.lua` is that snippet; the
--- name of the library is changed and the arguments, which it leaves open, are filled in.

local promise, folder = ...
local workshop = require("workshop")
local library = workshop.shell("readlink -f '" .. (os.getenv("MILLPOND_LIBRARY") or "") .. "'")

--- Runs Lua in a process of its own, beside a folder `config` whose opcode 1 is `echo`, and gives back what it
--- printed.
local function run(before, after)
    local place = workshop.folder() .. "/seed"
    os.execute("mkdir -p '" .. place .. "/config'")
    local config = assert(io.open(place .. "/config/config", "w"))
    config:write("thread_count=2\n1=handler_echo\n")
    config:close()
    local snippet = assert(io.open(folder .. "/seed_snippet.lua"))
    local program = assert(io.open(place .. "/program.lua", "w"))
    program:write(before, snippet:read("*a"), after)
    snippet:close()
    program:close()
    local sources = workshop.shell("cd '" .. folder .. "/../src' && pwd")
    return workshop.shell(string.format(
        "cd '%s' && LUA_PATH='%s/?.lua' LD_LIBRARY_PATH='%s' timeout 60 luajit program.lua 2>&1",
        place, sources, library:match("^(.*)/")))
end

promise("the snippet of the specification gets its result", function()
    local said = run("", "print('ended', task_id > 0)\ntp.threadpool_shutdown(pool)\n")
    assert(said == "ended\ttrue", said)
end)

promise("a program may end without shutting its pool down", function()
    local said = run("", "print('ended')\n")
    assert(said == "ended", said)
end)

promise("the snippet and this module live in one program", function()
    for _, order in ipairs({ { "local m = require('millpond')\n", "" }, { "", "local m = require('millpond')\n" } }) do
        local said = run(order[1], order[2] .. [[
            local other = assert(m.create())
            local id = assert(other:submit({ handler = "echo", args = { n = 1 } }))
            print("ended", assert(other:wait(id, 30)).n)
        ]])
        assert(said == "ended\t1", said)
    end
end)
