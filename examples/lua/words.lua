--- Counts the words of many files, several files at a time, and shows the most frequent ones.
--
--     export LUA_PATH='bindings/lua/src/?.lua;;' MILLPOND_LIBRARY=target/release/libmillpond.so
--     luajit examples/lua/words.lua docs/*.md
--
-- LuaJIT has one thread. The pool inside this program has several, and runs `count_words.lua` as a handler, in
-- processes of its own; results come to callbacks, in this thread, while others are still being counted. It is run
-- from the root of the repository, because `millpond.toml` names the handler from there. Without files it counts the
-- README.

local millpond = require("millpond")

local files = #arg > 0 and arg or { "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "no-such-file.md" }
local pool = assert(millpond.create("examples/lua/millpond.toml"))
local total, counts = 0, {}

--- Runs in this thread, inside `pool:step` and `pool:run`.
local function add_up(path, result, message, code)
    if not result then
        io.stderr:write(string.format("%s: %s (%s)\n", path, message, millpond.codes.name(code)))
        return
    end
    total = total + result.words
    for word, count in pairs(result.counts) do
        counts[word] = (counts[word] or 0) + count
    end
end

--- Submits; while the queue is full it makes room by working on what has ended.
local function submit(path)
    local request = { handler = "count_words", args = { path = path }, timeout_ms = 60000 }
    local callback = function(result, message, code)
        add_up(path, result, message, code)
    end
    while true do
        local id, message, code = pool:submit_with(request, callback)
        if id then
            return
        elseif code ~= millpond.codes.queue_full then
            error(message, 0)
        end
        assert(pool:step(1))
    end
end

for _, path in ipairs(files) do
    submit(path)
end
assert(pool:run(300))
pool:close()

local words = {}
for word in pairs(counts) do
    words[#words + 1] = word
end
table.sort(words, function(a, b)
    return counts[a] > counts[b] or (counts[a] == counts[b] and a < b)
end)
print(string.format("%d words in %d files", total, #files))
for rank = 1, math.min(10, #words) do
    print(string.format("%6d  %s", counts[words[rank]], words[rank]))
end
