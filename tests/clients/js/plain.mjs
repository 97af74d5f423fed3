// HTTP as Node and its usual packages speak it, without an SDK: chat completions, read by hand.
import http from 'node:http';
import axios from 'axios';
import { request as undici } from 'undici';
import { answer, MAX_TOKENS, MESSAGES, Reported } from './calls.mjs';

const headers = { 'content-type': 'application/json' };

// Each gives the status and the body.
const libraries = {
  async fetch(url, body) {
    const answered = await fetch(url, { method: 'POST', headers, body });
    return [answered.status, await answered.text()];
  },
  async undici(url, body) {
    const answered = await undici(url, { method: 'POST', headers, body });
    return [answered.statusCode, await answered.body.text()];
  },
  async axios(url, body) {
    const answered = await axios.post(url, body, { headers, responseType: 'text', validateStatus: null });
    return [answered.status, answered.data];
  },
  http(url, body) {
    return new Promise((resolve, reject) => {
      const asked = http.request(url, { method: 'POST', headers }, async (answered) => {
        const pieces = await answered.setEncoding('utf8').toArray().catch(reject);
        resolve([answered.statusCode, pieces?.join('')]);
      });
      asked.on('error', reject).end(body);
    });
  },
};

await answer(async (_, url) => {
  const ask = async (library, model, stream) => {
    const asked = JSON.stringify({ model, stream, max_tokens: MAX_TOKENS, messages: MESSAGES });
    const [status, body] = await libraries[library](url + '/v1/chat/completions', asked);
    const told = stream && status === 200 ? events(body) : [JSON.parse(body)];
    const failed = told.find((document) => document.error);
    if (failed) throw new Reported(failed.error.message, { status });
    const choices = told.map((document) => document.choices[0]);
    const text = choices.map((choice) => (choice.delta ?? choice.message).content ?? '').join('');
    return { text, last: choices.at(-1).finish_reason };
  };
  const names = Object.keys(libraries);
  return Object.fromEntries(
    names.flatMap((library) => [
      [library + '_stream', (model) => ask(library, model, true)],
      [library + '_whole', (model) => ask(library, model, false)],
    ]),
  );
});

function events(body) {
  const data = body.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
  if (data.pop() !== '[DONE]') throw new Reported('the stream did not end with [DONE]', {});
  return data.map((line) => JSON.parse(line));
}
