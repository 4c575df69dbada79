--- millpond for LuaJIT: submit tasks to a pool in this program or in a daemon, and get their results.
--
--     local millpond = require("millpond")
--     local pool = assert(millpond.attach())
--     local id = assert(pool:submit({ handler = "echo", args = { hello = "world" } }))
--     print(assert(pool:wait(id, 5)).hello)
--
-- Everything that can fail gives back nil, a message and a code. Threads of the library never call into Lua, because
-- a LuaJIT state belongs to one thread: a callback runs inside `pool:step()` or `pool:run()`, in the thread that
-- calls it.
--
-- Not here: the library and its declarations (`millpond/library.lua`), streams (`millpond/stream.lua`), JSON
-- (`millpond/json.lua`).

local ffi = require("ffi")
local codes = require("millpond.codes")
local json = require("millpond.json")
local library = require("millpond.library")
local stream = require("millpond.stream")

local millpond = { codes = codes, json = json, null = json.null, array = json.array }

local Pool = {}
Pool.__index = Pool

-- One call into the library waits no longer than this; a longer wait is made of several.
local SLICE_MS = 60000
-- A step does not run more callbacks than this, so that a program with other things to do gets to them.
local STEP_MAX = 256

--- The version of the library that was found.
function millpond.version()
    return ffi.string(library.millpond_version())
end

--- What the library says about the call that just failed.
local function last_error()
    return nil, ffi.string(library.millpond_last_error()), library.millpond_last_error_code()
end

local function opened(handle)
    if handle == nil then
        return last_error()
    end
    -- When Lua ends it calls finalizers in any order, and a stream's may come after the pool's: `life` tells it. The
    -- finalizer must not hold the pool or the handle itself, or they would never be collected.
    local life = { is_open = true }
    local function shut(last)
        life.is_open = false
        library.millpond_shutdown(last)
    end
    local pool = {
        handle = ffi.gc(handle, shut),
        life = life,
        callbacks = {}, -- by id: who is called when the task has ended
        waiting = 0, -- how many callbacks there are
        ended = {}, -- by id: results that `step` came across and nobody has asked for yet
        forgotten = {}, -- by id: tasks whose result nobody will ask for
    }
    return setmetatable(pool, Pool)
end

--- A pool inside this program. `config` is the path of a configuration file; without one the defaults hold.
function millpond.create(config)
    if config ~= nil and type(config) ~= "string" then
        return nil, "config: expected the path of a file, got a " .. type(config), codes.invalid_request
    end
    return opened(library.millpond_create(config))
end

--- The pool of a running daemon. `name` is the daemon's name, or its run-time directory if there is a slash in it;
--- without one it is "millpond".
function millpond.attach(name)
    if name ~= nil and type(name) ~= "string" then
        return nil, "name: expected a string, got a " .. type(name), codes.invalid_request
    end
    return opened(library.millpond_attach(name))
end

local function closed()
    return nil, "the pool is closed", codes.draining
end

--- Seconds as the library counts them, at most one slice.
local function slice_ms(seconds)
    return math.min(math.max(math.ceil(seconds * 1000), 0), SLICE_MS)
end

-- `os.time` has whole seconds only, and `os.clock` counts work and not time.
local CLOCK_MONOTONIC = ffi.os == "OSX" and 6 or 1
local time = ffi.new("millpond_time_t[1]")
local function now()
    ffi.C.millpond_clock(CLOCK_MONOTONIC, time)
    return tonumber(time[0].seconds) + tonumber(time[0].nanoseconds) / 1e9
end

--- Takes a result of the library apart and frees it: { id, value } or { id, nil, message, code }.
local function taken(result)
    local id, status = tonumber(result.task_id), result.status
    local text = result.data ~= nil and ffi.string(result.data, result.data_size) or nil
    local short = ffi.string(result.error_msg)
    library.millpond_result_free(result)
    if status ~= 0 then
        return { id = id, message = short ~= "" and short or text, code = status }
    end
    local value, wrong = json.decode(text)
    if value == nil then
        return { id = id, message = "the result cannot be read: " .. wrong, code = codes.internal }
    end
    return { id = id, value = value }
end

local function told(ended)
    if ended.code then
        return nil, ended.message, ended.code
    end
    return ended.value
end

--- A request as the library wants it. Text is passed on as it is.
local function request_text(request)
    if type(request) == "string" then
        if request:find("%z") then
            return nil, "request: expected JSON, got a byte 0 in it", codes.invalid_request
        end
        return request
    elseif type(request) ~= "table" then
        return nil, "request: expected a table or JSON, got a " .. type(request), codes.invalid_request
    end
    local text, wrong = json.encode(request)
    if not text then
        return nil, "request: " .. wrong, codes.invalid_request
    end
    return text
end

--- Drops the results of forgotten tasks that have ended, so that they do not pile up in the library.
local function sweep(pool)
    for id in pairs(pool.forgotten) do
        local result = library.millpond_poll_result(pool.handle, id)
        if result ~= nil then
            library.millpond_result_free(result)
            pool.forgotten[id] = nil
        elseif library.millpond_last_error_code() ~= codes.not_ended then
            pool.forgotten[id] = nil
        end
    end
end

local function submitted(pool, request, submit)
    if not pool.life.is_open then
        return closed()
    end
    local text, message, code = request_text(request)
    if not text then
        return nil, message, code
    end
    sweep(pool)
    local id = submit(pool.handle, text)
    if id == 0 then
        return last_error()
    end
    return tonumber(id)
end

--- Submits a request, a table or JSON, and gives back the number of its task. Never waits: a full queue is refused
--- with `codes.queue_full`.
function Pool:submit(request)
    return submitted(self, request, library.millpond_submit)
end

--- Submits a request. When its task has ended, `callback(result, message, code, id)` runs inside `step` or `run`.
function Pool:submit_with(request, callback)
    if type(callback) ~= "function" then
        return nil, "callback: expected a function, got a " .. type(callback), codes.invalid_request
    end
    local id, message, code = self:submit(request)
    if id then
        self.callbacks[id] = callback
        self.waiting = self.waiting + 1
    end
    return id, message, code
end

--- Submits a request, and gives back its partial results one by one: `for chunk in pool:stream(request) do`.
function Pool:stream(request)
    local id, message, code = submitted(self, request, library.millpond_submit_streaming)
    if not id then
        return nil, message, code
    end
    return stream.open(self, id)
end

--- The result if the task has ended, once; or nil, message and code, which is `codes.not_ended` while it has not.
function Pool:poll(id)
    return self:wait(id, 0)
end

--- Waits for the end of a task, for so many seconds at the most, for ever without a number.
function Pool:wait(id, seconds)
    local ended = self.ended[id]
    if ended then
        self.ended[id] = nil
        return told(ended)
    elseif self.callbacks[id] then
        return nil, "task " .. id .. " has a callback, which gets its result", codes.invalid_request
    elseif type(id) ~= "number" or id < 1 then
        return nil, "id: expected what submit gave back, got " .. tostring(id), codes.invalid_request
    end
    local until_time = now() + (seconds or math.huge)
    repeat
        if not self.life.is_open then
            return closed()
        end
        local result = library.millpond_wait_result(self.handle, id, slice_ms(until_time - now()))
        if result ~= nil then
            return told(taken(result))
        elseif library.millpond_last_error_code() ~= codes.not_ended then
            return last_error()
        end
    until now() >= until_time
    return nil, "task " .. id .. " has not ended yet", codes.not_ended
end

--- Runs the callbacks of tasks that have ended, and gives back how many it ran. Waits for the first result so many
--- seconds at the most, not at all without a number. What a callback raises comes out here.
function Pool:step(seconds)
    if not self.life.is_open then
        return closed()
    end
    local wait_ms, ran, looked = slice_ms(seconds or 0), 0, 0
    while looked < STEP_MAX and self.life.is_open do
        local result = library.millpond_next_result(self.handle, wait_ms)
        if result == nil then
            if library.millpond_last_error_code() ~= codes.not_ended then
                return last_error()
            end
            break
        end
        wait_ms, looked = 0, looked + 1
        local ended = taken(result)
        local callback = self.callbacks[ended.id]
        if callback then
            self.callbacks[ended.id] = nil
            self.waiting = self.waiting - 1
            ran = ran + 1
            callback(ended.value, ended.message, ended.code, ended.id)
        elseif self.forgotten[ended.id] then
            self.forgotten[ended.id] = nil
        else
            self.ended[ended.id] = ended
        end
    end
    return ran
end

--- Steps until every callback has run; for so many seconds at the most, for ever without a number.
function Pool:run(seconds)
    local until_time = now() + (seconds or math.huge)
    while self.waiting > 0 do
        local left = until_time - now()
        if left <= 0 then
            return nil, self.waiting .. " tasks have not ended yet", codes.not_ended
        end
        local ran, message, code = self:step(left)
        if not ran then
            return nil, message, code
        end
    end
    return true
end

--- Ends a task that has not ended: its result is the error `codes.cancelled`.
function Pool:cancel(id)
    if not self.life.is_open then
        return closed()
    elseif type(id) ~= "number" or id < 1 then
        return nil, "id: expected what submit gave back, got " .. tostring(id), codes.invalid_request
    elseif library.millpond_cancel(self.handle, id) ~= 0 then
        return last_error()
    end
    return true
end

--- Ends a task and gives up its result.
function Pool:forget(id)
    if self.life.is_open then
        self.waiting = self.waiting - (self.callbacks[id] and 1 or 0)
        self.callbacks[id], self.ended[id], self.forgotten[id] = nil, nil, true
        library.millpond_cancel(self.handle, id)
    end
end

--- Closes the pool: one of this program finishes its tasks first, one of a daemon lets go of it. Results that nobody
--- has fetched are gone, and callbacks that have not run never will. A second call does nothing.
function Pool:close()
    if self.life.is_open then
        self.life.is_open = false
        self.callbacks, self.waiting, self.ended, self.forgotten = {}, 0, {}, {}
        library.millpond_shutdown(ffi.gc(self.handle, nil))
    end
    return true
end

function Pool:__tostring()
    return self.life.is_open and "millpond pool" or "millpond pool (closed)"
end

return millpond
