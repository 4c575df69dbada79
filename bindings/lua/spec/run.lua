--- Runs the specs in this folder in the LuaJIT that runs this file, and says how many promises were kept.
--
--     export MILLPOND_LIBRARY=target/debug/libmillpond.so MILLPOND_BIN=target/debug/millpond
--     luajit bindings/lua/spec/run.lua
--
-- With words behind it, only those specs: `json pool`. It is small enough to be here, so that nothing has to be
-- installed beside LuaJIT.

local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/../src/?.lua;" .. folder .. "/?.lua;" .. package.path

local SPECS = { "json", "codes", "pool", "stream", "seed", "daemon" }
local kept, broken = 0, 0

--- What every spec is given: `promise(name, body)` runs `body` at once.
local function promise(name, body)
    local well, why = xpcall(body, debug.traceback)
    if well then
        kept = kept + 1
    else
        broken = broken + 1
        print("BROKEN  " .. name .. "\n        " .. tostring(why))
    end
    -- What a body leaves behind is collected here, so that a finalizer that crashes does so beside its promise.
    collectgarbage()
end

for _, name in ipairs(#arg > 0 and arg or SPECS) do
    local before = kept
    local spec = assert(loadfile(folder .. "/" .. name .. "_spec.lua"))
    spec(promise, folder)
    print(string.format("%-8s %d kept", name, kept - before))
end
print(string.format("%d passed, %d failed", kept, broken))
os.exit(broken == 0 and 0 or 1, true)
