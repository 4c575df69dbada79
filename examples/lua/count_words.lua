--- The handler of `words.lua`: counts the words of one file.
--
-- A handler is a program that reads a task from each line of its input and answers in a line (docs/handlers.md). The
-- pool starts it when the first task comes, and keeps it.

local json = require("millpond.json")

local function counted(path)
    local file, why = io.open(path)
    if not file then
        return { error = { code = "bad-arguments", message = why } }
    end
    local words, counts = 0, {}
    for word in file:read("*a"):lower():gmatch("%a%a%a+") do
        words = words + 1
        counts[word] = (counts[word] or 0) + 1
    end
    file:close()
    return { result = { words = words, counts = counts } }
end

for line in io.lines() do
    local task = assert(json.decode(line))
    io.write(assert(json.encode(counted(task.args.path))), "\n")
    io.flush()
end
