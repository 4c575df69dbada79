// A worker script for the tests, as a classic script: it loads the global build with importScripts, as workerpool's
// own documentation tells its users to.

importScripts('/millpond/millpond.global.js');

millpond.worker({
  add: (a, b) => a + b,
  isolated: () => self.crossOriginIsolated,
});
