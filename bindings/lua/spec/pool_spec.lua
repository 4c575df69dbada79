--- A pool inside this program, driven from Lua: results come once, callbacks run in this thread, errors are values.

local promise, folder = ...
local millpond = require("millpond")
local codes = millpond.codes
local workshop = require("workshop")

local pool = assert(millpond.create(workshop.config(folder)))

promise("a result comes back as a Lua value", function()
    local args = { text = "grüße", list = { 1, 2.5, millpond.null }, empty = millpond.array(), yes = true }
    local id = assert(pool:submit({ handler = "echo", args = args }))
    local result = assert(pool:wait(id, 30))
    assert(result.text == "grüße" and result.yes == true)
    assert(result.list[2] == 2.5 and result.list[3] == millpond.null)
    assert(millpond.json.encode(result.empty) == "[]")
end)

promise("a request may be JSON already", function()
    local id = assert(pool:submit('{"handler":"echo","args":{"n":17}}'))
    assert(assert(pool:wait(id, 30)).n == 17)
end)

promise("a result is handed over once", function()
    local id = assert(pool:submit({ handler = "echo" }))
    assert(pool:wait(id, 30))
    local result, message, code = pool:wait(id, 30)
    assert(result == nil and type(message) == "string" and code == codes.result_gone, tostring(message))
end)

promise("a task that has not ended is told from one that failed", function()
    local id = assert(pool:submit({ handler = "sleep", args = { ms = 60000 } }))
    local result, message, code = pool:poll(id)
    assert(result == nil and code == codes.not_ended and message:find("not ended"), message)
    assert(select(3, pool:wait(id, 0.01)) == codes.not_ended)
    assert(pool:cancel(id))
    result, message, code = pool:wait(id, 30)
    assert(result == nil and code == codes.cancelled, tostring(message))
    assert(select(3, pool:cancel(id)) ~= nil, "what has ended cannot be cancelled")
end)

promise("what a handler says of its failure arrives with its code", function()
    local id = assert(pool:submit({ handler = "fail", args = { code = "bad-arguments", message = "no such täble" } }))
    local result, message, code = pool:wait(id, 30)
    assert(result == nil and code == codes.bad_arguments and message:find("no such täble", 1, true), tostring(message))
end)

promise("a long message of a failure is not cut in the middle of a character", function()
    local id = assert(pool:submit({ handler = "fail", args = { code = "handler-error", message = ("ü"):rep(500) } }))
    local _, message = pool:wait(id, 30)
    assert(millpond.json.encode(message), "it is UTF-8")
    assert(message:find(("ü"):rep(60), 1, true))
end)

promise("what cannot be submitted is refused with a reason", function()
    for _, case in ipairs({
        { { handler = "no-such-handler" }, codes.unknown_handler },
        { '{"handler":', codes.invalid_request },
        { '{"handler":"echo"}\0', codes.invalid_request },
        { "\255", codes.invalid_request },
        { { handler = "echo", args = { f = print } }, codes.invalid_request },
        { 17, codes.invalid_request },
        { nil, codes.invalid_request },
    }) do
        local id, message, code = pool:submit(case[1])
        assert(id == nil and code == case[2] and #message > 0, tostring(message) .. " " .. tostring(code))
    end
    assert(select(3, pool:submit_with({ handler = "echo" }, nil)) == codes.invalid_request)
    assert(select(3, pool:stream({ handler = "no-such-handler" })) == codes.unknown_handler)
end)

promise("numbers that are no task's are refused", function()
    for _, id in ipairs({ 0, -1, "1", 2 ^ 60 }) do
        local result, message, code = pool:wait(id, 0)
        assert(result == nil and message and code, tostring(id))
        assert(not pool:cancel(id))
    end
    assert(select(3, pool:wait(nil)) == codes.invalid_request)
end)

promise("thousands of callbacks each run once, in this thread, with their own result", function()
    local seen, count = {}, 5000
    for n = 1, count do
        local id
        repeat
            local _, code
            id, _, code = pool:submit_with({ handler = "echo", args = { n = n } }, function(result, message, _, task)
                assert(result, message)
                assert(coroutine.running() == nil and not seen[result.n])
                seen[result.n] = task
            end)
            if not id then
                assert(code == codes.queue_full, code)
                assert(pool:step(1))
            end
        until id
    end
    assert(pool:run(120))
    assert(#seen == count and pool.waiting == 0 and next(pool.callbacks) == nil)
end)

promise("a callback is told of a failure, and may submit more", function()
    local told = {}
    assert(pool:submit_with({ handler = "fail", args = { message = "first" } }, function(result, message, code)
        told[#told + 1] = { result, message, code }
        assert(pool:submit_with({ handler = "echo", args = { n = 2 } }, function(second)
            told[#told + 1] = second
        end))
    end))
    assert(pool:run(30))
    assert(told[1][1] == nil and told[1][2]:find("first") and told[1][3] == codes.handler_error and told[2].n == 2)
end)

promise("what a callback raises comes out of step, and costs nobody else's result", function()
    local ran = 0
    for n = 1, 3 do
        assert(pool:submit_with({ handler = "echo", args = { n = n } }, function()
            ran = ran + 1
            error("mine", 0)
        end))
    end
    for _ = 1, 3 do
        local well, why = pcall(pool.run, pool, 30)
        assert(not well and why == "mine", tostring(why))
    end
    assert(ran == 3 and pool:run(30) == true)
end)

promise("step keeps the results of tasks without a callback for those who ask", function()
    local quiet = assert(pool:submit({ handler = "echo", args = { n = 1 } }))
    assert(pool:submit_with({ handler = "sleep", args = { ms = 20 } }, function() end))
    assert(pool:run(30))
    assert(assert(pool:wait(quiet, 30)).n == 1)
    assert(next(pool.ended) == nil)
end)

promise("a task with a callback cannot be waited for as well", function()
    local id = assert(pool:submit_with({ handler = "echo" }, function() end))
    assert(select(3, pool:wait(id, 1)) == codes.invalid_request)
    assert(pool:run(30))
end)

promise("run gives up when its time is over, and can go on later", function()
    local ended = false
    local id = assert(pool:submit_with({ handler = "sleep", args = { ms = 60000 } }, function(_, _, code)
        ended = code
    end))
    assert(select(3, pool:run(0.01)) == codes.not_ended and ended == false)
    assert(pool:cancel(id))
    assert(pool:run(30) and ended == codes.cancelled)
end)

promise("a closed pool says so, whatever is asked of it", function()
    local other = assert(millpond.create())
    assert(other:submit({ handler = "echo" }))
    assert(other:close() and other:close())
    for _, call in ipairs({ "submit", "wait", "poll", "step", "cancel", "stream" }) do
        local result, message, code = other[call](other, call == "step" and 0 or call:find("s[ut][br]") and {} or 1)
        assert(result == nil and message == "the pool is closed" and code == codes.draining, call)
    end
    assert(tostring(other):find("closed"))
end)

promise("a callback may close the pool", function()
    local other = assert(millpond.create())
    assert(other:submit_with({ handler = "echo" }, function() other:close() end))
    assert(other:run(30))
    assert(select(3, other:submit({ handler = "echo" })) == codes.draining)
end)

promise("a pool that nobody holds is shut down when it is collected", function()
    for _ = 1, 20 do
        local other = assert(millpond.create())
        assert(other:submit({ handler = "echo" }))
    end
    collectgarbage()
    collectgarbage()
    assert(workshop.threads() < 60, "threads of dropped pools are left: " .. workshop.threads())
end)

promise("a configuration that cannot be read is a value and no crash", function()
    for _, config in ipairs({ "/nowhere/millpond.toml", folder .. "/run.lua", "" }) do
        local other, message, code = millpond.create(config)
        assert(other == nil and #message > 0 and code < 0, config)
    end
    assert(select(3, millpond.create(17)) == codes.invalid_request)
    assert(select(3, millpond.attach({})) == codes.invalid_request)
end)

promise("the library has a version", function()
    assert(millpond.version():find("^%d+%.%d+%.%d+"))
end)

promise("the module may be loaded a second time", function()
    for _, name in ipairs({ "millpond", "millpond.library", "millpond.stream" }) do
        package.loaded[name] = nil
    end
    local again = require("millpond")
    assert(again ~= millpond)
    local other = assert(again.create())
    assert(other:wait(assert(other:submit({ handler = "echo" })), 30))
    other:close()
end)

pool:close()
