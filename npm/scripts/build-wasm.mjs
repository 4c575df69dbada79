// Builds the WebAssembly modules of the package, and checks that those in npm/wasm are of today's sources.
//
//   node scripts/build-wasm.mjs            builds npm/wasm/*.wasm and writes npm/wasm/BUILD.json
//   node scripts/build-wasm.mjs --check    compares the sources with BUILD.json; with the same compiler also the bytes
//   node scripts/build-wasm.mjs ring       builds one of them
//
// The modules are kept in the repository, since few who work on the JavaScript have a Rust compiler that can build its
// own standard library. What decides their bytes is in this file: the sources, the flags, and the three versions
// that BUILD.json names. Finding a compiler is in wasm-toolchain.mjs, reading the sources in wasm-sources.mjs.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { differences, fingerprints } from './wasm-sources.mjs'
import { findToolchain } from './wasm-toolchain.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const wasmFolder = join(root, 'npm', 'wasm')
const recordFile = join(wasmFolder, 'BUILD.json')

// Only what is linked by itself is optimised as a whole, so the crate type is given by hand: with the `rlib` that the
// tests want beside it, nothing would be. Panics end in a trap, and their texts and places are left out: a panic is our
// own mistake, and JavaScript cannot read them anyway; nobody prints a value to look into it either. The stack stands
// below the data, so that one that overflows traps and writes over nothing.
const flagsOfAll = [
  '-Zlocation-detail=none', '-Zfmt-debug=none', '-Cpanic=immediate-abort', '-Zunstable-options', '-Ctarget-cpu=mvp',
  '-Ctarget-feature=+bulk-memory,+mutable-globals,+sign-ext,+nontrapping-fptoint', '-Clink-arg=-zstack-size=16384',
  '-Clink-arg=--compress-relocations', '-Clink-arg=--strip-all',
]

// Both modules together, as they are: every page that uses the package loads them.
const bytesMax = 49_999

// What the compiler leaves: a twentieth of the bytes. It knows of WebAssembly's own ways to say the same in less.
const optimiserFlags = [
  '--enable-bulk-memory', '--enable-sign-ext', '--enable-mutable-globals', '--enable-nontrapping-float-to-int',
]

const artefacts = [
  {
    name: 'policy', package: 'millpond-wasm-policy', optLevel: 'z', optimise: ['-Oz', '--converge'],
    sources: ['crates/wasm-policy', 'crates/policy'],
    // A memory of its own: 64 MB are enough for a million sticky keys or two thousand histograms.
    flags: ['-Clink-arg=--max-memory=67108864'],
  },
  {
    name: 'ring', package: 'millpond-wasm-ring', optLevel: '3', optimise: ['--enable-threads', '-O3'],
    sources: ['crates/wasm-ring', 'crates/queue'],
    // One memory for all threads. Each instance is given a stack of its own by whoever makes it.
    flags: [
      '-Ctarget-feature=+atomics', '-Clink-arg=--import-memory', '-Clink-arg=--shared-memory',
      '-Clink-arg=--max-memory=4294967296', '-Clink-arg=--export=__stack_pointer', '-Clink-arg=--export=__heap_base',
    ],
  },
]

const profile = {
  CARGO_PROFILE_RELEASE_LTO: 'fat', CARGO_PROFILE_RELEASE_CODEGEN_UNITS: '1', CARGO_PROFILE_RELEASE_DEBUG: '0',
  CARGO_PROFILE_RELEASE_STRIP: 'symbols', CARGO_PROFILE_RELEASE_INCREMENTAL: 'false',
  CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS: 'false',
}

function stop(text) {
  console.error(text)
  process.exit(1)
}

function sha256(bytes) {
  return createHash('sha256').update(bytes).digest('hex')
}

/** What makes the bytes, apart from the sources and the compiler. */
function recipe(artefact) {
  return {
    flags: [...flagsOfAll, ...artefact.flags], profile: { ...profile, optLevel: artefact.optLevel },
    optimise: [...optimiserFlags, ...artefact.optimise],
  }
}

/** Builds one module and answers with its bytes. */
function build(artefact, toolchain) {
  const targetFolder = join(process.env.MILLPOND_WASM_TARGET ?? join(root, 'npm', '.wasm-target'), artefact.name)
  // No path of this machine may be in the module: it would tell on it, and the bytes would differ elsewhere.
  const remap = [
    `--remap-path-prefix=${root}=.`, `--remap-path-prefix=${toolchain.source}=rust`,
    `--remap-path-prefix=${toolchain.cargoHome}=cargo`,
  ]
  const rustFlags = [`-Clinker=${toolchain.linker}`, ...recipe(artefact).flags, ...remap]
  const result = spawnSync(toolchain.cargo, [
    'rustc', '--crate-type', 'cdylib', '--release', '--locked', '-Zbuild-std=core,alloc',
    '-Zbuild-std-features=optimize_for_size',
    '--target', 'wasm32-unknown-unknown', '--manifest-path', join(root, 'Cargo.toml'), '-p', artefact.package,
  ], {
    cwd: root,
    encoding: 'utf8',
    env: {
      ...process.env, ...profile, CARGO_PROFILE_RELEASE_OPT_LEVEL: artefact.optLevel, RUSTC: toolchain.rustc,
      RUSTC_BOOTSTRAP: '1', RUSTFLAGS: '', CARGO_ENCODED_RUSTFLAGS: rustFlags.join('\x1f'), CARGO_INCREMENTAL: '0',
      CARGO_TARGET_DIR: targetFolder,
    },
  })
  if (result.error || result.status !== 0) {
    stop(`${artefact.name}.wasm: ${toolchain.cargo} failed: ${result.error?.message ?? `\n${result.stderr}`}`)
  }
  const made = join(targetFolder, 'wasm32-unknown-unknown', 'release', `${artefact.name}.wasm`)
  return optimised(artefact, toolchain, made)
}

function optimised(artefact, toolchain, file) {
  const made = `${file}.small`
  const result = spawnSync(toolchain.optimiser, [file, ...recipe(artefact).optimise, '-o', made], { encoding: 'utf8' })
  if (result.error || result.status !== 0) {
    stop(`${artefact.name}.wasm: ${toolchain.optimiser} failed: ${result.error?.message ?? `\n${result.stderr}`}`)
  }
  return readFileSync(made)
}

function toolchainOrStop(record) {
  const { toolchain, missing } = findToolchain(record?.compiler)
  if (!toolchain) stop(missing)
  return toolchain
}

function isOf(record, { compiler, linkerVersion, optimiserVersion }) {
  return record.compiler === compiler && record.linker === linkerVersion && record.optimiser === optimiserVersion
}

function readRecord() {
  try {
    return JSON.parse(readFileSync(recordFile, 'utf8'))
  } catch {
    return undefined
  }
}

/** A module that names a folder of this machine is not kept. */
function inspect(artefact, bytes) {
  const text = bytes.toString('latin1')
  for (const path of [root, process.env.HOME, '/usr/', '/rustc/']) {
    if (path && text.includes(path)) stop(`${artefact.name}.wasm names a path of this machine: ${path}; remap it`)
  }
}

/** Nor are modules that are too large together. */
function weigh(modules) {
  const sizes = Object.entries(modules).map(([name, { bytes }]) => `${bytes} of ${name}`)
  const sum = Object.values(modules).reduce((total, { bytes }) => total + bytes, 0)
  if (sum > bytesMax) stop(`npm/wasm: expected at most ${bytesMax} bytes together, got ${sum}: ${sizes.join(', ')}`)
}

function buildAll(chosen) {
  const before = readRecord()
  const toolchain = toolchainOrStop(before)
  // A record tells of one compiler, so another one builds everything.
  if (before && !isOf(before, toolchain)) chosen = artefacts
  const made = {}
  const modules = {}
  mkdirSync(wasmFolder, { recursive: true })
  for (const artefact of chosen) {
    const sources = fingerprints(root, artefact, recipe(artefact))
    const bytes = build(artefact, toolchain)
    inspect(artefact, bytes)
    made[`${artefact.name}.wasm`] = bytes
    modules[`${artefact.name}.wasm`] = { bytes: bytes.length, sha256: sha256(bytes), sources }
    console.log(`npm/wasm/${artefact.name}.wasm: ${bytes.length} bytes`)
  }
  const about = 'What npm/wasm/*.wasm were built from; made by npm run build:wasm, checked by the same with -- --check'
  const { compiler, linkerVersion: linker, optimiserVersion: optimiser } = toolchain
  // Read again: another module may have been built meanwhile.
  const record = { about, compiler, linker, optimiser, modules: { ...readRecord()?.modules, ...modules } }
  weigh(record.modules)
  for (const [name, bytes] of Object.entries(made)) writeFileSync(join(wasmFolder, name), bytes)
  writeFileSync(recordFile, `${JSON.stringify(record, null, 2)}\n`)
}

/** What is wrong with the modules as they are kept. */
function staleness(record) {
  const wrong = []
  for (const artefact of artefacts) {
    const file = join(wasmFolder, `${artefact.name}.wasm`)
    const shown = relative(root, file)
    const kept = record.modules[`${artefact.name}.wasm`]
    let bytes
    try {
      bytes = readFileSync(file)
    } catch {
      wrong.push(`${shown} is missing`)
      continue
    }
    if (!kept || sha256(bytes) !== kept.sha256) {
      wrong.push(`${shown} is not the file that npm/wasm/BUILD.json tells of`)
      continue
    }
    const [first, ...others] = differences(kept.sources, fingerprints(root, artefact, recipe(artefact)))
    const more = others.length > 0 ? ` and ${others.length} more` : ''
    if (first) wrong.push(`${shown} is older than ${first}${more}`)
  }
  return wrong
}

function check() {
  const record = readRecord()
  if (!record) stop('npm/wasm/BUILD.json is missing or no JSON: run npm run build:wasm')
  const wrong = staleness(record)
  if (wrong.length > 0) stop(wrong.map((text) => `${text}: run npm run build:wasm`).join('\n'))
  weigh(record.modules)
  const { toolchain } = findToolchain(record.compiler)
  if (!toolchain || !isOf(record, toolchain)) {
    const tools = [record.compiler, record.linker, record.optimiser].join(', ')
    console.log(`npm/wasm: of today's sources; not built again, for want of one of ${tools}`)
    return
  }
  for (const artefact of artefacts) {
    if (sha256(build(artefact, toolchain)) !== record.modules[`${artefact.name}.wasm`].sha256) {
      stop(`npm/wasm/${artefact.name}.wasm: the same sources and compiler make other bytes: run npm run build:wasm`)
    }
  }
  console.log('npm/wasm: of today\'s sources, and built again to the same bytes')
}

const given = process.argv.slice(2)
const unknown = given.find((name) => name !== '--check' && !artefacts.some((artefact) => artefact.name === name))
if (unknown !== undefined) stop(`build-wasm: expected --check, policy or ring, got ${unknown}`)
if (given.includes('--check')) check()
else buildAll(given.length > 0 ? artefacts.filter((artefact) => given.includes(artefact.name)) : artefacts)
