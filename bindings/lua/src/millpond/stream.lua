--- What a task says while it runs, for a `for` loop.
--
-- A stream is read where it is consumed: a task whose reader is slow is held back, and nothing piles up. The loop
-- ends with the task, well or not; `stream:result()` then says how it ended. A stream that is left before its end is
-- cancelled by `stream:close()`, or when Lua collects it.
--
-- Not here: submitting, and waiting for the end (`millpond.lua`).

local ffi = require("ffi")
local codes = require("millpond.codes")
local json = require("millpond.json")
local library = require("millpond.library")

local Stream = {}
Stream.__index = Stream

-- How long one call waits before it looks whether the pool is still open.
local SLICE_MS = 60000

--- A stream over the task `id` of `pool`.
local function open(pool, id)
    -- LuaJIT calls finalizers of cdata and not of tables, so one byte of cdata stands for the stream. The finalizer
    -- must not hold the stream itself, or it would never be collected.
    local state = { is_over = false }
    local function drop()
        if not state.is_over then
            pool:forget(id)
        end
    end
    return setmetatable({ pool = pool, id = id, state = state, anchor = ffi.gc(ffi.new("char[1]"), drop) }, Stream)
end

--- Nothing more comes; how it ended is kept for `result`.
local function finish(stream, value, message, code)
    stream.state.is_over = true
    stream.ended = { value = value, message = message, code = code }
end

--- Reads one event, or finishes the stream, or finds nothing in a slice of time.
local function read(stream)
    local partial = library.millpond_next_partial(stream.pool.handle, stream.id, SLICE_MS)
    if partial ~= nil then
        local text = ffi.string(partial.data, partial.data_size)
        library.millpond_result_free(partial)
        local event, wrong = json.decode(text)
        if event == nil then
            stream.pool:forget(stream.id)
            finish(stream, nil, "the stream cannot be read: " .. wrong, codes.internal)
        end
        return event
    end
    local code = library.millpond_last_error_code()
    if code == codes.ok then
        finish(stream, stream.pool:wait(stream.id))
    elseif code ~= codes.not_ended then
        finish(stream, nil, ffi.string(library.millpond_last_error()), code)
    end
    return nil
end

--- The next event as a table with `offset`, `attempt` and one of `partial`, `progress`, `log`, `missed`; nil at the
--- end.
function Stream:event()
    while not self.state.is_over do
        if not self.pool.life.is_open then
            finish(self, nil, "the pool is closed", codes.draining)
        else
            local event = read(self)
            if event then
                return event
            end
        end
    end
    return nil
end

--- The next partial result, or nil at the end: what `for chunk in stream do` calls.
function Stream:__call()
    local event = self:event()
    while event and event.partial == nil do
        event = self:event()
    end
    return event and event.partial
end

--- How the task ended: its result; or nil, message and code. What it says until then and nobody has read is dropped.
function Stream:result()
    while self:event() do
        -- Only the end matters now.
    end
    return self.ended.value, self.ended.message, self.ended.code
end

--- Ends the task if it has not ended, and gives up its result.
function Stream:close()
    if not self.state.is_over then
        self.pool:forget(self.id)
        finish(self, nil, "the stream was closed", codes.cancelled)
    end
end

return { open = open }
