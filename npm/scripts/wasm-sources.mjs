// What the WebAssembly modules are made of, as fingerprints that BUILD.json keeps: one for each source file.
//
// Only what can change a module counts: code, not comments, tests or models, which are left out before the text is
// hashed. Dependencies count by what Cargo.lock says of them, and the flags of the build by their own fingerprint.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const flagsPlace = 'npm/scripts/build-wasm.mjs'

function fingerprint(text) {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** The code of a source file, without comments that fill lines and without the tests at its foot. */
function code(text) {
  const beforeTests = text.split(/^#\[cfg\(test\)\]\nmod tests \{$/m, 1)[0]
  return beforeTests.split('\n').filter((line) => !/^\s*(\/\/|#(?![[!])|$)/.test(line)).join('\n')
}

function rustFiles(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const isCode = (entry) => entry.isFile() && entry.name.endsWith('.rs') && !/(_model|^model)\.rs$/.test(entry.name)
  return entries.filter(isCode).map((entry) => join(entry.parentPath ?? entry.path, entry.name)).sort()
}

/** The entry of each package in Cargo.lock that `name` needs, itself included, by its name. */
function locked(lock, name) {
  const entries = new Map(lock.split('\n[[package]]\n').map((entry) => [/^name = "(.*)"$/m.exec(entry)?.[1], entry]))
  const reached = new Map()
  const waiting = [name]
  while (waiting.length > 0) {
    const next = waiting.pop()
    const entry = entries.get(next)
    if (entry === undefined || reached.has(next)) continue
    reached.set(next, entry.trim())
    for (const [, dependency] of entry.matchAll(/^ "([^" ]+)[^"]*",$/gm)) waiting.push(dependency)
  }
  return reached
}

/** The fingerprint of everything that decides the bytes of a module, by the place where it stands. */
export function fingerprints(root, artefact, recipe) {
  const found = { [flagsPlace]: fingerprint(JSON.stringify(recipe)) }
  for (const folder of artefact.sources) {
    const files = [join(root, folder, 'Cargo.toml'), ...rustFiles(join(root, folder, 'src'))]
    for (const file of files) {
      const place = file.slice(root.length + 1).replaceAll('\\', '/')
      found[place] = fingerprint(code(readFileSync(file, 'utf8')))
    }
  }
  const lock = readFileSync(join(root, 'Cargo.lock'), 'utf8')
  for (const [name, entry] of [...locked(lock, artefact.package)].sort()) {
    if (!name.startsWith('millpond')) found[`Cargo.lock (${name})`] = fingerprint(entry)
  }
  return found
}

/** The places that are new, gone or not as they were. */
export function differences(kept, now) {
  const places = new Set([...Object.keys(now), ...Object.keys(kept)])
  return [...places].filter((place) => kept[place] !== now[place])
}
