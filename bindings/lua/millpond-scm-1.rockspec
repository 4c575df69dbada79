rockspec_format = "3.0"
package = "millpond"
version = "scm-1"
source = {
    -- The folder that holds this file: `luarocks make` in it installs what is there.
    url = "file://.",
    dir = ".",
}
description = {
    summary = "Submit tasks to a millpond: a worker pool you can link, run or join",
    detailed = [[
        Tasks run in a pool inside your program or in a daemon; results come by polling, waiting, callback or as a stream.
        Needs LuaJIT 2.1, and libmillpond: named in MILLPOND_LIBRARY, beside the module, or installed on the system.
    ]],
    license = "MIT OR Apache-2.0",
    labels = { "concurrency", "ffi", "luajit" },
}
supported_platforms = { "linux" }
dependencies = { "lua == 5.1" }
build = {
    type = "builtin",
    modules = {
        ["millpond"] = "src/millpond.lua",
        ["millpond.codes"] = "src/millpond/codes.lua",
        ["millpond.json"] = "src/millpond/json.lua",
        ["millpond.library"] = "src/millpond/library.lua",
        ["millpond.stream"] = "src/millpond/stream.lua",
    },
}
test = {
    type = "command",
    command = "luajit spec/run.lua",
}
