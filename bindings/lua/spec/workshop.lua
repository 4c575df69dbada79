--- What several specs need: a configuration with handlers to try things with, and a look at this process.
--
-- The handlers are programs in Lua (`handlers.lua`), since a pool of this program runs programs too.

local ffi = require("ffi")

local workshop = {}

local function shell(command)
    local pipe = assert(io.popen(command))
    local said = pipe:read("*a")
    pipe:close()
    return (said:gsub("%s+$", ""))
end
workshop.shell = shell

local home = shell("mktemp -d")

--- A folder of its own, gone when the specs have ended.
function workshop.folder()
    return home
end

--- The path of a configuration with the handlers `count` and `fail` beside the built-in ones.
function workshop.config(folder)
    local path = home .. "/millpond.toml"
    local program = shell("cd '" .. folder .. "' && pwd") .. "/handlers.lua"
    local file = assert(io.open(path, "w"))
    file:write("workers = 2\nweb.enabled = false\n")
    for _, name in ipairs({ "count", "fail" }) do
        file:write(string.format("[handler.%s]\ncommand = [\"luajit\", %q]\nconcurrency = 2\n", name, program))
    end
    file:close()
    return path
end

--- How many threads this process has.
function workshop.threads()
    for line in io.lines("/proc/self/status") do
        local threads = line:match("^Threads:%s*(%d+)")
        if threads then
            return tonumber(threads)
        end
    end
end

-- The anchor must live as long as the program: when Lua ends, it is collected and the folder goes.
workshop.anchor = ffi.gc(ffi.new("char[1]"), function()
    os.execute("rm -rf '" .. home .. "'")
end)

return workshop
