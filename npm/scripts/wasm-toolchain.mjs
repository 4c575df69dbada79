// Finds a Rust compiler that can build the WebAssembly modules, a linker and an optimiser; or says what is missing.
//
// Shared memory needs a standard library built with atomics, which no toolchain ships. So the compiler must come with
// the sources of its library (rust-src), and is allowed what is unstable by RUSTC_BOOTSTRAP. Debian's packages for
// building web browsers are such a compiler; elsewhere rustup gives one. The compiler that made the modules which are
// kept is preferred, since only it makes the same bytes.

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

const howTo = `build-wasm: a Rust compiler with its library's sources, a linker for WebAssembly or wasm-opt is missing
  on Debian:   apt-get install rustc-web cargo-web rust-web-src binaryen, and lld 16 or later or rustup's rust-lld
  elsewhere:   rustup toolchain install stable --component rust-src, and binaryen
  by hand:     MILLPOND_WASM_RUSTC, MILLPOND_WASM_CARGO, MILLPOND_WASM_LD and MILLPOND_WASM_OPT name the four programs`

function answer(program, ...parameters) {
  const result = spawnSync(program, parameters, { encoding: 'utf8' })
  return result.status === 0 ? result.stdout.trim() : undefined
}

function rustupToolchains() {
  const folder = join(process.env.RUSTUP_HOME ?? join(homedir(), '.rustup'), 'toolchains')
  return existsSync(folder) ? readdirSync(folder).sort().map((name) => join(folder, name)) : []
}

function compilers() {
  const { MILLPOND_WASM_RUSTC: rustc, MILLPOND_WASM_CARGO: cargo } = process.env
  if (rustc) return [{ rustc, cargo: cargo ?? 'cargo' }]
  const folders = [...rustupToolchains().map((toolchain) => join(toolchain, 'bin')), '/usr/bin']
  return folders.map((folder) => ({ rustc: join(folder, 'rustc'), cargo: join(folder, 'cargo') }))
    .filter((pair) => existsSync(pair.rustc) && existsSync(pair.cargo))
}

/** A compiler with all that is to be known of it, or none if it has no sources of its library. */
function described({ rustc, cargo }) {
  const sysroot = answer(rustc, '--print', 'sysroot')
  const details = answer(rustc, '-vV')
  const source = sysroot && join(sysroot, 'lib', 'rustlib', 'src', 'rust')
  if (!details || !existsSync(join(source, 'library', 'core', 'src', 'lib.rs'))) return undefined
  const host = /^host: (.*)$/m.exec(details)?.[1]
  return { rustc, cargo, source, sysroot, host, compiler: details.split('\n')[0] }
}

/** Linkers for WebAssembly, the best first: one of another release than the compiler works as a rule. */
function linkers(compiler) {
  const named = process.env.MILLPOND_WASM_LD
  if (named) return [named]
  const ofToolchain = (toolchain) => join(toolchain, 'lib', 'rustlib', compiler.host, 'bin', 'rust-lld')
  const ofPath = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'wasm-ld'))
  const llvm = '/usr/lib'
  const ofDebian = readdirSync(existsSync(llvm) ? llvm : '.').filter((name) => /^llvm-(1[6-9]|[2-9]\d)$/.test(name))
    .sort().reverse().map((name) => join(llvm, name, 'bin', 'wasm-ld'))
  // Stable before nightly: both may be there, and the record should not change with the day.
  const isNightly = (toolchain) => Number(toolchain.includes('nightly'))
  const toolchains = rustupToolchains().sort((one, other) => isNightly(one) - isNightly(other))
  return [compiler.sysroot, ...toolchains].map(ofToolchain).concat(ofPath, ofDebian).filter((path) => existsSync(path))
}

function linkerVersion(linker) {
  const parameters = linker.endsWith('rust-lld') ? ['-flavor', 'wasm', '--version'] : ['--version']
  return /LLD [\d.]+/.exec(answer(linker, ...parameters) ?? '')?.[0]
}

/** A compiler, the one called `preferred` if it is there, with its helpers; or what is missing. */
export function findToolchain(preferred) {
  const found = compilers().map(described).filter(Boolean)
  const compiler = found.find((one) => one.compiler === preferred) ?? found[0]
  const linker = compiler && linkers(compiler)[0]
  const version = linker && linkerVersion(linker)
  const optimiser = process.env.MILLPOND_WASM_OPT ?? 'wasm-opt'
  const optimiserVersion = /^wasm-opt version \d+/.exec(answer(optimiser, '--version') ?? '')?.[0]
  if (!version || !optimiserVersion) return { missing: howTo }
  const cargoHome = process.env.CARGO_HOME ?? join(homedir(), '.cargo')
  return { toolchain: { ...compiler, linker, linkerVersion: version, optimiser, optimiserVersion, cargoHome } }
}
