// What all probes share: makes the calls that the command line names, all at once, and prints one JSON line a call.
//
//     node FAMILY.mjs PACKAGE URL MODE=MODEL...
//
// URL is the gate's root, for instance http://127.0.0.1:8080/llm; a mode is one of those that the family offers. The
// line of a call that ended well is {mode, model, text, last}, `last` being its last event or why it finished; the line
// of another is {mode, model, error: {chain, status, message}}, `chain` being the name that the error calls itself and
// those of its classes, from its own upwards.

export const PROMPT = 'Say hello.';
export const MESSAGES = [{ role: 'user', content: PROMPT }];
export const MAX_TOKENS = 64;
export const KEY = 'not-a-real-key';

// An error of a client that returns it instead of throwing it; `fields` is what the probe adds to it.
export class Reported extends Error {
  constructor(message, fields) {
    super(message);
    Object.assign(this, fields);
  }
}

// `offer` gets the package's name and the URL and gives the modes by their names: functions of the model.
export async function answer(offer) {
  const [name, url, ...calls] = process.argv.slice(2);
  const modes = await offer(name, url);
  await Promise.all(calls.map((call) => run(modes, ...call.split('='))));
}

async function run(modes, mode, model) {
  const told = await modes[mode](model).catch((error) => ({ error: describe(error) }));
  process.stdout.write(JSON.stringify({ mode, model, ...told }) + '\n');
}

function describe(error) {
  // The AI SDK wraps the errors of its tries.
  const { status, statusCode, status_code, retryable } = error.lastError ?? error;
  return {
    chain: chain(error),
    status: status ?? statusCode ?? status_code ?? null,
    message: error.message,
    retryable,
  };
}

function chain(error) {
  const names = [error.name];
  for (let at = Object.getPrototypeOf(error); at !== null; at = Object.getPrototypeOf(at)) {
    names.push(at.constructor.name);
  }
  return names;
}
