--- A stream is a `for` loop over what a task says: every part, in order, and then its end.

local promise, folder = ...
local millpond = require("millpond")
local codes = millpond.codes
local workshop = require("workshop")

local pool = assert(millpond.create(workshop.config(folder)))

promise("a loop sees every part in order, and then the result", function()
    local stream = assert(pool:stream({ handler = "count", args = { to = 100 } }))
    local expected = 0
    for chunk in stream do
        expected = expected + 1
        assert(chunk.number == expected)
    end
    assert(expected == 100)
    assert(assert(stream:result()).counted == 100)
    assert(assert(stream:result()).counted == 100, "it may be asked twice")
    assert(stream() == nil, "and the stream stays at its end")
end)

promise("events tell what parts do not: progress and places", function()
    local stream = assert(pool:stream({ handler = "count", args = { to = 4 } }))
    local progress, offset = 0, -1
    for event in function() return stream:event() end do
        assert(event.offset > offset and event.attempt == 1)
        offset = event.offset
        progress = event.progress or progress
    end
    assert(progress == 1 and stream:result().counted == 4)
end)

promise("a task without parts has an empty stream and a result", function()
    local stream = assert(pool:stream({ handler = "echo", args = { n = 1 } }))
    assert(stream() == nil and stream:result().n == 1)
end)

promise("a task that fails in the middle ends the loop, and result says why", function()
    local stream = assert(pool:stream({ handler = "count", args = { to = 3, fail = "enough" } }))
    local parts = 0
    for _ in stream do
        parts = parts + 1
    end
    local result, message, code = stream:result()
    assert(parts == 3 and result == nil and message:find("enough") and code == codes.handler_error, tostring(message))
end)

promise("result passes over what nobody has read", function()
    local stream = assert(pool:stream({ handler = "count", args = { to = 50 } }))
    assert(stream().number == 1)
    assert(stream:result().counted == 50)
end)

promise("a loop may be left, and the task is ended with the stream", function()
    local stream = assert(pool:stream({ handler = "count", args = { to = 1000000 } }))
    for chunk in stream do
        if chunk.number == 3 then
            break
        end
    end
    stream:close()
    stream:close()
    assert(stream() == nil and select(3, stream:result()) == codes.cancelled)
end)

promise("a stream that is dropped is cancelled when it is collected", function()
    local id
    do
        local stream = assert(pool:stream({ handler = "count", args = { to = 1000000 } }))
        id = stream.id
        assert(stream().number == 1)
    end
    collectgarbage()
    collectgarbage()
    assert(pool.forgotten[id] or select(3, pool:cancel(id)) ~= nil)
    -- The next call sweeps up, at once or as soon as the task has ended.
    for _ = 1, 1000 do
        assert(pool:wait(assert(pool:submit({ handler = "sleep", args = { ms = 1 } })), 30))
        if next(pool.forgotten) == nil then
            return
        end
    end
    error("the forgotten task is still there")
end)

promise("several streams and callbacks go on beside each other", function()
    local ended = 0
    local streams = {}
    for _ = 1, 4 do
        streams[#streams + 1] = assert(pool:stream({ handler = "count", args = { to = 20 } }))
        assert(pool:submit_with({ handler = "echo" }, function() ended = ended + 1 end))
    end
    for number = 1, 20 do
        for _, stream in ipairs(streams) do
            assert(stream().number == number)
        end
        assert(pool:step())
    end
    for _, stream in ipairs(streams) do
        assert(stream:result().counted == 20)
    end
    assert(pool:run(30) and ended == 4)
end)

promise("a stream of a closed pool ends", function()
    local other = assert(millpond.create())
    local stream = assert(other:stream({ handler = "echo" }))
    other:close()
    assert(stream() == nil and select(3, stream:result()) == codes.draining)
end)

pool:close()
