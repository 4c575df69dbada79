--- Where libmillpond is, and what of it Lua calls.
--
-- It is looked for in three places: the path in the environment variable MILLPOND_LIBRARY, beside this module (the
-- folder of the module, then package.cpath, where luarocks puts shared libraries), and where the system looks. If the
-- variable is set, nowhere else: whoever names a library does not want another one.
--
-- The declarations have names of their own, tied to the symbols of the library: all of a LuaJIT program shares one
-- space of C names, and another module may have declared `result_t` or `threadpool_submit` in its own way.

local ffi = require("ffi")

-- A second load of this module, in the same state, would declare the structs twice.
if not pcall(ffi.typeof, "millpond_result_t") then
    ffi.cdef([[
        typedef struct millpond_pool millpond_pool_t;
        typedef struct millpond_result {
            uint64_t task_id; int32_t status; void* data; uint32_t data_size; char error_msg[256];
        } millpond_result_t;

        millpond_pool_t* millpond_create(const char* config_path) __asm__("threadpool_create");
        millpond_pool_t* millpond_attach(const char* name) __asm__("threadpool_attach");
        void millpond_shutdown(millpond_pool_t* pool) __asm__("threadpool_shutdown");
        uint64_t millpond_submit(millpond_pool_t* pool, const char* json) __asm__("threadpool_submit");
        uint64_t millpond_submit_streaming(millpond_pool_t* pool, const char* json)
            __asm__("threadpool_submit_streaming");
        millpond_result_t* millpond_poll_result(millpond_pool_t* pool, uint64_t id) __asm__("threadpool_poll_result");
        millpond_result_t* millpond_wait_result(millpond_pool_t* pool, uint64_t id, uint32_t timeout_ms)
            __asm__("threadpool_wait_result");
        millpond_result_t* millpond_next_result(millpond_pool_t* pool, uint32_t timeout_ms)
            __asm__("threadpool_next_result");
        millpond_result_t* millpond_next_partial(millpond_pool_t* pool, uint64_t id, uint32_t timeout_ms)
            __asm__("threadpool_next_partial");
        void millpond_result_free(millpond_result_t* result) __asm__("threadpool_result_free");
        int millpond_cancel(millpond_pool_t* pool, uint64_t id) __asm__("threadpool_cancel");
        const char* millpond_last_error(void) __asm__("threadpool_last_error");
        int32_t millpond_last_error_code(void) __asm__("threadpool_last_error_code");
        const char* millpond_version(void) __asm__("threadpool_version");

        typedef struct { long seconds, nanoseconds; } millpond_time_t;
        int millpond_clock(int clock, millpond_time_t* time) __asm__("clock_gettime");
    ]])
end

local FILE = ffi.os == "OSX" and "libmillpond.dylib" or "libmillpond.so"

local function readable(path)
    local file = io.open(path, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end

--- The path of the library, or the bare name that makes the system look for it.
local function find()
    local named = os.getenv("MILLPOND_LIBRARY")
    if named and named ~= "" then
        return named
    end
    local folder = debug.getinfo(1, "S").source:match("^@(.*)[/\\]millpond[/\\][^/\\]*$")
    if folder and readable(folder .. "/" .. FILE) then
        return folder .. "/" .. FILE
    end
    return package.searchpath("libmillpond", package.cpath) or "millpond"
end

local place = find()
local well, library = pcall(ffi.load, place)
if not well then
    error(string.format("libmillpond: cannot be loaded as %q: %s; name it in MILLPOND_LIBRARY", place, library), 0)
end
return library
