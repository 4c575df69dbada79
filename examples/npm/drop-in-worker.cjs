// The worker of drop-in.cjs: methods by name, as workerpool has them.
// It would run under workerpool as it is, with `require('workerpool')` in the first line.

const workerpool = require('millpond/workerpool');

function isPrime(number) {
  for (let divisor = 2; divisor * divisor <= number; divisor += 1) if (number % divisor === 0) return false;
  return number > 1;
}

workerpool.worker({
  countPrimes(from, to) {
    let count = 0;
    for (let number = from; number < to; number += 1) if (isPrime(number)) count += 1;
    return count;
  },
});
