--- Two handlers to try things with: `count` says every number up to `to`, `fail` fails as it is told to.
--
-- A handler is a program that reads a task from each line and answers in lines; docs/handlers.md says how.

package.path = arg[0]:match("^(.*)/[^/]*$") .. "/../src/?.lua;" .. package.path
local json = require("millpond.json")

local function say(value)
    io.write(assert(json.encode(value)), "\n")
    io.flush()
end

for line in io.lines() do
    local task = assert(json.decode(line))
    if task.handler == "fail" then
        local code, message = task.args.code or "handler-error", task.args.message or "as it was told to"
        say({ error = { code = code, message = message } })
    else
        for number = 1, task.args.to do
            say({ partial = { number = number } })
            say({ progress = number / task.args.to })
        end
        if task.args.fail then
            say({ error = task.args.fail })
        else
            say({ result = { counted = task.args.to } })
        end
    end
end
