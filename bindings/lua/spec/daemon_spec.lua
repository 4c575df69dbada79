--- A daemon in another process: Lua attaches to it, and outlives it.

local promise, folder = ...
local millpond = require("millpond")
local workshop = require("workshop")
local codes = millpond.codes

local program = assert(os.getenv("MILLPOND_BIN"), "MILLPOND_BIN: expected the path of the program millpond")
local place = workshop.folder() .. "/run"
local config = workshop.config(folder)

--- Waits until `attempt` gives something back, and gives up after a minute.
local function eventually(attempt)
    local deadline = os.time() + 60
    while true do
        local value, why = attempt()
        if value then
            return value
        end
        assert(os.time() < deadline, why)
        os.execute("sleep 0.02")
    end
end

local Daemon = {}
Daemon.__index = Daemon

--- Whether the process is there and no zombie.
local function is_alive(pid)
    local file = io.open("/proc/" .. pid .. "/stat")
    local state = file and file:read("*a"):match("%) (%u)")
    if file then
        file:close()
    end
    return state ~= nil and state ~= "Z"
end

--- Starts one, and starts it again if it ended: the threads of one that was killed may hold its directory for a moment
--- after the process is gone.
function Daemon.start()
    local pid
    local function attach()
        if not pid or not is_alive(pid) then
            pid = workshop.shell(string.format("'%s' serve --config '%s' --runtime-dir '%s' >>'%s.log' 2>&1 & echo $!",
                program, config, place, place))
        end
        local pool, why = millpond.attach(place)
        return pool and pool:close(), why
    end
    eventually(attach)
    return setmetatable({ pid = pid }, Daemon)
end

--- Sends a signal, and waits until the process is gone.
function Daemon:signal(name)
    if workshop.shell("kill -" .. name .. " " .. self.pid .. " && echo sent") ~= "sent" then
        error("the daemon had ended by itself; its log: " .. workshop.shell("tail -n 20 '" .. place .. ".log'"))
    end
    eventually(function() return not is_alive(self.pid), "the daemon does not end" end)
end

local daemon = Daemon.start()

promise("a daemon's pool is used as one's own", function()
    local pool = assert(millpond.attach(place))
    local id = assert(pool:submit({ handler = "echo", args = { text = "grüße" } }))
    assert(assert(pool:wait(id, 30)).text == "grüße")
    local ended = 0
    for n = 1, 3000 do
        local request = { handler = "echo", args = { n = n } }
        local callback = function(result, message)
            assert(result, message)
            assert(result.n == n)
            ended = ended + 1
        end
        local id, message, code = pool:submit_with(request, callback)
        while not id do
            assert(code == codes.queue_full, message)
            assert(pool:step(1))
            id, message, code = pool:submit_with(request, callback)
        end
    end
    assert(pool:run(60))
    assert(ended == 3000)
    pool:close()
end)

promise("a daemon's stream is read as one's own", function()
    local pool = assert(millpond.attach(place))
    local stream, last = assert(pool:stream({ handler = "count", args = { to = 100 } })), 0
    for chunk in stream do
        last = last + 1
        assert(chunk.number == last)
    end
    assert(last == 100 and assert(stream:result()).counted == 100)
    local result, message, code = pool:wait(assert(pool:submit({ handler = "fail" })), 30)
    assert(result == nil and code == codes.handler_error, message)
    pool:close()
end)

promise("what a daemon refuses is told with its reason", function()
    local pool = assert(millpond.attach(place))
    local result, message, code = pool:wait(assert(pool:submit({ handler = "no-such-handler" })), 30)
    assert(result == nil and code == codes.unknown_handler, tostring(message))
    assert(message:find("no-such-handler", 1, true), message)
    local long = assert(pool:submit({ handler = "sleep", args = { ms = 3600000 } }))
    assert(pool:cancel(long))
    assert(select(3, pool:wait(long, 30)) == codes.cancelled)
    pool:close()
end)

promise("a daemon that is not there is an error that says so", function()
    local pool, message, code = millpond.attach(workshop.folder() .. "/nobody")
    assert(pool == nil and #message > 0 and code < 0)
end)

promise("a killed daemon costs what it had in hand, and the next one serves the same pool", function()
    local pool = assert(millpond.attach(place))
    local told = {}
    for _ = 1, 5 do
        assert(pool:submit_with({ handler = "sleep", args = { ms = 3600000 } }, function(_, _, code)
            told[#told + 1] = code
        end))
    end
    -- An answer to what was sent later shows that the daemon has taken what was sent before.
    assert(pool:wait(assert(pool:submit({ handler = "echo" })), 30))
    daemon:signal("KILL")
    assert(pool:run(60))
    assert(#told == 5)
    for _, code in ipairs(told) do
        assert(code == codes.daemon_died, tostring(code))
    end
    daemon = Daemon.start()
    local result = eventually(function()
        local id, message = pool:submit({ handler = "echo", args = { n = 2 } })
        return id and pool:wait(id, 30), message
    end)
    assert(result.n == 2)
    pool:close()
end)

daemon:signal("TERM")
